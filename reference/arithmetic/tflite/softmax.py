"""SOFTMAX in fixed point: reference/softmax.h, with gemmlowp's exponential and reciprocal.

Qm.n is an int32 with m integer and n fraction bits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic.tflite.rounding import (
    INT32_MAX,
    divided_by_power,
    high_product,
    multiplier_and_shift,
    saturated,
    wrapped,
)

OUTPUT = Affine(1 / 256, -128)
"""The one quantization that the result has."""

LONGEST = 8191
"""Entries of a row whose sum of exponentials fits 32 bits."""
DIFFERENCE = 255
"""The largest difference of two codes."""
INTEGER_BITS, SUM_BITS = 5, 12
"""Integer bits of differences to the maximum (Q5.26), and of the sum of exponentials (Q12.19)."""
FRACTION_BITS = 31 - INTEGER_BITS
EXP_OF_MINUS_AN_EIGHTH, A_THIRD = 1895147668, 715827883  # Q0.31
FACTORS = {-2: 1672461947, -1: 1302514674, 0: 790015084, 1: 290630308, 2: 39332535, 3: 720401, 4: 242}
"""By k: exp(-2**k) in Q0.31."""
FORTY_EIGHT_17THS, MINUS_THIRTY_TWO_17THS, ONE = 1515870810, -1010580540, 2**29  # Q2.29


def softmax(codes: Tensor, beta: float, x: Affine) -> Tensor:
    """exp(beta * x) / sum(exp(beta * x)) over the last axis, quantized as `OUTPUT`; codes have 8 bits.

    Raises ValueError where LiteRT aborts, beta * sx * 2**26 <= 1, and for rows longer than `LONGEST`.
    """
    ratio = min(beta * x.scale32 * 2.0**FRACTION_BITS, float(INT32_MAX))
    if ratio <= 1:
        raise ValueError(f"SOFTMAX: beta * scale is {beta * x.scale32}, expected more than 2**-26")
    if codes.shape[-1] > LONGEST:
        raise ValueError(f"SOFTMAX: found {codes.shape[-1]} entries in a row, expected at most {LONGEST}")
    values = codes.to(torch.int64)
    below = values - values.amax(-1, keepdim=True)
    powers = _powers(torch.arange(-DIFFERENCE, 1), ratio)[below + DIFFERENCE]
    total = divided_by_power(powers, SUM_BITS).sum(-1, keepdim=True)
    reciprocal, exponent = _reciprocal(total)
    return (divided_by_power(high_product(reciprocal, powers), exponent + 31 - 8) - 128).clamp(-128, 127).char()


def _powers(below: Tensor, ratio: float) -> Tensor:
    """exp of differences (at most 0) times the ratio in Q5.26, as Q0.31; 0 for those out of range."""
    multiplier, shift = multiplier_and_shift(ratio)
    radius = int((2**INTEGER_BITS - 1) * 2.0**FRACTION_BITS / 2.0**shift)
    scaled = high_product(wrapped(below << shift), torch.tensor(multiplier))
    return torch.where(below >= -radius, _exponential(scaled), 0)


def _exponential(a: Tensor) -> Tensor:
    """exp(a) as Q0.31, for a <= 0 in Q5.26: of its part in [-1/4, 0), then a factor for each bit of the rest."""
    quarter = 2 ** (FRACTION_BITS - 2)
    within = a % quarter - quarter
    result, rest = _exponential_near_zero(saturated(within << INTEGER_BITS)), within - a
    for power, factor in FACTORS.items():
        bit = (rest >> (FRACTION_BITS + power)) % 2
        result = torch.where(bit == 1, high_product(result, torch.tensor(factor)), result)
    return torch.where(a == 0, INT32_MAX, result)


def _exponential_near_zero(a: Tensor) -> Tensor:
    """For a in [-1/4, 0), Q0.31: exp(-1/8) * (1 + x + x**2 / 2 + x**3 / 6 + x**4 / 24) at x = a + 1/8."""
    x = a + 2**28
    square = high_product(x, x)
    cube, fourth = high_product(square, x), high_product(square, square)
    third = high_product(divided_by_power(fourth, 2) + cube, torch.tensor(A_THIRD))
    constant = torch.tensor(EXP_OF_MINUS_AN_EIGHTH)
    return saturated(constant + high_product(constant, x + divided_by_power(third + square, 1)))


def _reciprocal(total: Tensor) -> tuple[Tensor, Tensor]:
    """(r, e) with 1 / total = r * 2**-e; total in Q12.19, r in Q0.31: Newton's steps from 48/17 - 32/17 * half."""
    leading_zeros = 32 - _bit_length(total)
    fraction = (total << leading_zeros) - 2**31  # total = (1 + fraction) * 2**(12 - leading_zeros)
    half = torch.div(fraction + INT32_MAX + 1, 2, rounding_mode="trunc")  # of the denominator, ties up
    value = FORTY_EIGHT_17THS + high_product(half, torch.tensor(MINUS_THIRTY_TWO_17THS))
    for _ in range(3):
        step = high_product(value, ONE - high_product(half, value))
        value = value + saturated(step << 2)
    return saturated(value << 1), SUM_BITS - leading_zeros


def _bit_length(values: Tensor) -> Tensor:
    return torch.tensor([int(one).bit_length() for one in values.flatten()]).view(values.shape)
