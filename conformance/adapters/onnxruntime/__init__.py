"""ONNX Runtime, where it is installed.

onnxruntime:cpu             the CPU provider on the QDQ form of a case's whole model (`interchange.onnx_form`).
onnxruntime:qnn-htp         Qualcomm's HTP emulator on the same with unsigned codes (`interchange.unsigned_form`).
onnxruntime:qnn-htp-signed  the same emulator on the codes as they are.

Accepted means that the model has a form in ONNX and that a session is made of it. The emulator is in packages of its
own, in another interpreter's environment (`--python`).
"""

from __future__ import annotations

from typing import Any

from npu_assay.conformance.adapters.engine import offered

_here = offered(__name__, ("cpu",), ("onnxruntime", "onnxruntime"))
_elsewhere = offered(__name__, ("qnn_htp", "qnn_htp_signed"))


def __dir__() -> list[str]:
    return [*_here[0](), *_elsewhere[0]()]


def __getattr__(name: str) -> Any:
    return (_elsewhere if name in _elsewhere[0]() else _here)[1](name)
