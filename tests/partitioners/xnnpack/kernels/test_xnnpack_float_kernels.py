"""Kernels of XNNPACK in real numbers: fused sums, subnormal numbers, approximations, orders of adding."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from npu_assay.partitioners.xnnpack.kernels import accumulators, activation, dynamic
from npu_assay.partitioners.xnnpack.kernels import float32 as reals
from npu_assay.partitioners.xnnpack.kernels.fma import accumulate, emulated_fma, flushed, fma
from npu_assay.reference.operators import HOMES
from npu_assay.reference.operators.home import Accuracy

# ------------------------------------------------------------------------------------------------ fused sums


def hard_triples() -> Tensor:
    """Triples of float32: random ones of many sizes, and products next to a tie of their sum."""
    generator = torch.Generator().manual_seed(5)
    sizes = torch.randint(-30, 30, (3, 4000), generator=generator).float()
    triples = torch.randn((3, 4000), generator=generator) * torch.exp2(sizes)
    near = torch.tensor([[1 + 2.0**-12], [1 + 2.0**-12], [2.0**24]]).expand(3, 2).clone()
    near[1, 1] = 1 - 2.0**-12
    below = [2.0**-24 * (1 + 2.0**-23), 1 - 2.0**-23, 1 + 2.0**-23]  # 2**-70 below the tie of the sum
    ties = torch.tensor([[2.0**-24, 2.0**-24, below[0]], [1.0, 1.0 + 2.0**-23, below[1]], [1.0, 1.0, below[2]]])
    steps = torch.arange(2840, 2865)  # 2**30 + a * b lies around one place of float64 beside a tie
    beside = torch.stack([8 * (1 + steps * 2.0**-23), 8 * (1 - (steps - 1) * 2.0**-23), torch.full((25,), 2.0**30)])
    return torch.cat([triples, near, ties, beside], 1)


def test_fma_rounds_the_exact_sum_once() -> None:
    a, b, c = hard_triples()
    for found, p, q, r in zip(fma(a, b, c).tolist(), a.tolist(), b.tolist(), c.tolist(), strict=True):
        assert Fraction(found) == nearest_float32(Fraction(p) * Fraction(q) + Fraction(r))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("summand", [2.0**-80, 0.0, -(2.0**-80)])
def test_a_sum_next_to_a_tie_is_rounded_to_its_side(sign: float, summand: float) -> None:
    """The float64 sum is the tie itself: (1 + 2**-12) ** 2 lies in the middle of two float32 numbers."""
    operands = [torch.full((1,), number) for number in (sign * (1 + 2.0**-12), 1 + 2.0**-12, summand)]
    above = sign * summand > 0
    assert emulated_fma(*operands).tolist() == [sign * (1 + 2.0**-11 + above * 2.0**-23)]


def test_accumulate_is_fma_on_wide_numbers() -> None:
    a, b, c = hard_triples()
    assert torch.equal(accumulate(c.double(), a.double(), b.double()).float(), fma(a, b, c))


def test_two_roundings_would_be_seen() -> None:
    a, b, c = hard_triples()
    assert not torch.equal((a.double() * b.double() + c.double()).float(), fma(a, b, c))


def nearest_float32(value: Fraction) -> Fraction:
    """The nearest float32 number, ties to even, of a value in the normal range."""
    if not value:
        return value
    exponent = math.floor(math.log2(abs(value))) - 23
    exponent += abs(value) / Fraction(2) ** exponent >= 2**24
    exponent -= abs(value) / Fraction(2) ** exponent < 2**23
    return round(value / Fraction(2) ** exponent) * Fraction(2) ** exponent


def test_subnormal_numbers_are_flushed() -> None:
    assert flushed(torch.tensor([2.0**-126, 2.0**-127, -(2.0**-149)])).tolist() == [2.0**-126, 0.0, 0.0]


SUBNORMAL = torch.arange(0, 2**23, 2**23 // 4099, dtype=torch.int32).view(torch.float32)
"""Of every size, 0 first."""


@pytest.mark.parametrize("fuses", [True, False])
@pytest.mark.parametrize(
    ("function", "above", "below"),
    [
        (activation.exp, 1.0, 1.0),
        (activation.gelu, 0.0, -0.0),
        (activation.hardswish, 0.0, -0.0),
        (activation.sigmoid, 0.5, 0.5),
        (activation.tanh, 0.0, -0.0),
    ],
)
def test_functions_of_subnormal_numbers_are_those_of_zero(
    monkeypatch: pytest.MonkeyPatch, function: Callable[[Tensor], Tensor], above: float, below: float, fuses: bool
) -> None:
    if not fuses:
        monkeypatch.setattr(activation, "fused", lambda x: emulated_fma)
        monkeypatch.setattr(activation, "fuses_for_both", lambda *_: False)
    for x, expected in ((SUBNORMAL, above), (-SUBNORMAL, below)):
        found = function(x).view(torch.int32)
        assert torch.equal(found, torch.full_like(x, expected).view(torch.int32))


def test_softmax_of_subnormal_numbers_is_even() -> None:
    found = activation.softmax(torch.stack([SUBNORMAL, -SUBNORMAL], 1))
    assert torch.equal(found, torch.full((len(SUBNORMAL), 2), 0.5))


# ------------------------------------------------------------------------------------------------ real kernels


Function = Callable[[Tensor], Tensor]
FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "aten.cos.default": (activation.cos, torch.cos),
    "aten.elu.default": (lambda x: activation.elu(x, 1.0), torch.nn.functional.elu),
    "aten.exp.default": (activation.exp, torch.exp),
    "aten.gelu.default": (activation.gelu, torch.nn.functional.gelu),
    "aten.hardswish.default": (activation.hardswish, lambda x: x * (x / 6 + 0.5).clamp(0, 1)),
    "aten.log.default": (lambda x: activation.log(x.abs() + 1e-3), lambda x: torch.log(x)),
    "aten.sigmoid.default": (activation.sigmoid, torch.sigmoid),
    "aten.sin.default": (activation.sin, torch.sin),
    "aten._softmax.default": (activation.softmax, lambda x: torch.softmax(x, -1)),
    "aten.tanh.default": (activation.tanh, torch.tanh),
}


def stated(op: str) -> Accuracy:
    """How far float32 kernels may be off."""
    kernels = HOMES[op].kernels
    assert kernels is not None
    return kernels.fp32


@pytest.mark.parametrize("op", FUNCTIONS)
def test_approximations_are_as_accurate_as_stated(op: str) -> None:
    x = torch.linspace(-20, 20, 20_000).reshape(200, 100)
    kernel, exact = FUNCTIONS[op]
    real = exact((x.abs() + 1e-3).double() if op == "aten.log.default" else x.double())
    accuracy = stated(op)
    error = (kernel(x).double() - real).abs()
    assert bool((error <= real.abs() * accuracy.ulps * 2.0**-23 + accuracy.absolute).all())
    assert not bool((error <= real.abs() * 2.0**-25).all())


def test_infinite_and_zero_operands() -> None:
    ends = torch.tensor([math.inf, -math.inf, 0.0])
    assert activation.exp(ends).tolist() == [math.inf, 0.0, 1.0]
    assert activation.sigmoid(ends).tolist() == [1.0, 0.0, 0.5]
    assert activation.tanh(ends).tolist() == [1.0, -1.0, 0.0]
    assert activation.log(ends)[[0, 2]].tolist() == [math.inf, -math.inf]
    assert math.isnan(float(activation.log(ends)[1]))


def test_a_bias_may_make_an_accumulator_too_wide_for_float32() -> None:
    """The products alone would fit."""
    x, weights = torch.full((1, 1024), 127), torch.full((2, 1024), 127)
    bias = torch.tensor([2**20 + 1, -(2**20) - 2])
    expected = 1024 * 127 * 127 + bias
    assert accumulators.linear(weights, bias, 127)(x).tolist() == [expected.tolist()]
    image = accumulators.conv2d(weights.reshape(2, 1, 1, 1024), bias, 127)(x.reshape(1, 1, 1, 1024))
    assert image.flatten().tolist() == expected.tolist()


@pytest.mark.parametrize("masked", [-math.inf, torch.finfo(torch.float32).min, -1e20])
def test_masked_terms_of_a_softmax_are_zeros(masked: float) -> None:
    x = torch.linspace(-5, 5, 100).repeat(3, 1)
    x[0, ::2], x[1, 1:] = masked, masked
    found, real = activation.softmax(x), torch.softmax(x.double(), -1)
    assert bool((found[x == masked] == 0).all())
    assert bool(((found.double() - real).abs() <= real * stated("aten._softmax.default").ulps * 2.0**-23).all())
    assert bool(activation.softmax(torch.full((1, 5), -math.inf)).isnan().all())  # as of torch: there is no largest one


@pytest.mark.parametrize("size", [5, 16, 63, 64, 100, 128, 200, 250])
def test_terms_of_a_softmax_are_added_in_the_order_of_the_kernel(size: int) -> None:
    """Blocks of 64 into two sums of 16 lanes in turn, what is left into their sum, then halves into one another."""
    terms = torch.logspace(0, 7, size)[torch.randperm(size, generator=torch.Generator().manual_seed(size))]
    whole = size // 64 * 64
    sums = [np.zeros(16, np.float32), np.zeros(16, np.float32)]
    for start in range(0, whole, 16):
        sums[start // 16 % 2] += terms[start : start + 16].numpy()
    lanes = sums[0] + sums[1]
    for start in range(whole, size, 16):
        piece = terms[start : start + 16].numpy()
        lanes[: len(piece)] += piece
    for half in (8, 4, 2, 1):
        lanes = lanes[:half] + lanes[half:]
    assert activation._lane_sum(terms).tolist() == lanes.tolist()


def test_numbers_at_the_ends_of_the_range() -> None:
    """The largest numbers have logarithms, and NaN stays NaN: XNNPACK's own kernels make infinity and 0 of them."""
    most = torch.finfo(torch.float32).max
    assert activation.sigmoid(torch.tensor([-most, most])).tolist() == [0.0, 1.0]
    found = activation.log(torch.tensor([most, most / 2, math.inf, 2.0**126])).double()
    real = torch.tensor([most, most / 2, math.inf, 2.0**126], dtype=torch.float64).log()
    assert bool(((found == real) | ((found - real).abs() <= 2.0**-16)).all())
    assert activation.exp(torch.tensor([-most, most])).tolist() == [0.0, math.inf]
    assert bool(activation.exp(torch.tensor([math.nan])).isnan().all())


def test_products_add_one_term_after_the_other() -> None:
    x, weights = torch.tensor([[1.0, 2.0**24, -(2.0**24)]]), torch.ones((1, 3))
    assert reals.linear(weights, None)(x).item() == 0.0  # 1 is lost in 2**24 + 1
    assert reals.linear(weights, torch.tensor([0.5]))(x[:, [1, 2, 0]]).item() == 1.0
    assert reals.batch_matmul()(x[None], weights.T[None]).item() == 0.0


def test_depthwise_taps_run_down_the_columns() -> None:
    image, weights = torch.zeros((1, 2, 2, 2)), torch.ones((2, 2, 2, 1))
    image[0, :, :, 0] = torch.tensor([[1.0, -(2.0**24)], [2.0**24, 0.0]])
    assert reals.conv2d(weights, None, groups=2)(image)[0, 0, 0, 0].item() == 0.0
    assert reals.conv2d(weights[:1].expand(1, 2, 2, 2), None)(image)[0, 0, 0, 0].item() == 1.0
    assert reals.conv2d(weights[:1], None)(image[..., :1])[0, 0, 0, 0].item() == 1.0  # one channel is no group
    image[0, :, :, 0] = torch.tensor([[1.0, 2.0**24], [-(2.0**24), 0.0]])
    assert reals.conv2d(weights, None, groups=2)(image)[0, 0, 0, 0].item() == 1.0


@pytest.mark.parametrize("align_corners", [False, True])
def test_bilinear_is_torchs_up_to_rounding(align_corners: bool) -> None:
    x = torch.randn((1, 5, 4, 3), generator=torch.Generator().manual_seed(9))
    found = reals.resize_bilinear((7, 9), align_corners)(x).permute(0, 3, 1, 2)
    real = torch.nn.functional.interpolate(
        x.permute(0, 3, 1, 2).double(), (7, 9), mode="bilinear", align_corners=align_corners
    )
    assert torch.allclose(found.double(), real, atol=2e-6, rtol=0)


def test_averages_do_not_count_padding() -> None:
    x = torch.arange(9.0).view(1, 3, 3, 1)
    found = reals.avg_pool2d((3, 3), (2, 2), ((1, 1), (1, 1)))(x)
    assert found.flatten().tolist() == pytest.approx([2.0, 3.0, 5.0, 6.0])
    assert reals.mean()(x).item() == pytest.approx(4.0)


def test_zero_points_of_ranges_whose_step_is_infinite_stay_codes() -> None:
    """255 / range overflows below 2**-120: the zero point is the least code."""
    rows = dynamic.quantize_rows(torch.tensor([[1e-38, -1e-38], [1e-38, 0.0], [-1e-44, 1e-38]]))
    assert rows.zero_points.flatten().tolist() == [-128.0, -128.0, -128.0]


def test_a_group_of_many_weights_is_summed_exactly() -> None:
    """60000 products of 4-bit codes and 8-bit ones leave the 24 bits in which float32 counts."""
    generator = torch.Generator().manual_seed(9)
    weights = torch.randint(5, 8, (3, 60000), generator=generator).char()
    x = torch.rand((2, 60000), generator=generator)
    rows = dynamic.quantize_rows(x)
    sums = (rows.codes.long() + 128) @ weights.long().T
    assert int(sums.max()) > 2**24
    correction = sum(part.sum(1).float() for part in torch.split(weights.float(), dynamic._PACKED, dim=1))
    start = -(rows.zero_points + 128) * correction
    expected = fma(sums.float(), torch.ones(()), start) * rows.scales
    assert torch.equal(dynamic.groupwise_linear(weights, torch.ones(3, 1), None)(x), expected)


@pytest.mark.parametrize(
    "row", [(-0.10324788093566895, 0.10488025844097137), (-0.7857284545898438, 0.7857285141944885)]
)
def test_the_zero_point_is_that_of_the_end_that_is_hit_more_exactly(row: tuple[float, float]) -> None:
    """-128 less one end and 127 less the other round to -1 and to a neighbor here; XNNPACK's library has -1."""
    assert dynamic.quantize_rows(torch.tensor([row])).zero_points.item() == -1.0
