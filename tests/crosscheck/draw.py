"""Random programs of one operator: parameters, inputs, a TFLite model, and our kernel with the same parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from crosscheck.litert import Array, Spec, constant
from torch import Tensor

from reference.affine import Affine

ZERO_POINTS = (-128, 0, 127)
CODE_FILLS = ("random", "low", "high", "alternating", "ramp", "bounds")


@dataclass(frozen=True)
class Program:
    """The same computation twice: `model` for LiteRT, `kernel` for us; both take `inputs`."""

    model: bytes
    inputs: tuple[Array, ...]
    kernel: Callable[..., Tensor]


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

    def codes(self, shape: Sequence[int], low: int = -128) -> Array:
        """int8 codes, by a random one of the fills."""
        count = int(np.prod(shape))
        match str(self.rng.choice(CODE_FILLS)):
            case "low":
                flat = np.full(count, low)
            case "high":
                flat = np.full(count, 127)
            case "alternating":
                flat = np.where(np.arange(count) % 2, low, 127)
            case "ramp":
                flat = (np.arange(count) + self.integer(0, 255)) % (128 - low) + low
            case "bounds":
                flat = self.rng.choice([low, 127], count)
            case _:
                flat = self.rng.integers(low, 128, count)
        return flat.astype(np.int8).reshape(tuple(shape))


def spec(shape: Sequence[int], q: Affine) -> Spec:
    """An activation's tensor."""
    return Spec(tuple(shape), (q.scale,), q.zero_point)


def constant_of(codes: Array, q: Affine) -> Spec:
    """A constant of int8 codes."""
    return constant(codes, (q.scale,), q.zero_point)


def int32(*values: int | Sequence[int] | Sequence[Sequence[int]]) -> Spec:
    """A constant of int32: a shape, axes, paddings."""
    return constant(np.array(values[0] if len(values) == 1 else values, dtype=np.int32))


def tensor(array: Array) -> Tensor:
    """The same numbers in memory of their own."""
    return torch.from_numpy(array.copy())
