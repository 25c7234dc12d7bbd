"""The end of every integer kernel: rescale the accumulator, add the zero point, saturate, narrow to int8."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from reference.affine import Affine
from reference.rescale import double_rounder, half_away_

Kernel = Callable[[Tensor], Tensor]
Kernel2 = Callable[[Tensor, Tensor], Tensor]
Bounds = tuple[int, int]

_PERIODS = 64


def bounds(y: Affine, activation: Bounds | None) -> Bounds:
    """The codes an output may take: the type's range, narrowed by a fused activation."""
    if activation is None:
        return y.qmin, y.qmax
    lo, hi = activation
    if not y.qmin <= lo <= hi <= y.qmax:
        raise ValueError(f"activation codes: found {activation}, expected lo <= hi within [{y.qmin}, {y.qmax}]")
    return lo, hi


def double_round_stage(parameters: Sequence[tuple[int, int]], y: Affine, limits: Bounds | None = None) -> Kernel:
    """acc (any numeric type holding int32 values) -> int8, by `tflite_double_round`.

    parameters: one (multiplier, shift), or one per index of the last axis. Takes the float64 form
    where that is proven exact, else 64-bit integers.
    """
    lo, hi = bounds(y, limits)
    if all(1 <= -e <= 12 for _, e in parameters):
        return _float_stage(parameters, y.zero_point, lo, hi)
    rounder = double_rounder(parameters)
    return lambda acc: rounder(acc).add_(y.zero_point).clamp_(lo, hi).to(torch.int8)


def float64_stage(ratios: Sequence[float], y: Affine, limits: Bounds | None = None) -> Kernel:
    """acc -> int8, by `tflite_float64`: one ratio, or one per index of the last axis."""
    lo, hi = bounds(y, limits)
    factor = torch.tensor(ratios[0] if len(ratios) == 1 else list(ratios), dtype=torch.float64)

    def apply(acc: Tensor) -> Tensor:
        product = half_away_(acc.to(torch.float64) * factor)
        return product.add_(y.zero_point).clamp_(lo, hi).to(torch.int8)

    return apply


def _float_stage(parameters: Sequence[tuple[int, int]], zero_point: int, lo: int, hi: int) -> Kernel:
    """The double rounding in float64, for right shifts k of 1..12: fewer and faster passes.

    With r = multiplier * 2**-(31 + k), the double-rounded result is at least j exactly when
    acc * r >= j - 1/2 - h for j > 0, and acc * r >= j - 1/2 + h for j <= 0, where h = 2**-(k+1). As it
    has the sign of acc, it is floor(acc * r + copysign(h, acc) + 1/2). All terms are multiples of
    2**-(31+k); while acc * r is under 2**9 the sum is under 2**10, so 10 + 31 + k <= 53 bits hold it
    exactly. Above that the product's rounding is monotone, and the result stays past the limits.

    Where negative results saturate (lo >= zero_point, as behind a fused relu), h needs no sign.
    """
    ratio = _Periodic([math.ldexp(m, e - 31) for m, e in parameters])
    half_step = _Periodic([math.ldexp(1.0, e - 1) for _, e in parameters])
    offset = _Periodic([math.ldexp(1.0, e - 1) + zero_point + 0.5 for _, e in parameters])

    def signed(acc: Tensor) -> Tensor:
        value = _as_rows(_fresh_double(acc))
        value *= ratio.row(value)
        value += torch.copysign(half_step.row(value), value)
        return value.add_(zero_point + 0.5).floor_().clamp_(lo, hi).char().view(acc.shape)

    def unsigned(acc: Tensor) -> Tensor:
        value = _as_rows(_fresh_double(acc))
        torch.addcmul(offset.row(value), value, ratio.row(value), out=value)
        return value.floor_().clamp_(lo, hi).char().view(acc.shape)

    return unsigned if lo >= zero_point else signed


def _fresh_double(acc: Tensor) -> Tensor:
    return acc.clone() if acc.dtype == torch.float64 else acc.double()


def _as_rows(value: Tensor) -> Tensor:
    """`value` [..., channels] as rows of up to 64 whole pixels, when channels are few: passes run over rows."""
    channels = value.shape[-1] if value.dim() else 1
    if channels >= _PERIODS or not value.numel():
        return value
    return value.reshape(-1, math.gcd(value.numel() // channels, _PERIODS) * channels)


class _Periodic:
    """One float64 per channel, repeated for the pixels of a row; a single one when all channels agree."""

    def __init__(self, values: Sequence[float]) -> None:
        same = len(set(values)) == 1
        repeats = _PERIODS if len(values) < _PERIODS else 1
        self._values = torch.tensor(values[0] if same else list(values) * repeats, dtype=torch.float64)

    def row(self, rows: Tensor) -> Tensor:
        """The numbers that belong to one row of `_as_rows`."""
        values, length = self._values, rows.shape[-1]
        return values if values.dim() == 0 or len(values) == length else values[:length]
