"""LiteRT, where it is installed.

litert:reference   the built-in reference kernels on a case's whole model in TFLite (`interchange.tflite_form`).
litert:xnnpack     the interpreter with its defaults: the XNNPACK delegate, and optimized kernels for all else.

Accepted means that the model has an int8 form in TFLite and that LiteRT plans its memory.
"""

from __future__ import annotations

from npu_assay.conformance.adapters.engine import installed
from npu_assay.partitioners.exir.backend import Backend

BACKENDS = ("reference", "xnnpack")


def __dir__() -> list[str]:
    return list(BACKENDS)


def __getattr__(name: str) -> Backend:
    """A backend by its name. Raises UsageError when LiteRT is not installed."""
    if name not in BACKENDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return installed(__name__, (("ai_edge_litert", "ai-edge-litert"),), name)
