"""Rescale schemes: how an integer accumulator becomes an integer in the output's steps.

A real ratio r > 0 is kept as an integer multiplier and a shift, and the product is rounded. How often
it is rounded, and where a tie goes, differs between vendors; a rescale is only specified by the name
of its scheme. Every function works element-wise on integer tensors, returns int64, and neither adds
a zero point nor saturates.

    scheme               roundings   ties
    tflite_double_round  2           half up at 31 fraction bits, then half away from zero
    tflite_single_round  1           half up (towards plus infinity)
    tosa_single_round    1           half up (towards plus infinity)
    xnnpack_fp32         1 (+ the float32 product)   half to even
    tflite_float64       1 (+ the float64 product)   half away from zero

The formulas are those of TensorFlow Lite's kernels (internal/common.h), of the TOSA 1.0 operator
RESCALE, and of XNNPACK's fp32 requantization.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor

from npu_assay.reference.affine import float32

IntLike = int | Tensor


def quantize_multiplier(real: float) -> tuple[int, int]:
    """(multiplier, shift) with real ~ multiplier * 2**(shift - 31), as TensorFlow Lite computes it.

    The multiplier is 0 or within [2**30, 2**31 - 1]; a positive shift is to the left. Ratios under
    2**-32 become (0, 0). Raises ValueError for a negative or not finite ratio.
    """
    _check_ratio(real)
    fraction, shift = math.frexp(real)
    multiplier = math.floor(fraction * 2**31 + 0.5)  # half away from zero; the fraction is not negative
    if multiplier == 2**31:
        multiplier, shift = 2**30, shift + 1
    return (0, 0) if shift < -31 or multiplier == 0 else (multiplier, shift)


def tosa_multiplier(real: float, width: int = 32) -> tuple[int, int]:
    """(multiplier, shift) with real ~ multiplier * 2**-shift, for TOSA RESCALE.

    width: that of the multiplier's type, 32 with scale32 and else 16. Raises ValueError for a ratio that needs
    a shift under 2, which RESCALE has not.
    """
    _check_ratio(real)
    bits = width - 1
    fraction, exponent = math.frexp(real)
    multiplier = round(fraction * 2**bits)  # half to even
    if multiplier == 2**bits:
        multiplier, exponent = 2 ** (bits - 1), exponent + 1
    shift = bits - exponent
    if shift > 62:
        multiplier, shift = multiplier >> min(31, shift - 62), 62
    if shift < 2:
        raise ValueError(f"rescale ratio: found {real!r}, expected less than 2**{bits - 2} for TOSA RESCALE")
    return multiplier, shift


def double_rounder(parameters: Sequence[tuple[int, int]]) -> Callable[[Tensor], Tensor]:
    """`tflite_double_round` with its parameters prepared.

    One (multiplier, shift) for all elements, or one per index of the last axis. The returned function makes a fresh
    int64 tensor.

    With k = max(-shift, 0) the two roundings are (p + 2**30) >> 31 and then, for k > 0, adding
    2**(k-1), minus 1 where negative, and >> k. The first has the sign of p, so both fold into
    (p + 2**(30+k) +- 2**30) >> (31 + k), plus for p >= 0. TensorFlow Lite writes the first one with
    a truncating division and a nudge of 2**30 or 1 - 2**30, which for every p is the same integer.

    Raises ValueError for a shift over 31, that is a ratio of 2**31 or more: no int32 register holds it.
    """
    if any(shift > 31 for _, shift in parameters):
        raise ValueError(
            f"rescale shift: found {max(e for _, e in parameters)}, expected at most 31 (ratio under 2**31)"
        )
    multiplier = _column([m for m, _ in parameters])
    left = _column([max(e, 0) for _, e in parameters])
    right = [max(-e, 0) for _, e in parameters]
    nudge = _column([(1 << 30) + ((1 << (30 + k)) if k else 0) for k in right])
    negative = _column([1 << 31 if k else 0 for k in right])
    shift = _column([31 + k for k in right])
    any_left = any(e > 0 for _, e in parameters)

    def apply(acc: Tensor) -> Tensor:
        product = acc.to(torch.int64, copy=True)
        if any_left:
            product = (product << left).to(torch.int32).to(torch.int64)  # wraps as an int32 register does
        sign = product >> 63
        product *= multiplier
        product += sign.mul_(negative)
        product += nudge
        return product.__irshift__(shift)

    return apply


def tflite_double_round(acc: Tensor, multiplier: int, shift: int) -> Tensor:
    """acc * multiplier * 2**(shift - 31), rounded twice: TensorFlow Lite's MultiplyByQuantizedMultiplier.

    First to an integer times 2**shift (ties up), then by the right shift (ties away from zero). A left
    shift is applied before and wraps at 32 bits.
    """
    return double_rounder([(multiplier, shift)])(acc)


def tflite_single_round(acc: Tensor, multiplier: IntLike, shift: IntLike) -> Tensor:
    """acc * multiplier * 2**(shift - 31), rounded once, ties up: TFLITE_SINGLE_ROUNDING=1. shift <= 30."""
    return _shift_half_up(acc, multiplier, 31 - shift)


def tosa_single_round(acc: Tensor, multiplier: IntLike, shift: IntLike) -> Tensor:
    """acc * multiplier * 2**-shift, rounded once, ties up: TOSA apply_scale_32 with SINGLE_ROUND.

    shift is within 2..62; the specification requires acc within [-2**(shift-1), 2**(shift-1)).
    """
    return _shift_half_up(acc, multiplier, shift)


def xnnpack_fp32(acc: Tensor, multiplier: float | Tensor) -> Tensor:
    """float32(acc) * float32 multiplier, rounded to float32 and then to an integer, ties to even.

    XNNPACK saturates before it rounds; both orders give the same code, as the limits are integers.
    """
    scale = torch.as_tensor(multiplier, dtype=torch.float32)
    return torch.round(acc.to(torch.int64).to(torch.float32) * scale).to(torch.int64)


def tflite_float64(acc: Tensor, real: float | Tensor) -> Tensor:
    """acc * real in float64, rounded with ties away from zero: the LiteRT FULLY_CONNECTED kernel."""
    product = acc.to(torch.float64) * torch.as_tensor(real, dtype=torch.float64)
    return half_away_(product).to(torch.int64)


def half_away_(values: Tensor) -> Tensor:
    """Round finite float values to integers in place, ties away from zero.

    Truncates the sum with the largest number under a half, away from zero: a half itself would round up the
    number just under it, while a tie's sum is rounded to the integer above, which is the nearest float.
    """
    below_half = 0.5 - torch.finfo(values.dtype).eps / 4
    return values.add_(values.sign(), alpha=below_half).trunc_()


def _shift_half_up(acc: Tensor, multiplier: IntLike, shift: IntLike) -> Tensor:
    one = torch.ones((), dtype=torch.int64)
    return (acc.to(torch.int64) * multiplier + (one << (shift - 1))) >> shift


def _column(values: Sequence[int]) -> Tensor:
    """A 0-d tensor when all values agree (scalar loops are faster), else one value per last index."""
    unique = set(values)
    return torch.tensor(values[0] if len(unique) == 1 else list(values), dtype=torch.int64)


def _check_ratio(real: float) -> None:
    if not (math.isfinite(real) and real >= 0):
        raise ValueError(f"rescale ratio: found {real!r}, expected a finite number that is not negative")


def _by_multiplier(
    prepare: Callable[[float], tuple[int, int]], apply: Callable[[Tensor, int, int], Tensor]
) -> Callable[[Tensor, float], Tensor]:
    return lambda acc, real: apply(acc, *prepare(real))


SCHEMES: Mapping[str, Callable[[Tensor, float], Tensor]] = MappingProxyType(
    {
        "tflite_double_round": _by_multiplier(quantize_multiplier, tflite_double_round),
        "tflite_single_round": _by_multiplier(quantize_multiplier, tflite_single_round),
        "tosa_single_round": _by_multiplier(tosa_multiplier, tosa_single_round),
        "xnnpack_fp32": lambda acc, real: xnnpack_fp32(acc, float32(real)),
        "tflite_float64": tflite_float64,
    }
)
"""Scheme name -> (accumulator, real ratio) -> int64: the ratio is first put in the scheme's own form."""
