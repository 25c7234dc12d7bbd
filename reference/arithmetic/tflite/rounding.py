"""How TensorFlow Lite multiplies an integer by a real number: kernels/internal/common.h and gemmlowp's fixedpoint.h.

A ratio is held as multiplier * 2**(shift - 31). The product is rounded twice: to an integer with ties up, then by
the shift to the right with ties away from zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


def multiplier_and_shift(ratio: float) -> tuple[int, int]:
    """QuantizeMultiplier: ratio ~ multiplier * 2**(shift - 31) with 2**30 <= multiplier < 2**31.

    A ratio under 2**-32 is (0, 0). Raises ValueError for one that is negative, not finite, or 2**31 and more.
    """
    if not 0 <= ratio < 2.0**31:
        raise ValueError(f"rescale ratio: found {ratio!r}, expected at least 0 and less than 2**31")
    fraction, shift = math.frexp(ratio)
    multiplier = round_half_up(fraction * 2**31)
    if multiplier == 2**31:
        multiplier, shift = 2**30, shift + 1
    return (multiplier, shift) if multiplier and shift >= -31 else (0, 0)


def round_half_up(value: float) -> int:
    """The nearest integer of a number that is not negative."""
    return math.floor(value) + (value - math.floor(value) >= 0.5)


def rescaled(values: Tensor, ratio: float | Sequence[float]) -> Tensor:
    """MultiplyByQuantizedMultiplier: values * ratio, integers. One ratio, or one per index of the last axis."""
    if isinstance(ratio, int | float):
        multiplier, shift = map(torch.tensor, multiplier_and_shift(ratio))
        return by_multiplier(values, multiplier, shift)
    pairs = [multiplier_and_shift(one) for one in ratio]
    multiplier, shift = (torch.tensor(column) for column in zip(*pairs, strict=True))
    return by_multiplier(values, multiplier, shift)


def by_multiplier(values: Tensor, multiplier: Tensor, shift: Tensor) -> Tensor:
    """values * multiplier * 2**(shift - 31): first the shift to the left, in 32 bits, last the one to the right."""
    shifted = wrapped(values << shift.clamp(min=0))
    return divided_by_power(high_product(shifted, multiplier), (-shift).clamp(min=0))


def wrapped(values: Tensor) -> Tensor:
    """What an int32 register keeps of larger integers."""
    return (values - INT32_MIN) % 2**32 + INT32_MIN


def saturated(values: Tensor) -> Tensor:
    """What a saturating int32 register keeps."""
    return values.clamp(INT32_MIN, INT32_MAX)


def high_product(a: Tensor, b: Tensor) -> Tensor:
    """SaturatingRoundingDoublingHighMul: a * b / 2**31, rounded with ties up."""
    product = a * b
    nudge = torch.where(product >= 0, 2**30, 1 - 2**30)
    return saturated(torch.div(product + nudge, 2**31, rounding_mode="trunc"))


def divided_by_power(values: Tensor, exponent: Tensor | int) -> Tensor:
    """RoundingDivideByPOT: values / 2**exponent, ties away from zero."""
    power = torch.ones((), dtype=torch.int64) << exponent
    remainder = values % power
    threshold = torch.div(power - 1, 2, rounding_mode="floor") + (values < 0).long()
    return torch.div(values, power, rounding_mode="floor") + (remainder > threshold).long()


def half_away(values: Tensor) -> Tensor:
    """std::round: the nearest integers of reals, ties away from zero."""
    whole = values.trunc()
    return (whole + ((values - whole).abs() >= 0.5) * values.sign()).to(torch.int64)


def narrowed(steps: Tensor, y: Affine) -> Tensor:
    """Steps of the output's scale as its codes: plus the zero point, saturated, int8."""
    return (steps + y.zero_point).clamp(y.qmin, y.qmax).to(torch.int8)


def centred(codes: Tensor, x: Affine) -> Tensor:
    """Codes less the zero point, int64."""
    return codes.to(torch.int64) - x.zero_point
