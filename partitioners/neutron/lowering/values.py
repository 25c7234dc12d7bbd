"""What a float node of the program is on the device: codes, their quantisation, and the layouts they exist in."""

from __future__ import annotations

from dataclasses import dataclass, field

from npu_assay.partitioners.exir.layout import Layout, between, composed, identity
from npu_assay.partitioners.neutron.lowering.model import Array, ModelBuilder
from npu_assay.partitioners.neutron.lowering.quantisation import Quantisation


@dataclass(eq=False)
class Value:
    """A quantised value of torch shape `shape`.

    `tensors` holds the device tensor of each layout made so far, the first one being its home.
    A constant has `codes` (in torch's axis order) instead. A value that only renames another one's
    elements is an alias: a `source` seen through `permutation`, or reshaped when that is None.
    Nothing is written for aliases and constants until a consumer asks for a layout, so that
    transpositions that undo each other never appear and constants are permuted here.
    """

    name: str
    shape: tuple[int, ...]
    quantisation: Quantisation
    tensors: dict[Layout, int] = field(default_factory=dict)
    codes: Array | None = None
    source: Value | None = None
    permutation: Layout | None = None

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def home(self) -> Layout:
        """The layout in which the value costs nothing, or least."""
        if self.tensors:
            return next(iter(self.tensors))
        if self.source is not None and self.permutation is not None:
            return between(self.permutation, self.source.home)
        return identity(self.rank)

    def device_quantisation(self, layout: Layout) -> Quantisation:
        """The quantisation with its axis counted on the device."""
        if not self.quantisation.per_channel:
            return self.quantisation
        return self.quantisation.moved(layout.index(self.quantisation.axis))


def tensor_of(model: ModelBuilder, value: Value, layout: Layout | None = None) -> int:
    """The value's device tensor in a layout (None: its home), written to the model when it is new."""
    wanted = value.home if layout is None else layout
    if wanted not in value.tensors:
        value.tensors[wanted] = _write(model, value, wanted)
    return value.tensors[wanted]


def _write(model: ModelBuilder, value: Value, layout: Layout) -> int:
    if value.codes is not None:
        return model.constant(value.name, value.codes.transpose(layout), value.device_quantisation(layout))
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
