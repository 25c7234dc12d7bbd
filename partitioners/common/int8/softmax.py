"""SOFTMAX of TensorFlow Lite on int8, in fixed point over the last axis.

Source: TensorFlow Lite reference/softmax.h with gemmlowp's exp_on_negative_values and
one_over_one_plus_x_for_x_in_0_1. Qm.n below is an int32 with m integer and n fraction bits. The exponential depends
only on code - maximum, so it is a table of 256 entries.
"""

from __future__ import annotations

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.output import Kernel
from npu_assay.partitioners.common.rescale import quantize_multiplier
from npu_assay.reference.affine import Affine

OUTPUT = Affine(1 / 256, -128)
"""The quantization that SOFTMAX's output has."""

_INT32_MAX = 2**31 - 1
_INTEGER_BITS = 5
_FRACTION_BITS = 31 - _INTEGER_BITS
_SUM_INTEGER_BITS = 12
_EXP_MINUS_EIGHTH = 1895147668
_THIRD = 715827883
_FORTY_EIGHT_SEVENTEENTHS = 1515870810
_MINUS_THIRTY_TWO_SEVENTEENTHS = -1010580540
_POWERS = ((-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535), (3, 720401), (4, 242))
"""(k, exp(-2**k) in Q0.31)"""

_LONGEST = 8191


def softmax(beta: float, x: Affine) -> Kernel:
    """y = exp(beta * x) / sum(exp(beta * x)) over the last axis, quantized as `OUTPUT`.

    Raises ValueError where LiteRT aborts: beta * sx * 2**26 <= 1. The kernel raises ValueError for rows of
    more than 8191 entries, whose sum may leave 32 bits.
    """
    if beta * x.scale32 * 2.0**_FRACTION_BITS <= 1:
        raise ValueError(f"SOFTMAX beta * scale: found {beta * x.scale}, expected more than 2**-26 (LiteRT aborts)")
    exponentials = _table(beta, x)
    addends = _round_shift(exponentials, torch.tensor(_SUM_INTEGER_BITS))

    def apply(codes: Tensor) -> Tensor:
        if codes.shape[-1] > _LONGEST:
            raise ValueError(f"SOFTMAX: found {codes.shape[-1]} entries in a row, expected at most {_LONGEST}")
        below = codes.to(torch.int64) - codes.amax(dim=-1, keepdim=True) + 255
        total = addends[below].sum(dim=-1, keepdim=True)
        reciprocal, exponent = _reciprocal(total)
        scaled = _round_shift(_high_multiply(reciprocal, exponentials[below]), exponent + 23)
        return (scaled - 128).clamp_(-128, 127).to(torch.int8)

    return apply


def _table(beta: float, x: Affine) -> Tensor:
    """exp(beta * sx * d) in Q0.31 for d = -255..0, int64; 0 where it is not told from 0."""
    multiplier, shift = quantize_multiplier(min(beta * x.scale32 * 2.0**_FRACTION_BITS, float(_INT32_MAX)))
    smallest = -int(((1 << _INTEGER_BITS) - 1) * 2.0 ** (_FRACTION_BITS - shift))
    below = torch.arange(-255, 1, dtype=torch.int64)
    scaled = _high_multiply((below << max(shift, 0)).to(torch.int32).to(torch.int64), torch.tensor(multiplier))
    return torch.where(below >= smallest, _exponential(scaled), 0)


def _exponential(a: Tensor) -> Tensor:
    """exp(a) in Q0.31 for a <= 0 in Q5.26: a polynomial around -1/8, then one factor for each bit of the rest."""
    quarter = 1 << (_FRACTION_BITS - 2)
    within = (a & (quarter - 1)) - quarter
    u = _saturating_shift(within, _INTEGER_BITS) + (1 << 28)
    square = _high_multiply(u, u)
    cube, fourth = _high_multiply(square, u), _high_multiply(square, square)
    one, two = torch.tensor(1), torch.tensor(2)
    tail = _high_multiply(_round_shift(fourth, two) + cube, torch.tensor(_THIRD)) + square
    start = torch.tensor(_EXP_MINUS_EIGHTH)
    result = start + _high_multiply(start, u + _round_shift(tail, one))
    rest = within - a
    for power, factor in _POWERS:
        chosen = (rest >> (_FRACTION_BITS + power)) & 1
        result = torch.where(chosen == 1, _high_multiply(result, torch.tensor(factor)), result)
    return torch.where(a == 0, _INT32_MAX, result)


def _reciprocal(total: Tensor) -> tuple[Tensor, Tensor]:
    """(r, e) with 1 / total = r * 2**-e: r in Q0.31 within (1/2, 1], total in Q12.19, by three Newton steps."""
    bits = torch.frexp(total.to(torch.float64))[1].to(torch.int64)
    fraction = (total << (32 - bits)) - 2**31
    half = (fraction + _INT32_MAX + 1) >> 1  # half away from zero, and never negative
    value = _FORTY_EIGHT_SEVENTEENTHS + _high_multiply(half, torch.tensor(_MINUS_THIRTY_TWO_SEVENTEENTHS))
    for _ in range(3):
        error = (1 << 29) - _high_multiply(half, value)
        value = value + _saturating_shift(_high_multiply(value, error), 2)
    return _saturating_shift(value, 1), bits - (32 - _SUM_INTEGER_BITS)


def _high_multiply(a: Tensor, b: Tensor) -> Tensor:
    """SaturatingRoundingDoublingHighMul: the high half of 2 * a * b, ties up, saturated."""
    return ((a * b + (1 << 30)) >> 31).clamp_(max=_INT32_MAX)


def _round_shift(a: Tensor, bits: Tensor) -> Tensor:
    """a / 2**bits for bits >= 1, ties away from zero."""
    return (a + (a >> 63) + (torch.ones((), dtype=torch.int64) << (bits - 1))) >> bits


def _saturating_shift(a: Tensor, bits: int) -> Tensor:
    """a * 2**bits, saturated above; what is shifted here is far from the lowest number."""
    return (a << bits).clamp_(max=_INT32_MAX)
