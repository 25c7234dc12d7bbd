"""What a node of the program is on the device: a tensor of integers, how it is quantised, the layouts it exists in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from npu_assay.partitioners.ethosu.lowering.model import ModelBuilder
from npu_assay.partitioners.ethosu.tosa_model import Array
from npu_assay.partitioners.exir.layout import Layout, between, composed, identity
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
"""The type of a constant that is not quantised yet."""


@dataclass(frozen=True)
class PerChannel:
    """Symmetric quantisation with a scale for each index of `axis`."""

    scales: tuple[float, ...]
    axis: int


@dataclass(eq=False)
class Value:
    """A value of torch shape `shape`; numbers have a `quant`, codes and plain integers have none.

    `tensors` holds the device tensor of each layout made so far, the first one being its home. A constant has
    `data` (in torch's axis order) instead. A value that only renames another one's elements is an alias: a
    `source` seen through `permutation`, or reshaped when that is None. Nothing is written for aliases and
    constants until a consumer asks for a layout, so that transpositions that undo each other never appear.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    quant: QParams | PerChannel | None = None
    tensors: dict[Layout, str] = field(default_factory=dict)
    data: Array | None = None
    source: Value | None = None
    permutation: Layout | None = None

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def is_reshaped(self) -> bool:
        """Whether it is another value in another shape, not written yet."""
        return self.source is not None and self.permutation is None and not self.tensors

    @property
    def home(self) -> Layout:
        """The layout in which the value costs nothing, or least."""
        if self.tensors:
            return next(iter(self.tensors))
        if self.source is not None and self.permutation is not None:
            return between(self.permutation, self.source.home)
        return identity(self.rank)

    def seen_as(self, quant: QParams | PerChannel | None) -> Value:
        """The same integers with another meaning."""
        return replace(self, quant=quant)


def tensor_of(model: ModelBuilder, value: Value, layout: Layout | None = None) -> str:
    """The value's device tensor in a layout (None: its home), written to the model when it is new."""
    wanted = value.home if layout is None else layout
    if wanted not in value.tensors:
        made = _write(model, value, wanted)
        if value.data is not None:
            return made
        value.tensors[wanted] = made
    return value.tensors[wanted]


def _write(model: ModelBuilder, value: Value, layout: Layout) -> str:
    if value.data is not None:
        return model.constant(value.name, value.data.transpose(layout), value.dtype)
    if value.source is not None and value.permutation is not None:
        return tensor_of(model, value.source, composed(value.permutation, layout))
    if not value.tensors:
        assert value.source is not None, f"{value.name} has neither tensor nor source"
        flat = tensor_of(model, value.source, identity(value.source.rank))
        natural = identity(value.rank)
        value.tensors[natural] = model.reshape(flat, value.shape, value.name)
        if layout == natural:
            return value.tensors[natural]
    permutation = between(value.home, layout)
    return model.transpose(tensor_of(model, value), permutation, f"{value.name}_transposed")


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
    made = make(tensor_of(model, value, layout))
    data = model.tensors[made].data
    if data is not None and value.data is not None:
        return Value(name, value.shape, model.dtype(made), quant, data=data)
    return Value(name, value.shape, model.dtype(made), quant, {layout: made})
