"""Arm Ethos-U: partitioner, compiler to TOSA, and a simulated device that runs what it compiles."""

from __future__ import annotations

from typing import Any

from npu_assay.partitioners.ethosu.backend import EthosUBackend
from npu_assay.partitioners.ethosu.compile_spec import EthosUCompileSpec, VelaExternalBlockPlacements
from npu_assay.partitioners.ethosu.partitioner import EthosUPartitioner
from npu_assay.partitioners.ethosu.runtime import EthosURuntime
from npu_assay.partitioners.ethosu.tosa_format import read as _read
from npu_assay.partitioners.ethosu.vela import VELA
from npu_assay.partitioners.exir.backend import Backend

__all__ = [
    "EthosUBackend",
    "EthosUCompileSpec",
    "EthosUPartitioner",
    "EthosURuntime",
    "VelaExternalBlockPlacements",
    "ethos_u55",
    "ethos_u85",
]


def __getattr__(name: str) -> Any:
    """EthosUQuantizer, which alone needs torchao: only who asks for it gets a ModuleNotFoundError without torchao."""
    if name == "EthosUQuantizer":
        from npu_assay.partitioners.ethosu.quantizer import EthosUQuantizer  # needs torchao

        return EthosUQuantizer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _operators(blob: bytes) -> tuple[str, ...]:
    return tuple(operator.code for operator in _read(blob).operators)


def _parts(target: str) -> dict[str, Any]:
    """What the backends of two devices have in common, each for its target."""

    def partitioner(**options: Any) -> EthosUPartitioner:
        return EthosUPartitioner(EthosUCompileSpec(target), **options)

    def quantizer() -> Any:
        """int8 with weights per channel. Imports torchao, which only this needs."""
        # needs torchao
        from npu_assay.partitioners.ethosu.quantizer import EthosUQuantizer, get_symmetric_quantization_config

        return EthosUQuantizer(EthosUCompileSpec(target)).set_global(get_symmetric_quantization_config())

    return {
        "partitioner": partitioner,
        "details": EthosUBackend,
        "runtime": EthosURuntime(),
        "quantizer": quantizer,
        "blob_checks": {"vela": VELA},
        "blob_operators": _operators,
        "faults": "npu_assay.faults.ethosu:catalogue",
    }


ethos_u55 = Backend(name="ethos-u55", table="ethos_u55@1.5", **_parts("ethos-u55-128"))
ethos_u85 = Backend(name="ethos-u85", table="ethos_u85@1.5", **_parts("ethos-u85-256"))
