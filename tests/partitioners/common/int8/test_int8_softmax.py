"""The reciprocal of a softmax's sum, against the published fixed-point formula in Python integers."""

from __future__ import annotations

import random

import torch

from npu_assay.partitioners.common.int8 import softmax

ONE = 2**31 - 1


def high_product(a: int, b: int) -> int:
    """2 a b / 2**32, rounded to nearest, halves away from zero."""
    product = a * b
    nudge = 2**30 if product >= 0 else 1 - 2**30
    found = abs(product + nudge) >> 31
    return found if product + nudge >= 0 else -found


def reciprocal(total: int) -> tuple[int, int]:
    """gemmlowp's division of 1 by a sum in Q12.19: 48/17 - 32/17 d, and three Newton steps, in Q2.29."""
    bits = total.bit_length()
    half = ((total << (32 - bits)) - 2**31 + ONE + 1) // 2
    value = 1515870810 + high_product(half, -1010580540)
    for _ in range(3):
        value += max(min(high_product(value, 2**29 - high_product(half, value)) * 4, ONE), -ONE - 1)
    return max(min(value * 2, ONE), -ONE - 1), bits - 20


def test_reciprocals_are_those_of_the_formula() -> None:
    drawn = random.Random(5)
    totals = [2**19, 2**19 + 1, 2**31 - 1, 524876, *(drawn.randrange(2**19, 2**31) for _ in range(2000))]
    values, exponents = softmax._reciprocal(torch.tensor(totals))
    assert list(zip(values.tolist(), exponents.tolist(), strict=True)) == [reciprocal(total) for total in totals]
