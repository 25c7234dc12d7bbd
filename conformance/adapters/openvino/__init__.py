"""OpenVINO, where it is installed.

openvino:cpu   the CPU plugin on the QDQ form of a case's whole model (`interchange.onnx_form`).

Accepted means that the model has a form in ONNX, that the ONNX frontend reads it and that the plugin compiles it.
"""

from __future__ import annotations

from npu_assay.conformance.adapters.engine import installed
from npu_assay.partitioners.exir.backend import Backend

BACKENDS = ("cpu",)


def __dir__() -> list[str]:
    return list(BACKENDS)


def __getattr__(name: str) -> Backend:
    """A backend by its name. Raises UsageError when OpenVINO is not installed."""
    if name not in BACKENDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return installed(__name__, (("openvino", "openvino"),), name)
