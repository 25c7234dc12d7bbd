"""Seeded choices for random programs: shapes, quantizations, and codes that reach their types' limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from npu_assay.reference.affine import Affine

Array = npt.NDArray[Any]

ZERO_POINTS = (-128, 0, 127)
CODE_FILLS = ("random", "low", "high", "alternating", "ramp", "bounds")


class Draw:
    """Seeded choices. A third of the programs have scales that are powers of two, which makes ties.

    exponents: the range of the scales' binary logarithms.
    """

    def __init__(self, seed: int, exponents: tuple[float, float] = (-10, 2)) -> None:
        self.exponents = exponents
        self.rng = np.random.default_rng(seed)
        self.dyadic = bool(self.rng.random() < 1 / 3)

    def integer(self, low: int, high: int) -> int:
        """Uniform within low..high, both included."""
        return int(self.rng.integers(low, high + 1))

    def coin(self) -> bool:
        return bool(self.rng.integers(2))

    def scale(self, low: float | None = None, high: float | None = None) -> float:
        """2 to a power within low..high; without limits within `exponents`."""
        exponent = self.rng.uniform(
            self.exponents[0] if low is None else low, self.exponents[1] if high is None else high
        )
        return float(2.0 ** (round(exponent) if self.dyadic else exponent))

    def zero_point(self) -> int:
        return int(self.rng.choice(ZERO_POINTS)) if self.coin() else self.integer(-128, 127)

    def affine(self) -> Affine:
        return Affine(self.scale(), self.zero_point())

    def matched(self, real: float) -> Affine:
        """Half the time any scale, otherwise one that spreads reals of that size over the codes."""
        if self.coin():
            return self.affine()
        scale = real / 128 * self.scale(-2, 2)
        if self.dyadic:
            scale = 2.0 ** round(np.log2(scale))
        return Affine(float(scale), self.zero_point())

    def shape(self, rank_low: int, rank_high: int, largest: int) -> tuple[int, ...]:
        return tuple(self.integer(1, largest) for _ in range(self.integer(rank_low, rank_high)))

    def codes(self, shape: Sequence[int], low: int = -128, high: int = 127, dtype: npt.DTypeLike = np.int8) -> Array:
        """Codes within low..high, both included, by a random one of the fills."""
        count = int(np.prod(shape))
        match str(self.rng.choice(CODE_FILLS)):
            case "low":
                flat = np.full(count, low)
            case "high":
                flat = np.full(count, high)
            case "alternating":
                flat = np.where(np.arange(count) % 2, low, high)
            case "ramp":
                flat = (np.arange(count) + self.integer(0, 255)) % (high + 1 - low) + low
            case "bounds":
                flat = self.rng.choice([low, high], count)
            case _:
                flat = self.rng.integers(low, high + 1, count)
        return flat.astype(dtype).reshape(tuple(shape))


def tensor(array: Array) -> Tensor:
    """The same numbers in memory of their own."""
    return torch.from_numpy(array.copy())
