"""The CPU plugin of OpenVINO as a device program: numpy and openvino, nothing of the suite."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import openvino

DEVICE = "CPU"
CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
"""Computes in float32, as the model says: by default the plugin uses bfloat16 if the processor has it."""


@lru_cache(2)  # as many models as one case runs in turn
def _compiled(model: bytes) -> Any:
    core = openvino.Core()
    return core.compile_model(core.read_model(model), DEVICE, CONFIG)


def run(model: bytes, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a model; without inputs it is compiled and nothing is run."""
    compiled = _compiled(model)
    if compiled.inputs and not inputs:
        return []
    found = compiled.create_infer_request().infer(list(inputs))
    return [found[place].copy() for place in compiled.outputs]
