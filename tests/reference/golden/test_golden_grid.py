"""Codes that an output may hold: at zero, and at the ends of a bound."""

from __future__ import annotations

import math
import sys

import pytest
import torch

from npu_assay.reference.affine import Affine
from npu_assay.reference.golden import legal_codes, quantise_float32
from npu_assay.reference.golden.bounded import Bounded


def real(value: float, error: float = 0.0) -> Bounded:
    tensor = torch.tensor([value], dtype=torch.float64)
    return Bounded(tensor, torch.tensor([error], dtype=torch.float64)) if error else Bounded(tensor)


def test_a_code_has_no_negative_zero() -> None:
    """A small negative number becomes code 0, and 1 divided by what that stands for is positive."""
    y = Affine(2.5, 0)
    value = legal_codes(real(-0.5), y, 0.0).real(y).value
    assert value.item() == 0.0 and math.copysign(1.0, value.item()) == 1.0


def test_float32_may_round_a_tie_at_the_end_of_a_bound_either_way() -> None:
    """0 +- 0.25 in steps of 0.1: 2.5 steps, which float32 rounds to 2 or to 3."""
    y, x = Affine(0.1, 100), real(0.0, 0.25)
    codes = legal_codes(x, y, quantise_float32(x, y.scale32))
    assert (codes.low.item(), codes.nearest.item(), codes.high.item()) == (97, 100, 103)


def test_infinities_saturate_and_what_is_not_a_number_becomes_any_code() -> None:
    """Their codes are not loosened by roundings of the quantization, which would be infinite ones."""
    y, x = Affine(0.1, 100), Bounded(torch.tensor([math.inf, -math.inf, math.nan, 1.0], dtype=torch.float64))
    codes = legal_codes(x, y, quantise_float32(x, y.scale32))
    assert codes.low.tolist() == [127, -128, -128, 110] and codes.high.tolist() == [127, -128, 127, 110]


@pytest.mark.parametrize("scale", [2.0**-126, 1e-6, 1.0, 2.0**60, 2.0**100])
def test_numbers_beyond_every_range_have_codes(scale: float) -> None:
    """A real that is finite may be infinite in steps, and its error as well: the exponential of a code of 16 bits."""
    ends = [2.0**99, 1e200, 1e304, sys.float_info.max, math.inf]
    values = torch.tensor([*ends, *(-end for end in ends), math.nan], dtype=torch.float64)
    for error in (0.0, 1e-16, 0.5, 2.0):
        x = Bounded(values, (values.abs() * error).nan_to_num(math.inf))
        y = Affine(scale, 3)
        codes = legal_codes(x, y, quantise_float32(x, y.scale32))
        assert bool(((y.qmin <= codes.low) & (codes.low <= codes.nearest)).all())
        assert bool(((codes.nearest <= codes.high) & (codes.high <= y.qmax)).all())
        assert float(codes.ambiguous().sum()) <= 255 * len(values)
        if error < 1:  # sure to be above the range, or below it
            assert codes.low[1:4].tolist() == [127.0] * 3 and codes.high[6:9].tolist() == [-128.0] * 3
