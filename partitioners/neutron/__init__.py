"""NXP eIQ Neutron: partitioner, compiler to TFLite, and a simulated NPU that runs what it compiles."""

from __future__ import annotations

from typing import Any

import torch

from partitioners.exir.backend import Backend
from partitioners.neutron.backend import NeutronBackend
from partitioners.neutron.compile_spec import NeutronCompileSpecBuilder, generate_neutron_compile_spec
from partitioners.neutron.lowering import CompileError
from partitioners.neutron.options import CustomDelegationOptions
from partitioners.neutron.partitioner import NeutronPartitioner
from partitioners.neutron.passes import PASSES
from partitioners.neutron.runtime import NeutronRuntime
from partitioners.neutron.target import NeutronTargetSpec
from partitioners.neutron.tflite import read as _read

__all__ = [
    "CompileError",
    "CustomDelegationOptions",
    "NeutronBackend",
    "NeutronCompileSpecBuilder",
    "NeutronPartitioner",
    "NeutronRuntime",
    "NeutronTargetSpec",
    "backend",
    "generate_neutron_compile_spec",
]


def _partitioner() -> NeutronPartitioner:
    return NeutronPartitioner(preserve_ops=[torch.ops.aten.prelu.default])


def _quantizer() -> Any:
    # Needs torchao, which is an extra; nothing else here does.
    from partitioners.neutron.quantizer import NeutronQuantizer

    return NeutronQuantizer()


def _operators(blob: bytes) -> tuple[str, ...]:
    return tuple(operator.code for operator in _read(blob).operators)


backend = Backend(
    name="neutron",
    table="neutron@1.3",
    partitioner=_partitioner,
    details=NeutronBackend,
    runtime=NeutronRuntime(),
    quantizer=_quantizer,
    passes=PASSES,
    blob_operators=_operators,
    faults="partitioners.neutron.faults:catalogue",
)
