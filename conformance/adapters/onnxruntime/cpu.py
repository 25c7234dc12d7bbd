"""The CPU provider of ONNX Runtime as a device program: numpy and onnxruntime, nothing of the suite."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import onnxruntime

PROVIDER = "CPUExecutionProvider"


@lru_cache(2)  # as many models as one case runs in turn
def _session(model: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=[PROVIDER])


def run(model: bytes, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a model; without inputs the session is made and nothing is run."""
    session = _session(model)
    names = [found.name for found in session.get_inputs()]
    if names and not inputs:
        return []
    return list(session.run(None, dict(zip(names, inputs, strict=True))))
