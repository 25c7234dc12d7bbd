"""Numeric causes of other kinds than those of `planted_numbers`, each in a network of its own.

They were written down before the code that finds the layer was read. A cause that two layers share by its nature, as
operands of one scale do, names both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from planted_numbers import U55, U85, Inputs, N, Numeric, X, randn
from torch import Tensor, nn


class Branches(nn.Module):
    """A large branch and a small one behind one another in one tensor, and a layer that reads the small one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(21)
        self.a, self.b = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1)
        self.out = nn.Conv2d(8, 8, 1)
        with torch.no_grad():
            self.a.weight *= 400

    def forward(self, x: Tensor) -> Tensor:
        y = torch.cat([self.a(x), self.b(x)], 1)
        return self.out(y[:, 8:])  # type: ignore[no-any-return]


class Loud(nn.Module):
    """A convolution one of whose channels is far louder than the others, of which the next layer reads."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(22)
        self.stem, self.mid, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(4, 4, 1)
        with torch.no_grad():
            self.mid.weight[3] *= 500

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.mid(self.stem(x).relu())[:, 4:])  # type: ignore[no-any-return]


class Table(nn.Module):
    """A table of tokens, one row of which, that the run does not use, is far larger."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(23)
        self.table, self.out = nn.Embedding(50, 16), nn.Linear(16, 8)
        with torch.no_grad():
            self.table.weight[7] *= 500

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.table(tokens))  # type: ignore[no-any-return]


def _tokens(first: int) -> Callable[[], Sequence[Inputs]]:
    def make() -> Sequence[Inputs]:
        generator = torch.Generator().manual_seed(3)
        return [(torch.randint(8, 50, (1, 6), generator=generator).index_fill(1, torch.tensor(0), first),)] * 2

    return make


class Repeated(nn.Module):
    """A layer that is called twice: its second results are far larger in the run than in the samples."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(24)
        self.shared, self.out = nn.Linear(16, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor, gain: Tensor) -> Tensor:
        y = self.shared(x)
        return self.out(y + self.shared(y.tanh()) * gain)  # type: ignore[no-any-return]


def _gained(gain: float) -> Callable[[], Sequence[Inputs]]:
    return lambda: [(x, torch.full((1, 16), 1.0).index_fill(1, torch.tensor(3), gain)) for (x,) in randn(1, 16)()]


class Distances(nn.Module):
    """Scores of attention that fall with the distance, steeply."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(25)
        self.q, self.k = nn.Linear(16, 16), nn.Linear(16, 16)
        places = torch.arange(8.0)
        self.register_buffer("bias", -60 * (places[:, None] - places).abs().sub(3).clamp(min=0))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.q(x) @ self.k(x).transpose(-1, -2) / 4
        return (scores + self.get_buffer("bias")).softmax(-1)  # type: ignore[no-any-return]


class Raised(nn.Module):
    """An input far from zero, which the first thing subtracts."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(26)
        self.stem, self.out = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 4, 1)
        self.register_buffer("mean", torch.full((1, 8, 8, 8), 200.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.stem(x - self.get_buffer("mean")).relu())  # type: ignore[no-any-return]


def _raised() -> Sequence[Inputs]:
    return [(200 + x,) for (x,) in randn(1, 8, 8, 8)()]


class Roots(nn.Module):
    """A fourth power, and the root that takes it back."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(27)
        self.first, self.out = nn.Linear(16, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.out((self.first(x) * 2).pow(4).sqrt().sqrt())  # type: ignore[no-any-return]


class Averaged(nn.Module):
    """The mean of a wide image of noise: far smaller than its numbers, whose scale it shares."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(28)
        self.stem, self.out = nn.Conv2d(8, 8, 3, bias=False), nn.Linear(8, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.stem(x).mean((2, 3), keepdim=True).flatten(1))  # type: ignore[no-any-return]


PICTURE, LINES = randn(1, 3, 10, 10), randn(1, 16)
OTHERS = (
    Numeric("cat_of_scales", N, Branches, randn(1, 8, 8, 8), randn(1, 8, 8, 8), "b|cat"),
    Numeric("loud_channel", X, Loud, PICTURE, PICTURE, "mid", "channel"),
    Numeric("row_of_a_table", U85, Table, _tokens(7), _tokens(9), "table"),
    Numeric("second_operand", U55, Repeated, _gained(1.0), _gained(6.0), "gain", "calibrate with inputs like these"),
    Numeric("distances", U85, Distances, randn(1, 8, 16), randn(1, 8, 16), "add"),
    Numeric("far_from_zero", U55, Raised, _raised, _raised, "x"),
    Numeric("fourth_power", U85, Roots, LINES, LINES, "pow_1"),
    Numeric("mean_of_noise", N, Averaged, randn(1, 8, 32, 32), randn(1, 8, 32, 32), "mean"),
)
