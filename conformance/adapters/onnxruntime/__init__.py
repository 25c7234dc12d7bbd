"""ONNX Runtime, where it is installed.

onnxruntime:cpu   the CPU provider on the QDQ form of a case's whole model (`interchange.onnx_form`).

Accepted means that the model has a form in ONNX and that a session is made of it.
"""

from __future__ import annotations

from npu_assay.conformance.adapters.engine import installed
from npu_assay.partitioners.exir.backend import Backend

BACKENDS = ("cpu",)


def __dir__() -> list[str]:
    return list(BACKENDS)


def __getattr__(name: str) -> Backend:
    """A backend by its name. Raises UsageError when ONNX Runtime is not installed."""
    if name not in BACKENDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return installed(__name__, (("onnxruntime", "onnxruntime"),), name)
