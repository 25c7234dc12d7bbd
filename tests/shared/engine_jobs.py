"""Engines that `test_engine` runs in child processes: a right one, and others that lie, die or refuse."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx.reference import ReferenceEvaluator

from npu_assay.conformance.adapters.engine import kept

_compiled: list[bytes] = []


@kept
def _model(blob: bytes) -> Any:
    if blob in _compiled:
        raise RuntimeError("compiled a second time")
    _compiled.append(blob)
    return ReferenceEvaluator(onnx.load_from_string(blob))


def right(blob: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What the model says, each model compiled once."""
    model = _model(blob)
    if not inputs:
        return []
    feeds = {name: x.numpy() for name, x in zip(model.input_names, inputs, strict=True)}
    return [torch.from_numpy(np.asarray(found).copy()) for found in model.run(None, feeds)]


def lying(blob: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Codes in another order."""
    return [found.flip(-1) for found in right(blob, inputs)]


def dying(blob: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Ends its process when it runs, not when it compiles."""
    if inputs:
        os.kill(os.getpid(), signal.SIGKILL)
    return []


def refusing(blob: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Compiles nothing."""
    raise RuntimeError("not this model")
