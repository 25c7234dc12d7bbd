"""NXP eIQ Neutron: partitioner, compiler to TFLite, and a simulated NPU that runs what it compiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from npu_assay.partitioners.exir.backend import Backend
from npu_assay.partitioners.exir.compiling import CompileError
from npu_assay.partitioners.neutron.backend import NeutronBackend
from npu_assay.partitioners.neutron.compile_spec import NeutronCompileSpecBuilder, generate_neutron_compile_spec
from npu_assay.partitioners.neutron.options import CustomDelegationOptions
from npu_assay.partitioners.neutron.partitioner import NeutronPartitioner
from npu_assay.partitioners.neutron.passes import PASSES
from npu_assay.partitioners.neutron.runtime import NeutronRuntime
from npu_assay.partitioners.neutron.target import NeutronTargetSpec
from npu_assay.partitioners.neutron.tflite import read as _read

__all__ = [
    "CompileError",
    "CustomDelegationOptions",
    "NeutronBackend",
    "NeutronCompileSpecBuilder",
    "NeutronPartitioner",
    "NeutronRuntime",
    "NeutronTargetSpec",
    "backend",
    "backend_1_4",
    "generate_neutron_compile_spec",
]


def __getattr__(name: str) -> Any:
    """NeutronQuantizer, which alone needs torchao: only who asks for it gets a ModuleNotFoundError without torchao."""
    if name == "NeutronQuantizer":
        from npu_assay.partitioners.neutron.quantizer import NeutronQuantizer  # needs torchao

        return NeutronQuantizer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _quantizer(release: str) -> Callable[[], Any]:
    def quantizer() -> Any:
        # Needs torchao, which is an extra; nothing else here does.
        from npu_assay.partitioners.neutron.quantizer import NeutronQuantizer

        return NeutronQuantizer(release)

    return quantizer


def _partitioner_1_4(**options: Any) -> NeutronPartitioner:
    return NeutronPartitioner(generate_neutron_compile_spec("imxrt700", release="1.4"), **options)


def _operators(blob: bytes) -> tuple[str, ...]:
    return tuple(operator.code for operator in _read(blob).operators)


backend = Backend(
    name="neutron",
    table="neutron@1.3",
    partitioner=NeutronPartitioner,
    details=NeutronBackend,
    runtime=NeutronRuntime(),
    quantizer=_quantizer("1.3"),
    passes=PASSES,
    blob_operators=_operators,
    faults="npu_assay.faults.neutron:catalogue",
)
backend_1_4 = replace(
    backend,
    name="neutron-1.4",
    table="neutron@1.4",
    partitioner=_partitioner_1_4,
    quantizer=_quantizer("1.4"),
    faults="npu_assay.faults.neutron:catalogue_1_4",
)
