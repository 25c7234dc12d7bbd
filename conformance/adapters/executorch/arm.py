"""ExecuTorch's Arm backends up to TOSA: TOSAPartitioner and EthosUPartitioner, TOSABackend, Arm's reference model."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch.export import ExportedProgram

from npu_assay.conformance.adapters.executorch.delegation import TheirPartitioner, compiler
from npu_assay.conformance.adapters.executorch.silence import quiet
from npu_assay.conformance.common.errors import NotRunError
from npu_assay.conformance.devices.machine import Machine
from npu_assay.partitioners.exir.backend import Backend, CompileSpec

MODEL = "tosa_reference_model"
DISTRIBUTION = "tosa-tools"
MARK = b"orders of memory: "
Orders = Sequence[Sequence[Sequence[int]]]
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
    orders = _orders(program)  # before the compiler writes on the program
    return _with(orders, bytes(TOSABackend.preprocess(program, specs).processed_bytes))


def tosa_stage(program: ExportedProgram, specs: list[Any]) -> bytes:
    """The TOSA flatbuffer that EthosUBackend gives to Vela."""
    spec = TOSABackend.filter_tosa_compile_specs(EthosUCompileSpec._from_list(specs))
    orders = _orders(program)
    return _with(orders, bytes(TOSABackend._preprocess(program, spec).processed_bytes))


def flatbuffer(program: ExportedProgram, compiled: bytes) -> bytes:
    """A delegate's compiled bytes as `ReferenceModel` loads them. program: the delegate's, before compilation."""
    return _with(_orders(program), compiled)


def _orders(program: ExportedProgram) -> Orders:
    """The dim order of each input and of each output."""
    named = {node.name: node.meta.get("val") for node in program.graph.nodes}
    signature = program.graph_signature
    return tuple(
        [_order(named[str(name)]) for name in names] for names in (signature.user_inputs, signature.user_outputs)
    )


def _order(value: Any) -> list[int]:
    return list(value.dim_order()) if isinstance(value, torch.Tensor) else []


def _with(orders: Orders, flatbuffer: bytes) -> bytes:
    """The flatbuffer, after a line with the dim orders if one of them is not contiguous.

    TOSA's tensors have their axes in the order of memory. ExecuTorch's runtime passes bytes on and takes the dim orders
    from the program, which the reference model does not have.
    """
    usual = all(order == sorted(order) for side in orders for order in side)
    return flatbuffer if usual else MARK + json.dumps(orders).encode() + b"\n" + flatbuffer


def execute(blob: bytes, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a TOSA flatbuffer on Arm's reference model in this process."""
    import tosa_reference_model as model  # optional

    os.environ["TOSA_MODEL_NO_BACKTRACE"] = "1"  # else it asks gdb, for long, and reports of equal cases differ
    outputs, status = model.run(blob, list(inputs))
    if status != model.GraphStatus.TOSA_VALID:
        raise RuntimeError(f"the reference model returned {status}")
    return list(outputs)


@dataclass(frozen=True)
class Loaded:
    """A flatbuffer, and the dim orders of its inputs and outputs; None if all are contiguous."""

    flatbuffer: bytes
    orders: Orders | None = None


class ReferenceModel:
    """Arm's TOSA reference model, in a child process."""

    def __init__(self) -> None:
        self.machine = Machine(f"{__name__}:execute")

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec] = ()) -> Loaded:
        """The flatbuffer itself. Raises NotRunError if the reference model is not installed."""
        if find_spec(MODEL) is None:
            raise NotRunError(f"cannot run TOSA: {MODEL} is not installed (pip install {DISTRIBUTION})")
        if not processed_bytes.startswith(MARK):
            return Loaded(processed_bytes)
        line, _, flatbuffer = processed_bytes.removeprefix(MARK).partition(b"\n")
        return Loaded(flatbuffer, json.loads(line))

    def execute(self, handle: Loaded, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs. Raises MachineError if the model refuses the graph, or if its process dies."""
        if handle.orders is None:
            return self.machine.run(handle.flatbuffer, inputs)
        given, wanted = handle.orders
        laid = [x.permute(tuple(order)).contiguous() for x, order in zip(inputs, given, strict=True)]
        outputs = self.machine.run(handle.flatbuffer, laid)
        return [y.permute([order.index(a) for a in range(y.dim())]) for y, order in zip(outputs, wanted, strict=True)]


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
