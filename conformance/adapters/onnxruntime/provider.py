"""The CPU provider of ONNX Runtime: the part that is not common to all engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from npu_assay.conformance.adapters.engine import Engine, kept, onnx_bytes

PROVIDER = "CPUExecutionProvider"


@kept
def _session(blob: bytes) -> Any:
    import onnxruntime  # optional

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(blob, options, providers=[PROVIDER])


def execute(blob: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of a model in this process; without inputs the session is made and nothing is run."""
    session = _session(blob)
    names = [found.name for found in session.get_inputs()]
    if names and not inputs:
        return []
    feeds = {name: x.numpy() for name, x in zip(names, inputs, strict=True)}
    return [torch.from_numpy(array.copy()) for array in session.run(None, feeds)]


ENGINES = {
    "cpu": Engine(
        name="onnxruntime:cpu",
        table="onnxruntime_cpu@1.31",
        backend_id="OnnxRuntimeCpu",
        execute=f"{__name__}:execute",
        refused="ONNX Runtime must make a session of the model",
        distributions=("onnxruntime",),
        form=onnx_bytes,
    )
}
