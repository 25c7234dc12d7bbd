"""ONNX Runtime, where it is installed.

onnxruntime:cpu   the CPU provider on the QDQ form of a case's whole model (`interchange.onnx_form`).

ONNX Runtime takes a model or does not, so a case is one delegate or none: accepted means that the model has a form in
ONNX and that a session is made of it. Sessions are made and run in a process of their own: a crash there is a result.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from npu_assay.conformance.common.errors import UsageError

if TYPE_CHECKING:
    from npu_assay.partitioners.exir.backend import Backend

BACKENDS = ("cpu",)


def __dir__() -> list[str]:
    return list(BACKENDS)


def __getattr__(name: str) -> Backend:
    """A backend by its name. Raises UsageError when ONNX Runtime is not installed."""
    if name not in BACKENDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec("onnxruntime") is None:
        raise UsageError(f"onnxruntime:{name} needs the package onnxruntime: pip install onnxruntime")
    return _backend()


@cache
def _backend() -> Backend:
    made: Backend = import_module(f"{__name__}.provider").backend()
    return made
