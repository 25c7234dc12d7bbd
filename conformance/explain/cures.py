"""What is wrong with the quantization of a layer, and what would help: sentences of what was seen of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import Tensor, fx

from npu_assay.conformance.explain.summary import short
from npu_assay.partitioners.exir.ops import target_name

CLIPPED = 0.01  # share of results outside of the range of their codes
UNUSED = 1 / 8  # share of the range of the codes that results use
POOR = 30.0  # dB of a layer that is worth a word; 8 bits of normally distributed numbers have about 40
ROUNDED = 1  # code by which two roundings of one number may differ
SEEN = 45.0  # dB below the results of the model, where an error is as small as the rounding of results to 8 bits
VANISHED = 0.25  # share of results that are less than half a step of their codes
AMPLIFIED = 10.0  # dB by which an error grows on its way to the results of the model
LARGE = 10.0  # times the median channel
COPIES = "give each call a copy of the layer (copy.deepcopy)"
FIXED = ("softmax", "sigmoid", "tanh", "hardsigmoid")
"""Operators whose results have codes for their whole range, whatever they are."""


@dataclass
class Power:
    """Powers of a signal and of two errors in it, by channel: of the layer, and of its weights alone."""

    signal: Tensor
    noise: Tensor
    weights: Tensor

    def plus(self, other: Power) -> Power:
        """Both together."""
        return Power(self.signal + other.signal, self.noise + other.noise, self.weights + other.weights)


@dataclass
class Seen:
    """What one layer showed, over all inputs: powers of golden and errors, results that were clipped, their range.

    grid: the range of its codes. shared: whether its result has to have the quantization of an operand.
    wider: what else has the same codes for larger results, "" for nothing. vanished:
    results that are not 0 and less than half a step of their codes. inherited: whether its results are out of the range
    of its codes, or in a small part of it, only for what comes before. weights:
    constants, real and as their codes say, and whether those have one scale. calls: how many layers have its bias.
    infinite: whether a constant holds infinities. apart: largest distance of
    the device's codes from torch's on the same inputs, None where none are compared. joined: the layers before it that
    are computed with it, as no codes stand between. effect: see `Layer`; infinite for none.
    """

    node: fx.Node
    power: Power | None = None
    count: int = 0
    clipped: int = 0
    low: float = math.inf
    high: float = -math.inf
    grid: tuple[float, float] | None = None
    shared: bool = False
    wider: str = ""
    vanished: int = 0
    inherited: bool = False
    weights: dict[int, tuple[Tensor, Tensor, bool]] = field(default_factory=dict)
    calls: int = 1
    infinite: bool = False
    apart: int | None = None
    effect: float | None = None
    joined: tuple[str, ...] = ()

    @property
    def is_faulty(self) -> bool:
        """Whether the device computes it otherwise than by another rounding."""
        return self.apart is not None and self.apart > ROUNDED

    @property
    def used(self) -> float:
        """The share of the range of its codes that its results use."""
        return 1.0 if self.grid is None or not self.count else (self.high - self.low) / (self.grid[1] - self.grid[0])

    @property
    def is_unused(self) -> bool:
        """Whether most of the range of its codes was for other results."""
        return self.used < UNUSED and not self.is_fixed

    @property
    def is_fixed(self) -> bool:
        """Whether its codes are for its whole range, whatever its results are."""
        return short(target_name(self.node.target)) in FIXED

    @property
    def own(self) -> float | None:
        """The layer's own error, see `decibels`."""
        return None if self.power is None else decibels(self.power.signal, self.power.noise)


def decibels(signal: Tensor, noise: Tensor) -> float | None:
    """-10 * log10 of the mean over channels of noise by signal, each at most 1; None where nothing is wrong.

    A large channel does not hide small ones, and one that is nearly always 0 counts as one.
    """
    live = signal > 0
    if not bool(live.any()):
        return None
    share = float((noise[live] / signal[live]).nan_to_num(nan=1.0).clamp(max=1.0).mean())
    return round(-10 * math.log10(share), 2) + 0.0 if share > 0 else None


def cures(seen: Seen) -> Iterator[str]:
    """What is wrong with the quantization of a layer, and what would help; the gravest first."""
    if seen.infinite:
        yield "a constant holds infinities, which no code stands for: mask with a large finite number instead"
    if seen.is_faulty:
        group = f" ({' and '.join((*seen.joined, seen.node.name))} together)" if seen.joined else ""
        away = f"the device is up to {seen.apart} codes away from torch on the same inputs{group}"
        yield f"{away}: see assay reduce --of wrong"
    own = seen.own
    if own is not None and own > POOR and seen.effect is not None and seen.effect < min(POOR, own - AMPLIFIED):
        yield "small by itself, but layers after it make it large, as by a difference of large numbers: use more bits"
    if own is None or own > POOR or seen.power is None:
        return
    if seen.grid is not None:
        yield from _of_the_range(seen, *seen.grid)
        if not seen.is_fixed:
            yield from _of_channels(seen.power.signal.sqrt())
    lost = decibels(seen.power.signal, seen.power.weights)
    if lost is not None and lost < own + 3:
        if (bias := _of_the_bias(seen, seen.power.signal, lost)) is not None:
            yield bias
            return
        for real, _, per_tensor in seen.weights.values():
            yield from _of_weights(real.double(), per_tensor, lost)


def _of_the_range(seen: Seen, low: float, high: float) -> Iterator[str]:
    clipped, used = seen.clipped / seen.count, seen.used
    codes = f"{low:.4g} to {high:.4g}, which its codes stand for"
    if clipped > CLIPPED:
        results = f"{100 * clipped:.0f} % of its results, from {seen.low:.4g} to {seen.high:.4g},"
        cure = "as layers before it are wrong" if seen.inherited else "calibrate with inputs like these"
        yield f"{results} lie outside {codes}: {cure}"
    elif used < UNUSED and seen.is_fixed:
        yield f"its results use {100 * used:.1f} % of {codes} whatever it computes: keep it in real numbers"
    elif used < UNUSED and not seen.shared:
        alike = f", and {seen.wider} has the same codes: scale both alike"
        cure = alike if seen.wider else ": calibrate without inputs far from these"
        yield f"its results use {100 * used:.1f} % of {codes}{cure}"
    elif seen.vanished > VANISHED * seen.count:
        lost = f"{100 * seen.vanished / seen.count:.0f} % of its results are less than half a step of their codes"
        yield f"{lost}, which reach from {low:.4g} to {high:.4g}: let no number, as of a mask, be so far from others"


def _of_channels(sizes: Tensor) -> Iterator[str]:
    """One channel that takes the range of all."""
    median = float(sizes.median()) if sizes.dim() else 0.0
    if median > 0 and float(sizes.max()) > LARGE * median:
        times = f"{float(sizes.max()) / median:.0f} times as large as the median"
        yield f"channel {int(sizes.argmax())} of its results is {times}, and all have one scale: scale them alike"


def _of_the_bias(seen: Seen, signal: Tensor, lost: float) -> str | None:
    """That the codes of a bias, not those of the weights, lose so much."""
    constants = seen.weights.values()
    if not any(real.dim() > 1 for real, *_ in constants):
        return None
    for real, coded, _ in constants:
        if real.dim() == 1 and real.shape == signal.shape:
            noise = (real.double() - coded.double()) ** 2 * (seen.count / real.numel())
            alone = decibels(signal, noise)
            if alone is not None and alone < lost + 3:
                why = "the scale of another call of its layer" if seen.calls > 1 else "too large a scale"
                cure = COPIES if seen.calls > 1 else "give it the input's scale times that of the weights"
                return f"its bias leaves {alone:.0f} dB in its codes, which have {why}: {cure}"
    return None


def _of_weights(real: Tensor, per_tensor: bool, lost: float) -> Iterator[str]:
    if real.dim() < 2:
        return
    sizes = real.abs().flatten(1).amax(1)
    median = float(sizes.median())
    times = float(sizes.max()) / median if median > 0 else math.inf
    if per_tensor and times > LARGE:
        channel = f"channel {int(sizes.argmax())} is {times:.0f} times as large as the median"
        yield f"one scale for all of its weights, of which {channel}: quantize per channel"
    else:
        yield f"its weights leave {lost:.0f} dB in their codes, as some are far larger than others: use more bits"
