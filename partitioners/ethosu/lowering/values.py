"""What a node of the program is on the device: a tensor of integers, how it is quantized, the layouts it exists in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from npu_assay.partitioners.common.lowering import LaidOut
from npu_assay.partitioners.ethosu.lowering.model import ModelBuilder
from npu_assay.partitioners.ethosu.tosa_model import Array
from npu_assay.partitioners.exir.layout import Layout
from npu_assay.partitioners.exir.qdq import QParams

DTYPES: dict[torch.dtype, str] = {
    torch.bool: "BOOL",
    torch.int8: "INT8",
    torch.int16: "INT16",
    torch.int32: "INT32",
    torch.int64: "INT32",
}
"""Device types. int64 numbers, which the device has not, must fit 32 bits."""
FLOAT = "FLOAT32"
"""The type of a constant that is not quantized yet."""


@dataclass(frozen=True)
class PerChannel:
    """Symmetric quantization with a scale for each index of `axis`."""

    scales: tuple[float, ...]
    axis: int


@dataclass(eq=False)
class Value(LaidOut[ModelBuilder, str]):
    """A tensor of integers; numbers have a `quant`, codes and plain integers have none."""

    dtype: str
    quant: QParams | PerChannel | None = None

    def seen_as(self, quant: QParams | PerChannel | None) -> Value:
        """The same integers with another meaning."""
        return replace(self, quant=quant)

    def constant(self, model: ModelBuilder, data: Array, layout: Layout) -> str:
        """The tensor of a constant."""
        return model.constant(self.name, data, self.dtype)


def viewed(value: Value, shape: Sequence[int], name: str | None = None) -> Value:
    """The value in another shape; a reshape of a reshape starts from the first."""
    wanted, name = tuple(shape), value.name if name is None else name
    if wanted == value.shape:
        return value
    if value.data is not None:
        return Value(name, wanted, value.dtype, value.quant, data=value.data.reshape(wanted))
    if value.is_reshaped and value.source is not None:
        source = replace(value.source, quant=value.quant)
        return source if source.shape == wanted else Value(name, wanted, value.dtype, value.quant, source=source)
    return Value(name, wanted, value.dtype, value.quant, source=value)


def permuted(value: Value, permutation: Layout, name: str) -> Value:
    """The value whose axis i is axis permutation[i] of `value`."""
    shape = tuple(value.shape[axis] for axis in permutation)
    if value.data is not None:
        quant = value.quant
        if isinstance(quant, PerChannel):
            quant = PerChannel(quant.scales, permutation.index(quant.axis))
        return Value(name, shape, value.dtype, quant, data=value.data.transpose(permutation))
    return Value(name, shape, value.dtype, value.quant, source=value, permutation=permutation)


def mapped(
    model: ModelBuilder,
    value: Value,
    name: str,
    make: Callable[[str], str],
    quant: QParams | None = None,
) -> Value:
    """What an element-by-element function makes of a value, computed in whatever shape and layout it lies in."""
    if value.is_reshaped and value.source is not None:
        source = mapped(model, value.source, name, make, quant)
        return Value(name, value.shape, source.dtype, quant, source=source)
    layout = value.home
    made = make(value.tensor(model, layout))
    data = model.tensors[made].data
    if data is not None and value.data is not None:
        return Value(name, value.shape, model.dtype(made), quant, data=data)
    return Value(name, value.shape, model.dtype(made), quant, tensors={layout: made})
