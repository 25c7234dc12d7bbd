"""RESCALE with a single rounding, and torch's own way from reals to codes.

Source: the pseudo-code of RESCALE and apply_scale_32 in the TOSA 1.0 specification; the multipliers are those of Arm's
compiler.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine, float32

NARROW, WIDE = 31, 15
"""Bits of a multiplier: of a 32-bit sum, and of a 48-bit one."""
LARGEST_SHIFT = 62


def multiplier(ratio: float, bits: int = NARROW) -> tuple[int, int]:
    """(m, s) with ratio = m / 2**s; m has `bits` bits. Raises ValueError for a ratio that needs a shift below 2."""
    fraction, exponent = math.frexp(ratio)
    whole = round(fraction * 2**bits)
    if whole == 2**bits:
        whole, exponent = whole // 2, exponent + 1
    shift = bits - exponent
    if shift < 2:
        raise ValueError(f"rescale: found ratio {ratio:g}, expected less than 2**{bits - 2}")
    if shift > LARGEST_SHIFT:
        return whole >> min(31, shift - LARGEST_SHIFT), LARGEST_SHIFT
    return whole, shift


def shifted(numbers: Tensor, ratio: float, bits: int = NARROW) -> Tensor:
    """int64 numbers times a ratio, rounded once, halves up."""
    factor, shift = multiplier(ratio, bits)
    return (numbers * factor + (1 << (shift - 1))) >> shift


def output(numbers: Tensor, ratios: float | Sequence[float], y: Affine, bits: int = NARROW) -> Tensor:
    """Codes of int64 sums. ratios: one, or one per index of the last axis."""
    if isinstance(ratios, float):
        return saturated(shifted(numbers, ratios, bits) + y.zero_point, y)
    parts = [shifted(part, ratio, bits) for part, ratio in zip(numbers.unbind(-1), ratios, strict=True)]
    return saturated(torch.stack(parts, -1) + y.zero_point, y)


def saturated(numbers: Tensor, y: Affine) -> Tensor:
    """int64 codes within the output's range, in its type."""
    return numbers.clamp(y.qmin, y.qmax).to(dtype_of(y))


def dtype_of(y: Affine) -> torch.dtype:
    """The type that holds the codes of a quantization."""
    return torch.int8 if y.qmin >= -128 and y.qmax <= 127 else torch.int16


def centred(codes: Tensor, x: Affine) -> Tensor:
    """int64 codes without their zero point."""
    return codes.to(torch.int64) - x.zero_point


def bits_of(codes: Tensor) -> int:
    """Bits of the multiplier after sums of these codes: of products, and of running totals."""
    return WIDE if codes.dtype == torch.int16 else NARROW


def range_of(codes: Tensor) -> tuple[int, int]:
    """The least and the largest code of a type."""
    limits = torch.iinfo(codes.dtype)
    return limits.min, limits.max


def requantised(codes: Tensor, x: Affine, y: Affine) -> Tensor:
    """The codes in another quantization; themselves where it is the same."""
    if (x.scale, x.zero_point) == (y.scale, y.zero_point) and codes.dtype == dtype_of(y):
        return saturated(codes.to(torch.int64), y)
    return output(centred(codes, x), x.scale / y.scale, y)


def quantised(reals: Tensor, y: Affine) -> Tensor:
    """float32 reals as codes, as torch quantizes: times the float32 reciprocal of the scale, halves to even.

    What is not a number becomes code 0.
    """
    codes = (reals.to(torch.float32) * float32(1.0 / y.scale)).round() + y.zero_point
    limited = codes.clamp(y.qmin, y.qmax)
    return torch.where(reals.isnan(), 0.0, limited).to(dtype_of(y))


def code_of(number: float, y: Affine) -> int:
    """The code of one real number; an infinite one is the end of the range."""
    return int(quantised(torch.tensor(number), y))


def reals_of(codes: Tensor, x: Affine) -> Tensor:
    """float32 reals of codes, as torch dequantizes."""
    return (codes.to(torch.float32) - x.zero_point) * float32(x.scale)
