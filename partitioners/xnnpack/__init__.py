"""XNNPACK: partitioner, compiler to delegate blobs, and a simulated device that runs what it compiles."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from npu_assay.partitioners.exir.backend import Backend
from npu_assay.partitioners.xnnpack import configs as _configs
from npu_assay.partitioners.xnnpack.backend import XnnpackBackend
from npu_assay.partitioners.xnnpack.options import ConfigPrecisionType
from npu_assay.partitioners.xnnpack.partitioner import (
    XnnpackDynamicallyQuantizedPartitioner,
    XnnpackFloatingPointPartitioner,
    XnnpackPartitioner,
    XnnpackQuantizedPartitioner,
)
from npu_assay.partitioners.xnnpack.runtime import XnnpackRuntime
from npu_assay.partitioners.xnnpack.xnn_format import operators as _operators

__all__ = [
    "ConfigPrecisionType",
    "XnnpackBackend",
    "XnnpackDynamicallyQuantizedPartitioner",
    "XnnpackFloatingPointPartitioner",
    "XnnpackPartitioner",
    "XnnpackQuantizedPartitioner",
    "XnnpackRuntime",
    "backend",
]


def __getattr__(name: str) -> Any:
    """XnnpackQuantizer, which alone needs torchao: only who asks for it gets a ModuleNotFoundError without torchao."""
    if name == "XnnpackQuantizer":
        from npu_assay.partitioners.xnnpack.quantizer import XnnpackQuantizer  # needs torchao

        return XnnpackQuantizer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_CONFIGS = {config.__name__: config for config in _configs.ALL_CONFIGS}


def _partitioner(**options: Any) -> XnnpackPartitioner:
    """The partitioner from plain data: configs and precisions by name. Raises ValueError for other names."""
    known: Mapping[str, Mapping[str, Any]] = {
        "configs": _CONFIGS,
        "config_precisions": ConfigPrecisionType.__members__,
    }
    meant = {key: _named(key, found, known[key]) if key in known else found for key, found in options.items()}
    return XnnpackPartitioner(**meant)


def _named(option: str, found: Any, known: Mapping[str, Any]) -> Any:
    """What one name or several stand for."""
    names = [found] if isinstance(found, str) else list(found)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"{option} has {name!r}: {hint}expected names among {', '.join(known)}")
    return [known[name] for name in names]


def _quantizer() -> Any:
    """Static int8 with weights per channel. Imports torchao, which only this needs."""
    # needs torchao
    from npu_assay.partitioners.xnnpack.quantizer import XnnpackQuantizer, get_symmetric_quantization_config

    return XnnpackQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))


def _dynamic_quantizer() -> Any:
    """int8 weights per channel, activations quantized at run time."""
    # needs torchao
    from npu_assay.partitioners.xnnpack.quantizer import XnnpackQuantizer, get_symmetric_quantization_config

    return XnnpackQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True))


backend = Backend(
    name="xnnpack",
    table="xnnpack@1.5",
    partitioner=_partitioner,
    details=XnnpackBackend,
    runtime=XnnpackRuntime(),
    quantizer=_quantizer,
    blob_operators=_operators,
    dynamic_quantizer=_dynamic_quantizer,
    faults="npu_assay.faults.xnnpack:catalogue",
)
