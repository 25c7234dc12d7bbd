"""IREE, where its compiler and its runtime are installed.

iree:cpu   the llvm-cpu target on the QDQ form of a case's whole model (`interchange.onnx_form`), run on `local-sync`.

Accepted means that the model has a form in ONNX, and that IREE imports and compiles it.
"""

from __future__ import annotations

from npu_assay.conformance.adapters.engine import installed
from npu_assay.partitioners.exir.backend import Backend

BACKENDS = ("cpu",)
NEEDED = (("iree.compiler", "iree-base-compiler"), ("iree.runtime", "iree-base-runtime"))


def __dir__() -> list[str]:
    return list(BACKENDS)


def __getattr__(name: str) -> Backend:
    """A backend by its name. Raises UsageError when IREE is not installed."""
    if name not in BACKENDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return installed(__name__, NEEDED, name)
