"""OpenVINO, where it is installed.

openvino:cpu   the CPU plugin on the QDQ form of a case's whole model (`interchange.onnx_form`).

Accepted means that the model has a form in ONNX, that the ONNX frontend reads it and that the plugin compiles it.
"""

from __future__ import annotations

from npu_assay.conformance.adapters.engine import offered

__dir__, __getattr__ = offered(__name__, ("cpu",))
