"""The simulator of Rockchip's RKNN Toolkit 2, in a Python that has it (`--python`).

rknn:rk3588, rknn:rk3576, rknn:rk3562, rknn:rv1106   the simulator of a chip on the QDQ form of a case's whole model
                                                     (`interchange.onnx_form`, opset 17).

Accepted means that the model has a form in ONNX, that the toolkit builds it, and that it places all of it on the NPU.
"""

from __future__ import annotations

from npu_assay.conformance.adapters.engine import offered

__dir__, __getattr__ = offered(__name__, ("rk3588", "rk3576", "rk3562", "rv1106"))
