"""The end of every integer kernel: rescale the accumulator, add the zero point, saturate, narrow to int8."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from npu_assay.partitioners.common.rescale import double_rounder, half_away_
from npu_assay.reference.affine import Affine, check_scale

Kernel = Callable[[Tensor], Tensor]
Kernel2 = Callable[[Tensor, Tensor], Tensor]
Bounds = tuple[int, int]


def bounds(y: Affine, activation: Bounds | None) -> Bounds:
    """The codes an output may take: the type's range, narrowed by a fused activation."""
    if activation is None:
        return y.qmin, y.qmax
    lo, hi = activation
    if not y.qmin <= lo <= hi <= y.qmax:
        raise ValueError(f"activation codes: found {activation}, expected lo <= hi within [{y.qmin}, {y.qmax}]")
    return lo, hi


def check_scales(w_scales: Sequence[float], outputs: int) -> None:
    """Raise ValueError unless weights have one scale, or one per output, and each is one that quantization can have."""
    if len(w_scales) not in (1, outputs):
        raise ValueError(f"weight scales: found {len(w_scales)}, expected 1 or {outputs}, one per output")
    for scale in w_scales:
        check_scale(scale, "weight scale")


def double_round_stage(parameters: Sequence[tuple[int, int]], y: Affine, limits: Bounds | None = None) -> Kernel:
    """acc (any numeric type holding int32 values) -> int8, by `tflite_double_round`.

    parameters: one (multiplier, shift), or one per index of the last axis. Takes the float64 form
    where that is proven exact, else 64-bit integers.
    """
    lo, hi = bounds(y, limits)
    if all(1 <= -e <= 12 for _, e in parameters):
        return _float_stage(parameters, y.zero_point, lo, hi)
    rounder = double_rounder(parameters)
    return lambda acc: rounder(acc).add_(y.zero_point).clamp_(lo, hi).char()


def float64_stage(ratios: Sequence[float], y: Affine, limits: Bounds | None = None) -> Kernel:
    """acc -> int8, by `tflite_float64`: one ratio, or one per index of the last axis."""
    lo, hi = bounds(y, limits)
    factor = _column(ratios)
    if _never_near_a_tie(factor):
        return _floored(factor, torch.tensor(y.zero_point + 0.5, dtype=torch.float64), lo, hi)
    return lambda acc: half_away_(acc.double() * factor).add_(y.zero_point).clamp_(lo, hi).char()


def _never_near_a_tie(factor: Tensor) -> bool:
    """Whether integer * factor is 2**-40 or more from every j + 1/2 within 256.

    Then all ways to round agree, and so they do after adding a zero point: the errors of the product and of
    the sum, both under 2**9, are at most 2**-44 each. Farther out the result stays past the limits.
    """
    ties = torch.arange(-256, 256, dtype=torch.float64).add_(0.5).unsqueeze(1)
    nearest = (ties / factor).round_().mul_(factor)
    return bool(nearest.sub_(ties).abs_().min() >= 2.0**-40)


def _float_stage(parameters: Sequence[tuple[int, int]], zero_point: int, lo: int, hi: int) -> Kernel:
    """The double rounding in float64, for right shifts k of 1..12: fewer and faster passes.

    With r = multiplier * 2**-(31 + k), the double-rounded result is at least j exactly when
    acc * r >= j - 1/2 - h for j > 0, and acc * r >= j - 1/2 + h for j <= 0, where h = 2**-(k+1). As it
    has the sign of acc, it is floor(acc * r + h + 1/2), with 2h less under the floor where acc is negative.
    All terms are multiples of 2**-(31+k); while acc * r is under 2**9 the sum is under 2**10, so
    10 + 31 + k <= 53 bits hold it exactly. Above that the product's rounding is monotone, and the
    result stays past the limits.

    Where negative results saturate (lo >= zero_point, as after a fused relu), the sign does not matter.
    """
    ratio = _column([math.ldexp(m, e - 31) for m, e in parameters])
    offset = _column([math.ldexp(1.0, e - 1) + zero_point + 0.5 for _, e in parameters])
    step = _column([math.ldexp(1.0, e) for _, e in parameters])

    def signed(acc: Tensor) -> Tensor:
        value = _fresh_double(acc)
        negative = value.clamp(-1, 0)
        torch.addcmul(offset, value, ratio, out=value)
        return value.addcmul_(negative, step).floor_().clamp_(lo, hi).char()

    return _floored(ratio, offset, lo, hi) if lo >= zero_point else signed


def _floored(ratio: Tensor, offset: Tensor, lo: int, hi: int) -> Kernel:
    """acc -> floor(acc * ratio + offset), saturated: float64, in place after the first pass."""

    def apply(acc: Tensor) -> Tensor:
        value = _fresh_double(acc)
        torch.addcmul(offset, value, ratio, out=value)
        return value.floor_().clamp_(lo, hi).char()

    return apply


def _fresh_double(acc: Tensor) -> Tensor:
    return acc.clone() if acc.dtype == torch.float64 else acc.double()


def _column(values: Sequence[float]) -> Tensor:
    """One float64 per index of the last axis; a single one when all agree."""
    return torch.tensor(values[0] if len(set(values)) == 1 else list(values), dtype=torch.float64)
