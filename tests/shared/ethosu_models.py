"""Random models of what people quantize for Ethos-U: one to four of the samples, one behind the other.

`random_model(seed)` is always the same one. Numbers stay finite on the inputs that it is calibrated with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import torch
from ethosu_graphs import U55, U85
from ethosu_modules import DRAWS, SAMPLES
from torch import Tensor, nn

MOST = 4
LARGEST = 1e4
RANKS = (2, 3, 4)
FOREIGN = frozenset({"conv_transpose2d_grouped", "addmm"})
"""What the quantizer of ExecuTorch 1.5.1 fails at; see docs/decisions.md."""
WARNING = frozenset({"conv2d_same_even"})
"""What torch warns of where it runs."""
LATER = frozenset({"baddbmm", "gather_int64", "index_int64", "index_select_int64", "masked_fill_inplace"})
"""What was added since: the models of a seed stay what they were."""
DRAWN = tuple(sorted(SAMPLES.keys() - FOREIGN - WARNING - LATER))
_SHAPELESS = (
    "abs acos acosh add_scalar asin asinh atan atanh ceil celu clamp clone cos cosh dropout elu erf exp expm1 floor "
    "gelu hardsigmoid hardswish hardtanh leaky_relu log log10 log1p logit mish mul_scalar neg pow3 reciprocal relu "
    "relu6 remainder_scalar round rsqrt rsub selu sigmoid sign silu sin sinh softplus sqrt tan tanh unsqueeze "
    "div_scalar mean_keepdim softmax log_softmax "
)
SHAPELESS = frozenset(_SHAPELESS.split())
"""Samples that take a tensor of any shape."""


@dataclass(frozen=True)
class RandomModel:
    """A model, its inputs for calibration, the target, and whether activations are int16. names: its samples."""

    model: nn.Module
    inputs: tuple[Tensor, ...]
    target: str
    wide: bool
    names: tuple[str, ...]


class Steps(nn.Module):
    """Samples, each on some of the values before it; gives what nobody takes."""

    def __init__(self) -> None:
        super().__init__()
        self.members = nn.ModuleList()
        self.takes: list[tuple[int, ...]] = []
        self.places: list[int] = []
        self.inputs: list[int] = []

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values = dict(zip(self.inputs, inputs, strict=True))
        for place, member, takes in zip(self.places, self.members, self.takes, strict=True):
            values[place] = member(*(values[at] for at in takes))
        used = {at for takes in self.takes for at in takes}
        return tuple(values[at] for at in self.places if at not in used)


@dataclass
class Sketch:
    """A model being drawn, with the values on the first inputs."""

    random: Random
    steps: Steps = field(default_factory=Steps)
    values: list[Tensor] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        """One sample more, unless its numbers grow too large."""
        sample = SAMPLES[name]
        before = len(self.values), len(self.steps.inputs)
        takes = tuple(self.operand(name, shape) for shape in sample.shapes)
        member = sample.model(f"{name} {len(self.names)}")
        with torch.no_grad():
            found = member(*(self.values[at] for at in takes))
        if found.is_floating_point() and not (found.isfinite().all() and found.abs().max() <= LARGEST):
            del self.values[before[0] :], self.steps.inputs[before[1] :]
            return
        self.steps.members.append(member)
        self.steps.takes.append(takes)
        self.steps.places.append(len(self.values))
        self.values.append(found)
        self.names.append(name)

    def operand(self, name: str, shape: tuple[int, ...]) -> int:
        """A value of the shape and the type that the sample wants, the latest ones preferred, or a new input."""
        new = DRAWS[SAMPLES[name].kind](shape, torch.Generator().manual_seed(len(self.values)))
        fits = [at for at, one in enumerate(self.values) if one.dtype == new.dtype and self.suits(name, one, new)]
        if fits and self.random.random() < 0.85:
            return fits[-1] if self.random.random() < 0.7 else self.random.choice(fits)
        self.steps.inputs.append(len(self.values))
        self.values.append(new)
        return len(self.values) - 1

    def suits(self, name: str, value: Tensor, wanted: Tensor) -> bool:
        """Also with room for rounding: quantizers take operators apart."""
        inside = SAMPLES[name].kind != "unit" or bool((value >= 0.05).all() and (value <= 0.95).all())
        return inside and (value.dim() in RANKS if name in SHAPELESS else value.shape == wanted.shape)


def random_model(seed: int) -> RandomModel:
    """The model of a seed."""
    random = Random(seed)
    sketch = Sketch(random)
    count = random.randint(1, MOST)
    while len(sketch.names) < count:
        sketch.add(random.choice(DRAWN))
    inputs = tuple(sketch.values[at] for at in sketch.steps.inputs)
    target, wide = random.choice((U55, U85)), random.random() < 0.2
    return RandomModel(sketch.steps.eval(), inputs, target, wide, tuple(sketch.names))
