"""ExecuTorch's Arm backends up to TOSA: TOSAPartitioner and EthosUPartitioner, TOSABackend, Arm's reference model."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch.export import ExportedProgram

from npu_assay.conformance.adapters.executorch.delegation import TheirPartitioner, compiler
from npu_assay.conformance.adapters.executorch.quiet import quiet
from npu_assay.conformance.common.errors import NotRunError
from npu_assay.conformance.isolation.machine import Machine
from npu_assay.partitioners.exir.backend import Backend, CompileSpec

MODEL = "tosa_reference_model"
DISTRIBUTION = "tosa-tools"
SPECIFICATION = "TOSA-1.0+INT+int16+int4+cf"
TARGETS = {"ethos_u55": "ethos-u55-128", "ethos_u85": "ethos-u85-256"}
TABLES = {"arm_tosa": "ethos_u85@1.5", "ethos_u55": "ethos_u55@1.5", "ethos_u85": "ethos_u85@1.5"}

with quiet():
    from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
    from executorch.backends.arm.tosa.backend import TOSABackend
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner

logging.getLogger("executorch").setLevel(logging.ERROR)


def partitioner(name: str, **options: Any) -> Any:
    """ExecuTorch's partitioner for one of the backends; the options are those of its constructor."""
    if name == "arm_tosa":
        return TOSAPartitioner(TosaCompileSpec(SPECIFICATION), **options)
    return EthosUPartitioner(EthosUCompileSpec(TARGETS[name]), **options)


def tosa(program: ExportedProgram, specs: list[Any]) -> bytes:
    """The TOSA flatbuffer of TOSABackend."""
    return bytes(TOSABackend.preprocess(program, specs).processed_bytes)


def tosa_stage(program: ExportedProgram, specs: list[Any]) -> bytes:
    """The TOSA flatbuffer that EthosUBackend gives to Vela."""
    spec = TOSABackend.filter_tosa_compile_specs(EthosUCompileSpec._from_list(specs))
    return bytes(TOSABackend._preprocess(program, spec).processed_bytes)


def execute(blob: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of a TOSA flatbuffer on Arm's reference model in this process."""
    import tosa_reference_model as model

    os.environ["TOSA_MODEL_NO_BACKTRACE"] = "1"  # else it asks gdb, for long, and reports of equal cases differ
    outputs, status = model.run(blob, [x.numpy() for x in inputs])
    if status != model.GraphStatus.TOSA_VALID:
        raise RuntimeError(f"the reference model says {status}")
    return [torch.tensor(array) for array in outputs]


class ReferenceModel:
    """Arm's TOSA reference model, in a child process."""

    def __init__(self) -> None:
        self.machine = Machine(f"{__name__}:execute")

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec] = ()) -> bytes:
        """The flatbuffer itself. Raises NotRunError when the model is not installed."""
        if find_spec(MODEL) is None:
            raise NotRunError(f"nothing runs TOSA here: {MODEL} is not installed (pip install {DISTRIBUTION})")
        return processed_bytes

    def execute(self, handle: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs. Raises MachineError when the model refuses the graph or dies of it."""
        return self.machine.run(handle, inputs)


def backend(name: str) -> Backend:
    """The backend of that name."""
    backend_id, compile_ = ("TOSABackend", tosa) if name == "arm_tosa" else ("EthosUBackend", tosa_stage)

    def make(**options: Any) -> TheirPartitioner:
        return TheirPartitioner(partitioner(name, **options))

    return Backend(
        name=f"executorch:{name.replace('_', '-')}",
        table=TABLES[name],
        partitioner=make,
        details=compiler(backend_id, compile_),
        runtime=ReferenceModel(),
        distributions=("executorch", DISTRIBUTION),
        processes=1,
        flow=f"{__package__}.arm_flow:ArmFlow",
    )
