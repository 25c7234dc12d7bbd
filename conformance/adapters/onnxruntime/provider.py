"""The CPU provider of ONNX Runtime: the part that is not common to all engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from npu_assay.conformance.adapters.engine import Engine, Form, kept, onnx_bytes
from npu_assay.conformance.interchange.onnx_form import onnx_model
from npu_assay.conformance.interchange.unsigned_form import unsigned

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


def unsigned_bytes(program: ExportedProgram) -> bytes:
    """A program in the ONNX form on unsigned codes. Raises FormError."""
    return bytes(unsigned(onnx_model(program, "case")).SerializeToString(deterministic=True))


def _qnn_htp(name: str, form: Form) -> Engine:
    return Engine(
        name=f"onnxruntime:{name}",
        table="qnn_htp@2.51",
        backend_id="OnnxRuntimeQnnHtp",
        execute="scratch_qnn:execute",
        refused="the provider must place every node of the model on HTP",
        distributions=(),
        form=form,
    )


ENGINES = {
    "cpu": Engine(
        name="onnxruntime:cpu",
        table="onnxruntime_cpu@1.31",
        backend_id="OnnxRuntimeCpu",
        execute=f"{__name__}:execute",
        refused="ONNX Runtime must make a session of the model",
        distributions=("onnxruntime",),
        form=onnx_bytes,
    ),
    "qnn_htp": _qnn_htp("qnn-htp", unsigned_bytes),
    "qnn_htp_signed": _qnn_htp("qnn-htp-signed", onnx_bytes),
}
