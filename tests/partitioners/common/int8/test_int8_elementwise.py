"""Element-wise operators on numbers worked by hand; LiteRT is compared in crosscheck/."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.elementwise import (
    abs_,
    add,
    leaky_relu,
    mul,
    neg,
    prelu,
    relu,
    requantize,
    sub,
)
from npu_assay.partitioners.common.int8.lut import ALL_CODES, logistic, lookup, tanh
from npu_assay.partitioners.common.int8.softmax import OUTPUT, _table, softmax
from npu_assay.reference.affine import Affine, dequantise, quantise
from npu_assay.reference.arithmetic.tflite.softmax import _powers

ONE = Affine(1.0, 0)
TWO = Affine(2.0, 0)


def codes(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int8)


def test_add_rounds_ties_away_from_zero() -> None:
    """Halves of 3, 1, -1, -3, 254, -256: the finer grid has 20 bits more, so only the last rounding shows."""
    left, right = codes(1, 0, 0, -1, 127, -128), codes(2, 1, -1, -2, 127, -128)
    assert add(ONE, ONE, TWO)(left, right).tolist() == [2, 1, -1, -2, 127, -128]
    assert sub(ONE, ONE, TWO)(left, right).tolist() == [-1, -1, 1, 1, 0, 0]


def test_add_zero_points_scales_and_saturation() -> None:
    """1 * (10 - 3) + 2 * (-5 + 1) = -1; -1 / 0.5 + 7 = 5. At the end (127 - 3) + 2 * 128 saturates."""
    kernel = add(Affine(1.0, 3), Affine(2.0, -1), Affine(0.5, 7))
    assert kernel(codes(10, 127), codes(-5, 127)).tolist() == [5, 127]
    assert add(ONE, ONE, ONE, (0, 6))(codes(1, -9, 9), codes(1, 1, 1)).tolist() == [2, 0, 6]


def test_broadcasting() -> None:
    grid, row = codes(*range(6)).view(2, 3), codes(10, 20, 30)
    assert add(ONE, ONE, ONE)(grid, row).tolist() == [[10, 21, 32], [13, 24, 35]]
    assert mul(ONE, ONE, ONE)(grid, codes(2)).tolist() == [[0, 2, 4], [6, 8, 10]]


@pytest.mark.parametrize(("kernel", "name"), [(add, "ADD"), (sub, "SUB")])
def test_sums_that_litert_does_not_define_are_refused(kernel: Callable[..., object], name: str) -> None:
    """2 * max(sa, sb) = 2**20 * sy is refused; a little less is not."""
    with pytest.raises(ValueError, match=rf"{name} output ratio .* found 1.0 .*expected less than 1"):
        kernel(Affine(2.0**19, 0), ONE, ONE)
    kernel(Affine(2.0**19 - 1, 0), ONE, ONE)


def test_mul_rounds_twice() -> None:
    """products / 4: 1.25 and -1.25 lie under a tie, but the first rounding moves them onto it or below."""
    kernel = mul(ONE, ONE, Affine(4.0, 0))
    assert kernel(codes(5, 6, -5, -6, 1, -1, -3), codes(1, 1, 1, 1, 1, 1, 1)).tolist() == [2, 2, -1, -2, 1, 0, -1]
    assert mul(Affine(1.0, 2), Affine(1.0, -3), ONE)(codes(5), codes(4)).tolist() == [21]


@pytest.mark.parametrize("kernel", [add, sub, mul])
def test_large_tensors_give_the_same_codes(kernel: Callable[..., Callable[[Tensor, Tensor], Tensor]]) -> None:
    """All pairs of codes at once, and one row of them at a time."""
    function = kernel(Affine(0.3, 5), Affine(0.7, -128), Affine(0.9, -4))
    every = ALL_CODES.to(torch.int8)
    row_by_row = torch.stack([function(every[i : i + 1], every) for i in range(256)])
    assert torch.equal(function(every.view(256, 1).expand(256, 256), every), row_by_row)


def test_abs_and_neg() -> None:
    assert abs_(Affine(1.0, 3), Affine(1.0, -5))(codes(-128, 0, 3, 127)).tolist() == [126, -2, -5, 119]
    assert abs_(ONE, TWO)(codes(-3, 3, -128)).tolist() == [2, 2, 64]
    assert neg(Affine(0.1, 5))(codes(-128, 5, 127, 0)).tolist() == [127, 5, -117, 10]


def test_relu_limits_are_codes_of_the_output() -> None:
    """6 / 0.4 = 15: with zero point -10 the codes end at 5."""
    y = Affine(0.4, -10)
    assert relu(0.0, 6.0, y, y)(codes(-128, -11, -10, 0, 5, 6, 127)).tolist() == [-10, -10, -10, 0, 5, 5, 5]
    assert relu(0.0, None, y, y)(codes(-128, 127)).tolist() == [-10, 127]
    assert relu(-1.0, 1.0, ONE, Affine(2.0, 0))(codes(-9, 9)).tolist() == [-1, 1]  # 0.5 goes away from zero
    fine = Affine(2.0**-40, 0)
    assert relu(0.0, 6.0, fine, fine)(codes(-9, 127)).tolist() == [0, 127]


def test_leaky_relu_and_prelu() -> None:
    assert leaky_relu(0.5, ONE, ONE)(codes(10, -10, -3, 0)).tolist() == [10, -5, -1, 0]
    assert leaky_relu(-0.5, ONE, ONE)(codes(10, -10)).tolist() == [10, 5]
    alpha = codes(1, -1, 3)
    kernel = prelu(alpha, Affine(0.5, 1), ONE, ONE)
    assert kernel(codes(-4, -4, -4, 4, 4, 4).view(2, 3)).tolist() == [[0, 4, -4], [4, 4, 4]]


def test_requantize_rounds_twice() -> None:
    """A quarter of the code, as in test_rescale."""
    assert requantize(ONE, Affine(4.0, 0))(codes(-5, -3, -1, 1, 2, 3, 5, 6)).tolist() == [-1, -1, 0, 1, 1, 1, 2, 2]


def test_affine_round_trip_and_refusals() -> None:
    q = Affine(0.25, 7)
    every = ALL_CODES.to(torch.int8)
    assert torch.equal(quantise(dequantise(every, q), q), every)
    assert quantise(torch.tensor([0.125, 0.375, 1e9]), q).tolist() == [7, 9, 127]
    for scale in (0.0, -1.0, math.inf, math.nan, 1e-60, 1e60):
        with pytest.raises(ValueError, match=r"Affine\.scale: found"):
            Affine(scale, 0)
    with pytest.raises(ValueError, match=r"Affine.zero_point: found 128, expected within \[-128, 127\]"):
        Affine(1.0, 128)


def test_lookup_reaches_both_ends_and_keeps_the_shape() -> None:
    table = (ALL_CODES + 128) * 10
    assert lookup(table, codes(-128, 127, 0, -1).view(2, 2)).tolist() == [[0, 2550], [1280, 1270]]
    assert lookup(table, codes(-128, 127, 0, -1).view(2, 2).t()).tolist() == [[0, 1280], [2550, 1270]]


def test_logistic_and_tanh() -> None:
    """logistic(0) = 1/2 is code 0 of (1/256, -128); tanh(1) = 0.76159 is 97.48 of 128ths."""
    x = Affine(1.0, 0)
    assert logistic(x, OUTPUT)(codes(0, 127, -128, 1)).tolist() == [0, 127, -128, 59]
    assert tanh(x, Affine(1 / 128, 0))(codes(0, 1, -1, 127, -128)).tolist() == [0, 97, -97, 127, -128]


def test_softmax_of_equal_entries() -> None:
    """Four quarters are 64 steps each: 64 - 128."""
    assert softmax(1.0, Affine(0.1, 5))(codes(9, 9, 9, 9)).tolist() == [-64] * 4


def test_softmax_is_the_real_one_rounded() -> None:
    x = Affine(0.05, -7)
    inputs = torch.randint(-128, 128, (20, 30), dtype=torch.int8, generator=torch.Generator().manual_seed(1))
    real = torch.softmax(dequantise(inputs, x), dim=-1) * 256 - 128
    assert (softmax(1.0, x)(inputs) - real).abs().max() <= 0.5 + 1e-4


@pytest.mark.parametrize("scale", [2.0**-20, 1e-4, 0.0039, 0.03, 0.117, 0.5, 3.7])
def test_exponentials_are_the_specified_ones_in_all_their_bits(scale: float) -> None:
    """Results of 8 bits would not show how products of 31 bits are rounded."""
    x, below = Affine(scale, 0), torch.arange(-255, 1)
    assert torch.equal(_table(1.0, x), _powers(below, x.scale32 * 2.0**26))


def test_softmax_limits() -> None:
    with pytest.raises(ValueError, match="SOFTMAX: found 8192 entries in a row, expected at most 8191"):
        softmax(1.0, ONE)(torch.zeros((1, 8192), dtype=torch.int8))
    assert softmax(1.0, ONE)(torch.zeros((1, 8191), dtype=torch.int8)).tolist() == [[-128] * 8191]
    with pytest.raises(ValueError, match=r"SOFTMAX beta \* scale: found .*, expected more than 2\*\*-26"):
        softmax(1.0, Affine(2.0**-26, 0))
