"""The CPU provider of ONNX Runtime as a backend: it gets the whole model or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from npu_assay.conformance.adapters.executorch.machine import Machine, MachineError
from npu_assay.conformance.interchange.onnx_form import onnx_model
from npu_assay.conformance.interchange.onnx_writer import FormError
from npu_assay.conformance.interchange.whole import Whole, inner_nodes
from npu_assay.partitioners.exir import DelegationSpec, PartitionResult
from npu_assay.partitioners.exir.backend import Backend, BackendDetails, CompileSpec, PreprocessResult, Rejection
from npu_assay.partitioners.exir.ops import target_name

TABLE = "onnxruntime_cpu@1.31"
PROVIDER = "CPUExecutionProvider"
SENTENCE = {
    "session": "ONNX Runtime must make a session of the model",
}
"""Of the reasons of which the message alone does not tell the rule."""


def execute(blob: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of a model in this process; without inputs the session is made and nothing is run."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(blob, options, providers=[PROVIDER])
    names = [found.name for found in session.get_inputs()]
    if names and not inputs:
        return []
    feeds = {name: x.numpy() for name, x in zip(names, inputs, strict=True)}
    return [torch.from_numpy(array.copy()) for array in session.run(None, feeds)]


MACHINE = Machine(f"{__name__}:execute")


class CpuPartitioner(Whole):
    """Tags all of a model that has a form in ONNX and becomes a session; `rejections` says why not another one."""

    def __init__(self) -> None:
        super().__init__(DelegationSpec(OnnxRuntimeCpu.__name__, []), self._taken)
        self.rejections: list[Rejection] = []

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the program or leave it; see `rejections` for the reason."""
        self.rejections = []
        return super().partition(exported_program)

    def _taken(self, program: ExportedProgram) -> bool:
        try:
            MACHINE.run(_model(program), [])
        except FormError as error:
            self._reject(program, error.code, str(error))
        except MachineError as error:
            self._reject(program, "session", str(error))
        return not self.rejections

    def _reject(self, program: ExportedProgram, code: str, found: str) -> None:
        """One reason for all of the model."""
        sentence = SENTENCE.get(code, "ONNX must have a form of the operator")
        for node in inner_nodes(program):
            self.rejections.append(Rejection(node.name, target_name(node.target), code, found, sentence))


class OnnxRuntimeCpu(BackendDetails):
    """Writes the ONNX model of a delegated program."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """The model's bytes. Raises FormError for what has no form in ONNX."""
        return PreprocessResult(_model(edge_program))


def _model(program: ExportedProgram) -> bytes:
    return bytes(onnx_model(program, "case").SerializeToString(deterministic=True))


class Sessions:
    """ONNX Runtime in a child process."""

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec] = ()) -> bytes:
        """The model itself: the child process makes a session of it for every run."""
        return processed_bytes

    def execute(self, handle: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs. Raises MachineError when ONNX Runtime refuses the model or dies of it."""
        return MACHINE.run(handle, inputs)


def _make(**_: Any) -> CpuPartitioner:
    return CpuPartitioner()


def backend() -> Backend:
    """The backend of this module."""
    return Backend(
        name="onnxruntime:cpu",
        table=TABLE,
        partitioner=_make,
        details=OnnxRuntimeCpu,
        runtime=Sessions(),
        distributions=("onnxruntime",),
        processes=1,
    )
