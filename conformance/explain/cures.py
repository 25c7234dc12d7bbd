"""What is wrong with the quantisation of a layer, and what would help: sentences of what was seen of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import Tensor, fx

CLIPPED = 0.01  # share of results outside of the range of their codes
UNUSED = 1 / 8  # share of the range of the codes that results use
COARSE = 25.0  # dB of weights in 8 bits; a normal distribution has about 40
LARGE = 10.0  # times the median channel


@dataclass
class Seen:
    """What one layer showed, over all inputs: powers of golden and error, results that were clipped, their range.

    grid: the range of its codes. shared: whether its result has to have the quantisation of an operand. weights: real,
    as they are read from codes, and whether these have one scale. infinite: whether a constant holds infinities.
    """

    node: fx.Node
    signal: float = 0.0
    noise: float = 0.0
    count: int = 0
    clipped: int = 0
    low: float = math.inf
    high: float = -math.inf
    grid: tuple[float, float] | None = None
    shared: bool = False
    weights: dict[int, tuple[Tensor, Tensor, bool]] = field(default_factory=dict)
    infinite: bool = False


def cures(seen: Seen) -> Iterator[str]:
    """Sentences, the gravest first."""
    if seen.infinite:
        yield "a constant holds infinities, which no code stands for: mask with a large finite number instead"
    if seen.grid is not None:
        yield from _of_the_range(seen, *seen.grid)
    for real, coded, per_tensor in seen.weights.values():
        yield from _of_weights(real.double(), coded.double(), per_tensor)


def _of_the_range(seen: Seen, low: float, high: float) -> Iterator[str]:
    clipped, used = seen.clipped / seen.count, (seen.high - seen.low) / (high - low)
    if clipped > CLIPPED:
        results = f"{100 * clipped:.0f} % of its results, from {seen.low:.4g} to {seen.high:.4g},"
        codes = f"lie outside {low:.4g} to {high:.4g}, which its codes stand for"
        yield f"{results} {codes}: calibrate with inputs like these"
    elif not seen.shared and 0 < used < UNUSED:
        yield f"its results use {100 * used:.1f} % of the range of their codes: calibrate without inputs far from these"


def _of_weights(real: Tensor, coded: Tensor, per_tensor: bool) -> Iterator[str]:
    noise, signal = float(((real - coded) ** 2).sum()), float((real**2).sum())
    if real.dim() < 2 or not 0 < noise < math.inf:
        return
    decibels, sizes = 10 * math.log10(signal / noise), real.abs().flatten(1).amax(1)
    median = float(sizes.median())
    times = float(sizes.max()) / median if median > 0 else math.inf
    if per_tensor and times > LARGE:
        channel = f"channel {int(sizes.argmax())} is {times:.0f} times as large as the median"
        yield f"one scale for all of its weights, of which {channel}: quantise per channel"
    elif decibels < COARSE:
        yield f"its weights keep {decibels:.0f} dB in their codes: use more bits, or smaller groups"
