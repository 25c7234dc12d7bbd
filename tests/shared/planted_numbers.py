"""Quantized models with one planted numeric cause each, and the layer where its error enters.

The layer that `explain` names first has to be that one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

Inputs = tuple[Tensor, ...]
N, X, U55, U85 = "neutron", "xnnpack", "ethos-u55", "ethos-u85"
COUNT = 4


@dataclass(frozen=True)
class Numeric:
    """A model, the inputs that calibrate it, those that it runs on, and where error enters: a module, or a node.

    cure: a word of the sentence that says what would help.
    """

    name: str
    backend: str
    make: Callable[[], nn.Module]
    samples: Callable[[], Sequence[Inputs]]
    inputs: Callable[[], Sequence[Inputs]]
    where: str
    cure: str = ""

    def __str__(self) -> str:
        return f"{self.backend}-{self.name}"


class Layers(nn.Module):
    """Linear layers with relus between them."""

    def __init__(self, change: Callable[[Layers], None] | None = None, width: int = 16, count: int = 4) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(count))
        if change is not None:
            with torch.no_grad():
                change(self)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)  # type: ignore[no-any-return]


class Images(nn.Module):
    """Convolutions with relus between them."""

    def __init__(self, change: Callable[[Images], None] | None = None) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.layers = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(3))
        if change is not None:
            with torch.no_grad():
                change(self)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)  # type: ignore[no-any-return]


class Of(nn.Module):
    """A function of a linear layer's result, in a module of its own, and a linear layer behind it."""

    def __init__(self, function: Callable[[Tensor], Tensor], width: int = 16, gain: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.first, self.middle, self.last = nn.Linear(width, width), Apart(function), nn.Linear(width, width)
        with torch.no_grad():
            self.first.weight *= gain

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.middle(self.first(x)))  # type: ignore[no-any-return]


class Apart(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Tensor], **buffers: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, data in buffers.items():
            self.register_buffer(name, data)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs, *self.buffers())


class Two(nn.Module):
    """The product, or another function, of two linear layers' results."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(9)
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.a(x) + self.b(y)  # type: ignore[no-any-return]


class Masked(nn.Module):
    """Scores of attention with a causal mask."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(11)
        self.q, self.k, self.how = nn.Linear(16, 16), nn.Linear(16, 16), how
        self.register_buffer("mask", torch.full((8, 8), -1e9 if how == "finite" else -math.inf).triu(1))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.q(x) @ self.k(x).transpose(-1, -2) / 4
        mask = self.get_buffer("mask")
        return (scores + mask).softmax(-1) if self.how != "min" else torch.minimum(scores, mask.exp() * 3).softmax(-1)


class Cancelled(nn.Module):
    """A small thing, added to a large one that is then subtracted."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(8)
        self.large, self.small, self.last = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        large = self.large(x) * 400
        total = large + self.small(x)
        return self.last(total - large)  # type: ignore[no-any-return]


class Pooled(nn.Module):
    """A residual block, its mean, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.stem, self.block, self.head = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 1), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).relu()
        x = (x + self.block(x)).relu()
        return self.head(x.mean((2, 3), keepdim=True).flatten(1))  # type: ignore[no-any-return]


def randn(*shape: int, gain: float = 1.0, count: int = COUNT) -> Callable[[], Sequence[Inputs]]:
    def make() -> Sequence[Inputs]:
        generator = torch.Generator().manual_seed(1)
        return [(gain * torch.randn(shape, generator=generator),) for _ in range(count)]

    return make


def _pairs(gain: float) -> Callable[[], Sequence[Inputs]]:
    """Two inputs, of which the second is larger."""

    def make() -> Sequence[Inputs]:
        generator = torch.Generator().manual_seed(2)
        return [
            (torch.randn(1, 16, generator=generator), gain * torch.randn(1, 16, generator=generator))
            for _ in range(COUNT)
        ]

    return make


def _outlier(*shape: int) -> Callable[[], Sequence[Inputs]]:
    """Samples of which one number is far from all others."""

    def make() -> Sequence[Inputs]:
        found = [x.clone() for (x,) in randn(*shape)()]
        found[0].view(-1)[5] = 400.0
        return [(x,) for x in found]

    return make


def _faint(model: Any, layer: int) -> None:
    """Channel 3 of a layer's results is nearly 0."""
    model.layers[layer].weight[3] *= 1e-4
    model.layers[layer].bias[3] = 0.0


def _large_row(layer: int) -> Callable[[Any], None]:
    """One channel of a layer has weights that are far larger than the others', at an input that is nearly 0."""

    def change(model: Any) -> None:
        _faint(model, layer - 1)
        model.layers[layer].weight[5, 3] = 60.0

    return change


def _aligned(layer: int) -> Callable[[Any], None]:
    """A layer that adds up its inputs, which are small together in the samples and large in the run."""

    def change(model: Any) -> None:
        for each in model.layers[:layer]:
            each.weight.copy_(torch.eye(16))
            each.bias.fill_(0.0)
        model.layers[layer].weight.fill_(1.0)
        model.layers[layer].bias.fill_(0.0)

    return change


def _scattered() -> Sequence[Inputs]:
    """Positive numbers, few of them large at a time."""
    generator = torch.Generator().manual_seed(4)
    places = (torch.randint(16, (1,), generator=generator) for _ in range(8))
    return [(4 * nn.functional.one_hot(place, 16).float(),) for place in places]


def _together() -> Sequence[Inputs]:
    """All of them large."""
    return [(torch.full((1, 16), 3.5),)]


def _sparse_weight(layer: int) -> Callable[[Any], None]:
    """One weight of each channel that is far larger than the others, at an input that is nearly zero."""

    def change(model: Any) -> None:
        _faint(model, layer - 1)
        model.layers[layer].weight[:, 3] = 60.0

    return change


FAINT, LINE, IMAGE = randn(1, 16, gain=0.05), randn(1, 16), randn(1, 8, 8, 8)
NUMERIC = (
    *(
        Numeric(f"large_channel_{n}", N, partial(Layers, _large_row(n)), LINE, LINE, f"layers.{n}", "per channel")
        for n in (1, 2, 3)
    ),
    *(
        Numeric(f"large_weights_{n}", b, partial(Layers, _sparse_weight(n)), LINE, LINE, f"layers.{n}", "weights")
        for b, n in ((X, 1), (U55, 2), (U85, 1), (N, 2))
    ),
    *(
        Numeric("clipped_input", b, Layers, LINE, randn(1, 16, gain=12), "x", "calibrate with inputs like these")
        for b in (N, X, U85)
    ),
    *(
        Numeric("clipped_second_input", b, Two, _pairs(0.2), _pairs(4.0), "y", "calibrate with inputs like these")
        for b in (N, U55)
    ),
    *(
        Numeric(
            f"clipped_layer_{n}",
            b,
            partial(Layers, _aligned(n)),
            _scattered,
            _together,
            f"relu_{n}" if n else "relu",
            "calibrate",
        )
        for b, n in ((N, 0), (X, 1), (U55, 1), (U85, 2))
    ),
    *(Numeric("outlier", b, Images, _outlier(1, 8, 8, 8), IMAGE, "x", "calibrate without") for b in (N, U55)),
    Numeric("small_softmax", N, lambda: Of(lambda x: x.softmax(-1), 1024), randn(1, 1024), randn(1, 1024), "middle"),
    Numeric("small_sigmoid", N, lambda: Of(lambda x: (x - 9).sigmoid()), LINE, LINE, "middle"),
    Numeric("small_tanh", N, lambda: Of(torch.tanh, gain=0.002), FAINT, FAINT, "middle"),
    Numeric("lost_mask", U85, lambda: Masked("add"), randn(1, 8, 16), randn(1, 8, 16), "add", "finite"),
    Numeric("lost_mask", N, lambda: Masked("add"), randn(1, 8, 16), randn(1, 8, 16), "add", "finite"),
    *(
        Numeric("large_mask", b, lambda: Masked("finite"), randn(1, 8, 16), randn(1, 8, 16), "add", "as of a mask")
        for b in (N, X, U55, U85)
    ),
    *(Numeric("cancelled", b, Cancelled, LINE, LINE, "add", "difference of large numbers") for b in (N, X, U55)),
    *(
        Numeric("outlier_of_pooled", b, Pooled, _outlier(1, 3, 12, 12), randn(1, 3, 12, 12), "x", "calibrate without")
        for b in (N, X)
    ),
)
