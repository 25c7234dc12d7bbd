"""The CPU plugin of OpenVINO: the part that is not common to all engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from npu_assay.conformance.adapters.engine import Engine, kept, onnx_bytes

DEVICE = "CPU"
CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
"""Computes in float32, as the model says: by default the plugin uses bfloat16 if the processor has it."""


@kept
def _compiled(blob: bytes) -> Any:
    import openvino  # optional

    core = openvino.Core()
    return core.compile_model(core.read_model(blob), DEVICE, CONFIG)


def execute(blob: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of a model in this process; without inputs it is compiled and nothing is run."""
    model = _compiled(blob)
    if model.inputs and not inputs:
        return []
    found = model.create_infer_request().infer([x.numpy() for x in inputs])
    return [torch.from_numpy(found[place].copy()) for place in model.outputs]


ENGINES = {
    "cpu": Engine(
        name="openvino:cpu",
        table="openvino_cpu@2026.4",
        backend_id="OpenVinoCpu",
        execute=f"{__name__}:execute",
        refused="OpenVINO must read and compile the model",
        distributions=("openvino",),
        form=onnx_bytes,
    )
}
