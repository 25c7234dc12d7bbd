"""Codes as TOSA 1.0 computes them: RESCALE with a single rounding, and torch's own way from reals to codes.

Plain int64 arithmetic, written from the specification's formulas; no kernel of a device is used here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine, float32
from npu_assay.reference.integer.operand import IntegerError, QTensor

NARROW, WIDE = 31, 15
"""Bits of a multiplier: of a 32-bit sum, and of a 48-bit one."""
_LARGEST_SHIFT = 62


def multiplier(ratio: float, bits: int = NARROW) -> tuple[int, int]:
    """(m, s) with ratio = m / 2**s; m has `bits` bits. Raises IntegerError for a ratio that needs a shift below 2."""
    fraction, exponent = math.frexp(ratio)
    whole = round(fraction * 2**bits)
    if whole == 2**bits:
        whole, exponent = whole // 2, exponent + 1
    shift = bits - exponent
    if shift < 2:
        raise IntegerError(f"rescale: found ratio {ratio:g}, expected less than 2**{bits - 2}")
    if shift > _LARGEST_SHIFT:
        return whole >> min(31, shift - _LARGEST_SHIFT), _LARGEST_SHIFT
    return whole, shift


def shifted(numbers: Tensor, ratio: float, bits: int = NARROW) -> Tensor:
    """int64 numbers times a ratio, rounded once, halves up."""
    factor, shift = multiplier(ratio, bits)
    return (numbers * factor + (1 << (shift - 1))) >> shift


def saturated(numbers: Tensor, y: Affine) -> Tensor:
    """int64 codes within the output's range, in its type."""
    return numbers.clamp(y.qmin, y.qmax).to(dtype_of(y))


def dtype_of(y: Affine) -> torch.dtype:
    """The type that holds the codes of a quantisation."""
    return torch.int8 if y.qmin >= -128 and y.qmax <= 127 else torch.int16


def output(numbers: Tensor, ratios: float | Sequence[float], y: Affine, axis: int = 1, bits: int = NARROW) -> Tensor:
    """Codes of int64 sums. ratios: one, or one per index of `axis`."""
    if isinstance(ratios, float):
        return saturated(shifted(numbers, ratios, bits) + y.zero_point, y)
    parts = [shifted(part, ratio, bits) for part, ratio in zip(numbers.unbind(axis), ratios, strict=True)]
    return saturated(torch.stack(parts, axis) + y.zero_point, y)


def centred(x: QTensor) -> Tensor:
    """int64 codes without their zero point."""
    return x.codes.to(torch.int64) - x.zero_point


def is_wide(x: QTensor) -> bool:
    """Whether products of the codes are summed in 48 bits."""
    return x.codes.dtype == torch.int16


def requantised(x: QTensor, y: Affine) -> Tensor:
    """The codes in another quantisation; themselves where it is the same."""
    scale = step(x)
    if (scale, x.zero_point) == (y.scale, y.zero_point) and x.codes.dtype == dtype_of(y):
        return saturated(x.codes.to(torch.int64), y)
    return output(centred(x), scale / y.scale, y)


def step(x: QTensor) -> float:
    """The one scale of an operand. Raises IntegerError for several."""
    if isinstance(x.scale, tuple):
        raise IntegerError(f"operand: found {len(x.scale)} scales, expected one")
    return x.scale


def quantised(reals: Tensor, y: Affine) -> Tensor:
    """float32 reals as codes, as torch quantises: times the float32 reciprocal of the scale, halves to even.

    What is not a number becomes code 0.
    """
    codes = (reals.to(torch.float32) * float32(1.0 / y.scale)).round() + y.zero_point
    limited = codes.clamp(y.qmin, y.qmax)
    return torch.where(reals.isnan(), 0.0, limited).to(dtype_of(y))


def code_of(number: float, y: Affine) -> int:
    """The code of one real number; an infinite one is the end of the range."""
    return int(quantised(torch.tensor(number), y))


def reals_of(codes: Tensor, x: QTensor) -> Tensor:
    """float32 reals of codes, as torch dequantises."""
    return (codes.to(torch.float32) - x.zero_point) * float32(step(x))
