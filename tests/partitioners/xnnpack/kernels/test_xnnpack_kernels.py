"""The kernels of `partitioners.xnnpack.kernels` against their formulas in whole numbers, fractions and float64."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from npu_assay.partitioners.xnnpack.kernels import convert, dynamic, elementwise, linear, pooling
from npu_assay.partitioners.xnnpack.kernels.fma import fma
from npu_assay.partitioners.xnnpack.kernels.output import code
from npu_assay.reference.affine import Affine, float32
from npu_assay.reference.arithmetic import xnnpack as specified

ALL = torch.arange(-128, 128).to(torch.int8)
PAIRS = (ALL.repeat_interleave(256), ALL.repeat(256))
SCALES = [(0.03, 3, 0.02, -5, 0.05, 1), (0.1, -128, 0.001, 127, 0.02, 0), (1.0, 0, 1.0, 0, 2.0, 1)]


def codes(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8)


def rounded(value: Fraction) -> int:
    return round(value)  # Fraction rounds ties to even


def saturated(value: int, lo: int = -128, hi: int = 127) -> int:
    return max(lo, min(hi, value))


# ------------------------------------------------------------------------------------------------ static int8


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_are_shifted_products_rounded_half_up(
    scales: tuple[float, int, float, int, float, int], sign: int
) -> None:
    sa, za, sb, zb, sy, zy = scales
    a, b, y = Affine(sa, za), Affine(sb, zb), Affine(sy, zy)
    ra, rb = np.float32(np.float32(sa) / np.float32(sy)), np.float32(np.float32(sb) / np.float32(sy))
    shift = 20 - math.floor(math.log2(max(ra, rb)))
    first, second = (rounded(Fraction(float(r)) * 2**shift) for r in (ra, rb))
    p, q = (side.numpy().astype(np.int64) for side in PAIRS)
    acc = (1 << (shift - 1)) + first * (p - za) + sign * second * (q - zb)
    expected = np.clip((acc >> shift) + zy, -128, 127)
    found = (elementwise.add if sign > 0 else elementwise.sub)(a, b, y)(*PAIRS)
    assert np.array_equal(found.numpy(), expected)


@pytest.mark.parametrize("scales", SCALES)
def test_products_of_codes_round_once_after_a_float32_multiplication(
    scales: tuple[float, int, float, int, float, int],
) -> None:
    sa, za, sb, zb, sy, zy = scales
    ratio = np.float32(np.float32(sa) * np.float32(sb)) / np.float32(sy)
    p, q = (side.numpy().astype(np.float32) for side in PAIRS)
    expected = np.clip(np.rint((p - za) * (q - zb) * ratio) + zy, -128, 127)
    assert np.array_equal(elementwise.mul(Affine(sa, za), Affine(sb, zb), Affine(sy, zy))(*PAIRS).numpy(), expected)


def test_a_sum_of_too_small_a_ratio_is_refused() -> None:
    with pytest.raises(ValueError, match="ratio of a sum"):
        elementwise.add(Affine(1e-4, 0), Affine(1e-4, 0), Affine(1.0, 0))


@pytest.mark.parametrize("w_scales", [(0.01,), tuple(0.002 * (i + 1) for i in range(6))])
@pytest.mark.parametrize("activation", [None, (-3, 90)])
def test_linear(w_scales: tuple[float, ...], activation: tuple[int, int] | None) -> None:
    generator = torch.Generator().manual_seed(1)
    x, y, weights = Affine(0.02, -7), Affine(0.3, 11), codes(generator, 6, 33)
    bias = torch.randint(-9000, 9000, (6,), generator=generator, dtype=torch.int32)
    given = codes(generator, 5, 33)
    acc = (given.long() + 7) @ weights.long().T + bias
    lo, hi = activation or (-128, 127)
    found = linear.linear(weights, bias, x, w_scales, y, activation)(given)
    for row, column in itertools.product(range(5), range(6)):
        scale = float32(w_scales[column % len(w_scales)])
        ratio = np.float32(np.float32(x.scale32 * scale) / np.float32(y.scale32))
        value = float(np.float32(int(acc[row, column])) * ratio)
        expected = saturated(round(value) + 11, lo, hi)
        assert int(found[row, column]) == expected


@pytest.mark.parametrize(("groups", "each", "outputs"), [(1, 5, 4), (2, 3, 6), (6, 1, 6), (6, 1, 12)])
def test_conv2d_is_a_linear_of_windows(groups: int, each: int, outputs: int) -> None:
    generator = torch.Generator().manual_seed(2)
    x, y = Affine(0.05, 20), Affine(0.9, -4)
    weights, given = codes(generator, outputs, 3, 2, each), codes(generator, 2, 6, 7, each * groups)
    kernel = linear.conv2d(weights, None, x, (0.01,), y, (2, 1), (1, 2), ((1, 0), (2, 1)), groups)
    wide = torch.nn.functional.conv2d(
        torch.nn.functional.pad(given.permute(0, 3, 1, 2).double() - 20, (2, 1, 1, 0)),
        weights.permute(0, 3, 1, 2).double(), None, (2, 1), 0, (1, 2), groups,
    )  # fmt: skip
    ratio = torch.tensor(float32(float32(x.scale32 * float32(0.01)) / y.scale32))
    expected = ((wide.float() * ratio).round() - 4).clamp(-128, 127).permute(0, 2, 3, 1)
    assert torch.equal(kernel(given), expected.to(torch.int8))


def test_transpose_conv2d_adds_what_every_cell_sends() -> None:
    generator = torch.Generator().manual_seed(3)
    x, y = Affine(0.05, 20), Affine(0.9, -4)
    weights, given = codes(generator, 4, 3, 2, 5), codes(generator, 2, 4, 5, 5)
    kernel = linear.transpose_conv2d(weights, None, x, (0.01,), y, (2, 3), (1, 2), ((1, 1), (1, 1)), (1, 2))
    wide = torch.nn.functional.conv_transpose2d(
        given.permute(0, 3, 1, 2).double() - 20,
        weights.permute(3, 0, 1, 2).double(),
        None,
        (2, 3),
        1,
        (1, 2),
        1,
        (1, 2),
    )
    ratio = torch.tensor(float32(float32(x.scale32 * float32(0.01)) / y.scale32))
    expected = ((wide.float() * ratio).round() - 4).clamp(-128, 127).permute(0, 2, 3, 1)
    assert torch.equal(kernel(given), expected.to(torch.int8))


def test_a_requantisation_ratio_over_256_is_refused() -> None:
    with pytest.raises(ValueError, match="requantization ratio"):
        linear.linear(torch.ones((1, 1), dtype=torch.int8), None, Affine(257.0, 0), (1.0,), Affine(1.0, 0))


def test_clamp_keeps_codes_of_one_quantisation() -> None:
    q = Affine(0.5, 3)
    found = elementwise.clamp(-1.25, 6.0, q, q)(ALL)
    assert torch.equal(found, ALL.clamp(round(-1.25 / 0.5 + 3), 15))  # -2.5 + 3 is a tie to even: 0
    assert code(-1.25, q) == 0


def test_clamp_rounds_after_the_zero_point_of_another_quantisation() -> None:
    x, y = Affine(0.5, 0), Affine(1.0, 1)
    expected = np.clip(np.rint(ALL.numpy().astype(np.float32) * np.float32(0.5) + np.float32(1.0)), -128, 127)
    assert np.array_equal(elementwise.clamp(None, None, x, y)(ALL).numpy(), expected)


def test_mean_of_codes() -> None:
    given = codes(torch.Generator().manual_seed(4), 2, 5, 3, 4)
    x, y = Affine(0.1, 9), Affine(0.07, -2)
    ratio = np.float32(np.float32(np.float32(0.1) / np.float32(0.07)) / np.float32(15))
    start = np.float32(-2) - np.float32(15 * 9) * ratio
    total = given.long().sum((1, 2)).numpy().astype(np.float32)
    expected = np.clip(np.rint(total * ratio + start), -128, 127)
    assert np.array_equal(pooling.mean(x, y)(given)[:, 0, 0].numpy(), expected)


def test_max_pool_never_takes_padding() -> None:
    given = torch.full((1, 3, 3, 1), -128, dtype=torch.int8)
    assert torch.equal(
        pooling.max_pool2d((2, 2), (1, 1), (2, 2), ((1, 1), (1, 1)))(given), torch.full_like(given, -128)
    )


# ------------------------------------------------------------------------------------------------ conversions


def test_quantize_rounds_before_the_zero_point_and_saturates() -> None:
    given = torch.tensor([0.25, 0.75, 1.25, -0.25, 1e9, -1e9, math.inf, -math.inf, math.nan])
    assert convert.quantize(Affine(0.5, 1))(given).tolist() == [1, 3, 3, 1, 127, -128, 127, -128, 127]


def test_quantize_from_half_precision_rounds_the_reciprocal_to_half() -> None:
    scale = float(np.float16(1 / np.float32(0.03)))
    given = torch.linspace(-4, 4, 999).half()
    expected = (given.double() * scale).round().clamp(-128, 127).to(torch.int8)
    assert torch.equal(convert.quantize(Affine(0.03, 0), half=True)(given), expected)


def test_dequantize_and_requantize() -> None:
    x = Affine(0.03, 5)
    assert torch.equal(convert.dequantize(x)(ALL), (ALL.float() - 5) * torch.tensor(0.03))
    found = convert.requantize(x, Affine(0.06, -1))(ALL).long()
    assert torch.equal(found, ((((ALL.long() - 5) * 128) + 128) >> 8) - 1)
    with pytest.raises(ValueError, match="ratio of scales"):
        convert.requantize(x, Affine(30.0, 0))


def test_the_step_of_a_bias_is_rounded_per_channel_only() -> None:
    x, bias = Affine(float32(0.1), 0), torch.tensor([1.0, -2.0])
    assert specified.static.quantize_bias(bias, x, (0.003,)).tolist() == [round(1 / (0.003 * float32(0.1))), -6667]
    assert specified.static.quantize_bias(bias, x, (0.003, 0.003)).dtype == torch.int32


# ------------------------------------------------------------------------------------------------ run-time rows


def test_rows_are_quantised_by_their_own_extremes() -> None:
    rows = dynamic.quantize_rows(torch.tensor([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [-1.0, 0.5, 1.0]]))
    assert rows.zero_points.flatten().tolist() == [127.0, -128.0, 0.0]
    assert rows.codes.tolist() == [[127] * 3, [-43, 42, 127], [-128, 64, 127]]
    assert rows.scales.flatten().tolist() == [1.0, float(torch.reciprocal(torch.tensor(85.0))), float32(1 / 127.5)]


def test_dynamic_linear_is_a_fused_sum_of_an_exact_accumulator() -> None:
    generator = torch.Generator().manual_seed(6)
    weights, bias = codes(generator, 4, 50), torch.randn(4, generator=generator)
    x, scales = torch.randn((3, 50), generator=generator), (0.01, 0.02, 0.03, 0.04)
    rows = dynamic.quantize_rows(x)
    acc = (rows.codes.long() - rows.zero_points.long()) @ weights.long().T
    expected = fma(acc.float() * rows.scales, torch.tensor(scales), bias)
    assert torch.equal(dynamic.linear(weights, scales, bias)(x), expected)
    assert torch.equal(dynamic.linear(weights, scales, bias, (0.0, 1.0))(x), expected.clamp(0.0, 1.0))


def test_dynamic_conv2d_quantises_image_by_image() -> None:
    generator = torch.Generator().manual_seed(7)
    x, weights = torch.randn((2, 4, 4, 3), generator=generator), codes(generator, 5, 2, 1, 3)
    kernel = dynamic.conv2d(weights, [0.01] * 5, None)
    single = torch.cat([kernel(image[None]) for image in x])
    assert torch.equal(kernel(x), single)
    halves = torch.cat([kernel(image[None, :, :2]) for image in x])
    assert not torch.equal(halves, single[:, :, :2])


def test_dynamic_conv2d_of_single_elements_quantises_them_one_by_one() -> None:
    generator = torch.Generator().manual_seed(7)
    x, weights = torch.randn((2, 4, 4, 3), generator=generator), codes(generator, 5, 1, 1, 3)
    kernel = dynamic.conv2d(weights, [0.01] * 5, None)
    assert torch.equal(kernel(x).view(-1, 5), dynamic.linear(weights.view(5, 3), [0.01] * 5, None)(x.view(-1, 3)))
    assert torch.equal(kernel(x[:, :, :2]), kernel(x)[:, :, :2])


def test_groups_have_bfloat16_scales_and_are_added_in_order() -> None:
    generator = torch.Generator().manual_seed(8)
    weights = torch.randint(-8, 8, (3, 64), generator=generator, dtype=torch.int8)
    scales, x = torch.rand((3, 2), generator=generator) * 0.1, torch.randn((4, 64), generator=generator)
    found = dynamic.groupwise_linear(weights, scales, None)(x)
    steps = scales.to(torch.bfloat16).float()
    real = x.double() @ (weights.double() * steps.double().repeat_interleave(32, 1)).T
    assert float((found - real).abs().max()) < 0.05
    assert torch.equal(found, dynamic.groupwise_linear(weights, steps, None)(x))
