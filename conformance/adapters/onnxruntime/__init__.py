"""ONNX Runtime, where it is installed.

onnxruntime:cpu             the CPU provider on the QDQ form of a case's whole model (`interchange.onnx_form`).
onnxruntime:qnn-htp         Qualcomm's HTP emulator on the same with unsigned codes (`interchange.unsigned_form`).
onnxruntime:qnn-htp-signed  the same emulator on the codes as they are.

Accepted means that the model has a form in ONNX and that a session is made of it. The emulator is in packages of its
own, in another interpreter's environment (`--python`).
"""

from __future__ import annotations

from npu_assay.conformance.adapters.engine import offered

__dir__, __getattr__ = offered(__name__, ("cpu", "qnn_htp", "qnn_htp_signed"))
