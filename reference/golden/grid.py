"""From reals to an output's grid: the saturated range, half a step, and the arithmetic's error bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.golden.bounded import Bounded, Scale, beyond
from npu_assay.reference.golden.error_bound import ErrorBound
from npu_assay.reference.golden.special import anything


def dequantised(codes: Tensor, scale: Scale, zero_point: int, axis: int | None = None) -> Bounded:
    """The reals that codes stand for: exact, in float64, with the scale as file formats keep it (float32).

    scale: one number, or one per index of `axis`.
    """
    if isinstance(scale, tuple):
        steps = torch.tensor(scale, dtype=torch.float32).to(torch.float64)
        shape = [-1 if d == (axis or 0) else 1 for d in range(codes.dim())]
        held = tuple(steps.tolist())
        return Bounded((codes.to(torch.float64) - zero_point) * steps.reshape(shape), scale=held, axis=axis)
    step = Affine(scale, 0).scale32
    return Bounded((codes.to(torch.float64) - zero_point) * step, scale=step)


def groupwise(codes: Tensor, scales: tuple[float, ...], group: int) -> Bounded:
    """The reals of a matrix of codes with a scale per `group` neighbors in a row, row by row.

    Devices keep such scales in bfloat16: what that changes is the bound.
    """
    steps = torch.tensor(scales, dtype=torch.float32).reshape(codes.shape[0], -1)
    kept = steps.to(torch.bfloat16).to(torch.float64)
    off = (kept - steps.to(torch.float64)).abs()
    numbers = codes.to(torch.float64)
    error = numbers.abs() * off.repeat_interleave(group, 1)
    return Bounded(numbers * steps.to(torch.float64).repeat_interleave(group, 1), error)


SMALLEST_STEP = 2.0**-12
"""The smallest step that a program chooses at run time: what PT2E's observers use."""


def chosen_at_run_time(x: Bounded, axes: tuple[int, ...]) -> Bounded:
    """Reals that are quantized to 256 codes over their own range, which holds zero, and dequantized.

    axes: those that share a range. Off by a step: half for the rounding, half because the zero point is rounded
    and the far end then saturates; 2**-12 of it for float32's roundings in up to 255 steps. Anything of a range that
    float32 cannot hold: no codes stand for it.
    """
    if not x.value.numel():
        return x
    high = (x.value + x.error).amax(axes, keepdim=True).clamp_min(0)
    low = (x.value - x.error).amin(axes, keepdim=True).clamp_max(0)
    step = ((high - low) / 255).clamp_min(SMALLEST_STEP)
    return _within_float32(Bounded(x.value, x.error + step * (1 + 2.0**-12)), high - low)


def _within_float32(numbers: Bounded, span: Tensor) -> Bounded:
    return anything(numbers, ~span.to(torch.float32).isfinite().expand_as(numbers.value))


TIE = 2.0**-12
"""How far from a tie, in steps, float32 still rounds up to 255 steps as reals do."""


def codes_at_run_time(x: Bounded, axes: tuple[int, ...]) -> Bounded:
    """The reals of the codes of numbers that are known exactly, where the device divides the range into 255 steps.

    axes: those that share a range, which holds zero. Off by a step at a tie, which float32 may round either way; there
    the zero point may be, too, and saturates the far end. Elsewhere by float32's roundings of the step alone.
    """
    if not x.value.numel():
        return x
    high, low = x.value.amax(axes, keepdim=True).clamp_min(0), x.value.amin(axes, keepdim=True).clamp_max(0)
    step = (high - low) / 255
    steps = torch.where(step > 0, x.value / step, 0.0)
    value = steps.round() * step
    tied = (steps - steps.floor() - 0.5).abs() <= TIE
    found = Bounded(value, torch.where(tied, step * (1 + TIE), value.abs() * 2.0**-21))
    return _within_float32(found, high - low)


def quantised(b: Bounded, y: Affine, error_bound: ErrorBound, *, on_grid: bool = False) -> Bounded:
    """What a correct quantized output may be: b within the representable range, half a step further.

    error_bound: in steps, as `error_bound.device` gives it. on_grid: the reals are multiples of the step already, so
    that nothing is rounded. Both ends of the range are on the grid, so saturation never adds an error.
    """
    step, b = y.scale32, _numbers(b, y.scale32)
    low, high = (y.qmin - y.zero_point) * step, (y.qmax - y.zero_point) * step
    value = b.value.clamp(low, high)
    if on_grid and b.exact:
        return Bounded(value, scale=step)
    reach = b.error if on_grid else b.error + (0.5 + error_bound) * step
    above = (b.value + reach).clamp_(low, high).sub_(value)
    below = value - (b.value - reach).clamp_(low, high)
    return Bounded(value, torch.maximum(above, below), scale=step)


def _numbers(b: Bounded, step: float) -> Bounded:
    """The reals with numbers beyond every range in the place of larger ones, which saturate, and any in that of NaN.

    IEEE 754 leaves open what a conversion to integers makes of NaN (5.8), and so does torch. A larger number in steps
    may be infinite, and so may its error, of which the difference would be NaN.
    """
    far = beyond(step)
    if bool((b.value.abs() <= far).all()):
        return b
    value = b.value.nan_to_num(0.0, far, -far).clamp_(-far, far)
    error = torch.where(b.value.isinf(), b.error.nan_to_num(0.0), b.error)
    error = torch.where(b.value.isfinite() & (b.value.abs() - b.error > far), 0.0, error)
    return Bounded(value, torch.where(b.value.isnan(), math.inf, error), b.scale, b.axis)


@dataclass(frozen=True)
class Codes:
    """The codes that a correct output may hold: nearest is the real result's, low and high the legal ends.

    All are float64 tensors of whole numbers within [qmin, qmax]. They differ where the error bound reaches over a
    tie.
    """

    nearest: Tensor
    low: Tensor
    high: Tensor

    def ambiguous(self) -> Tensor:
        """How far a correct code may be from the nearest, in LSB."""
        return torch.maximum(self.high - self.nearest, self.nearest - self.low)

    def real(self, y: Affine) -> Bounded:
        """The reals of the nearest codes, with the legal ends as their bound."""
        value = (self.nearest - y.zero_point) * y.scale32
        if self.low is self.high:
            return Bounded(value, scale=y.scale32)
        reach = self.ambiguous()
        if not bool(reach.any()):
            return Bounded(value, scale=y.scale32)
        return Bounded(value, reach * y.scale32, scale=y.scale32)


def legal_codes(b: Bounded, y: Affine, error_bound: ErrorBound, *, on_grid: bool = False) -> Codes:
    """All codes that rounding anything within b's error and the arithmetic's can give. Nearest: ties to even."""
    step, b = y.scale32, _numbers(b, y.scale32)
    steps = b.value / step + y.zero_point
    nearest = steps.round().clamp_(y.qmin, y.qmax).add_(0.0)  # a code has no -0.0, by which another operator may divide
    if on_grid and b.exact:
        return Codes(nearest, nearest, nearest)
    reach = b.error / step + (0.0 if on_grid else error_bound)
    low = (steps - reach).round_().clamp_(y.qmin, y.qmax)
    high = (steps + reach).round_().clamp_(y.qmin, y.qmax)
    return Codes(nearest, torch.minimum(low, nearest), torch.maximum(high, nearest))
