"""Engines that `test_engine` runs in child processes: a right one, and others that lie, die or refuse."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]
_compiled: list[bytes] = []


@lru_cache(2)
def _model(blob: bytes) -> Any:
    if blob in _compiled:
        raise RuntimeError("compiled a second time")
    _compiled.append(blob)
    return ReferenceEvaluator(onnx.load_from_string(blob))


def right(blob: bytes, inputs: Sequence[Array]) -> list[Array]:
    """What the model says, each model compiled once."""
    model = _model(blob)
    if not inputs:
        return []
    return [np.asarray(found) for found in model.run(None, dict(zip(model.input_names, inputs, strict=True)))]


def lying(blob: bytes, inputs: Sequence[Array]) -> list[Array]:
    """Codes in another order."""
    return [np.flip(found, -1) for found in right(blob, inputs)]


def dying(blob: bytes, inputs: Sequence[Array]) -> list[Array]:
    """Ends its process when it runs, not when it compiles."""
    if inputs:
        os.kill(os.getpid(), signal.SIGKILL)
    return []


def refusing(blob: bytes, inputs: Sequence[Array]) -> list[Array]:
    """Compiles nothing."""
    raise RuntimeError("not this model")
