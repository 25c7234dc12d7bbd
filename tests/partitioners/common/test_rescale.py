"""The rescale schemes on numbers worked by hand, and against their definitions in plain integers."""

from __future__ import annotations

import math
import random

import pytest
import torch

from npu_assay.partitioners.common.int8.output import double_round_stage, float64_stage
from npu_assay.partitioners.common.rescale import (
    SCHEMES,
    double_rounder,
    half_away_,
    quantize_multiplier,
    tflite_double_round,
    tflite_float64,
    tflite_single_round,
    tosa_multiplier,
    tosa_single_round,
    xnnpack_fp32,
)
from npu_assay.reference.affine import Affine

HALF = 2**30
"""The multiplier of 1/2 in 31 fraction bits."""


def rescaled(scheme: str, values: list[int], real: float) -> list[int]:
    return SCHEMES[scheme](torch.tensor(values), real).tolist()


# acc * 1/4 = -1.5 -1.25 -1 -0.75 -0.5 -0.25 0 0.25 0.5 0.75 1 1.25 1.5, and 2.5 at the ends
QUARTERS = [-10, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 10]


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        # 1/4 is multiplier 2**30 and shift -1: first acc/2 with ties up (-5 -> -2, -1 -> 0, 3 -> 2), then
        # half of that with ties away from zero (-3 -> -2, -1 -> -1, 1 -> 1, 3 -> 2).
        ("tflite_double_round", [-3, -2, -1, -1, -1, -1, 0, 0, 1, 1, 1, 1, 2, 2, 3]),
        ("tflite_single_round", [-2, -1, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, 2, 3]),
        ("tosa_single_round", [-2, -1, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, 2, 3]),
        ("xnnpack_fp32", [-2, -2, -1, -1, -1, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2]),
        ("tflite_float64", [-3, -2, -1, -1, -1, -1, 0, 0, 0, 1, 1, 1, 1, 2, 3]),
    ],
)
def test_a_quarter(scheme: str, expected: list[int]) -> None:
    assert rescaled(scheme, QUARTERS, 0.25) == expected


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ("tflite_double_round", [-1, 0, 0, 1, 2]),  # shift 0: only the first rounding, ties up
        ("tflite_single_round", [-1, 0, 0, 1, 2]),
        ("tosa_single_round", [-1, 0, 0, 1, 2]),
        ("xnnpack_fp32", [-2, 0, 0, 0, 2]),
        ("tflite_float64", [-2, -1, 0, 1, 2]),
    ],
)
def test_a_half(scheme: str, expected: list[int]) -> None:
    assert rescaled(scheme, [-3, -1, 0, 1, 3], 0.5) == expected


def test_every_scheme_is_pinned() -> None:
    assert set(SCHEMES) == {
        "tflite_double_round",
        "tflite_single_round",
        "tosa_single_round",
        "xnnpack_fp32",
        "tflite_float64",
    }


@pytest.mark.parametrize(
    ("real", "expected"),
    [
        (0.0, (0, 0)),
        (1.0, (HALF, 1)),
        (0.5, (HALF, 0)),
        (0.75, (3 * 2**29, 0)),
        (3.0, (3 * 2**29, 2)),
        (2.0**-32, (HALF, -31)),
        (2.0**-33, (0, 0)),
        (1 - 2.0**-40, (HALF, 1)),  # rounds up to 2**31, kept as 2**30 with one shift more
        (1 - 2.0**-31, (2**31 - 1, 0)),
    ],
)
def test_quantize_multiplier(real: float, expected: tuple[int, int]) -> None:
    assert quantize_multiplier(real) == expected


def test_multipliers_round_half_differently() -> None:
    """0.5 + 2**-32 lies halfway between multipliers 2**30 and 2**30 + 1."""
    assert quantize_multiplier(0.5 + 2.0**-32) == (HALF + 1, 0)
    assert tosa_multiplier(0.5 + 2.0**-32) == (HALF, 31)


@pytest.mark.parametrize(
    ("real", "expected"),
    [
        (1.0, (HALF, 30)),
        (2.0**19, (HALF, 11)),
        (2.0**20, (HALF, 10)),
        (2.0**28, (HALF, 2)),
        (2.0**-32, (HALF, 62)),
        (2.0**-34, (2**28, 62)),
    ],
)
def test_tosa_multiplier(real: float, expected: tuple[int, int]) -> None:
    assert tosa_multiplier(real) == expected


@pytest.mark.parametrize("width", [16, 32])
@pytest.mark.parametrize("power", [-20, 0, 3])
def test_what_rounds_up_to_a_power_of_two_is_that_power(power: int, width: int) -> None:
    """One bit more than the multiplier's type has: half of it, and a shift less."""
    most = 2.0 ** (power + 1)
    assert (
        tosa_multiplier(most * (1 - 2.0**-width), width)
        == tosa_multiplier(most, width)
        == (2 ** (width - 2), width - 3 - power)
    )


def test_a_left_shift_comes_first_and_wraps() -> None:
    assert tflite_double_round(torch.tensor([3, -3]), HALF, 2).tolist() == [6, -6]
    assert tflite_double_round(torch.tensor([2**30]), HALF, 2).tolist() == [0]
    assert tflite_double_round(torch.tensor([2**29 + 1]), HALF, 2).tolist() == [-(2**30) + 2]


def test_the_largest_right_shift() -> None:
    """2**31 - 1 times almost 1 is 2**31 - 2; over 2**31 that rounds to 1, and half of it to 0."""
    values = torch.tensor([2**31 - 1, -(2**31), 2**30 - 1, 0])
    assert tflite_double_round(values, 2**31 - 1, -31).tolist() == [1, -1, 0, 0]


def test_xnnpack_rounds_the_accumulator_to_float32() -> None:
    """2**24 + 1 is not a float32: it goes to 2**24 before the product."""
    assert xnnpack_fp32(torch.tensor([2**24 + 1, 2**24 + 3]), 1.0).tolist() == [2**24, 2**24 + 4]


def test_half_away_just_under_a_half() -> None:
    below = math.nextafter(0.5, 0.0)
    values = torch.tensor([below, -below, 0.5, -0.5, 2.5, -2.5, 2.0**52 + 1], dtype=torch.float64)
    assert half_away_(values).tolist() == [0, 0, 1, -1, 3, -3, 2.0**52 + 1]
    below32 = 0.5 - 2.0**-25
    assert half_away_(torch.tensor([below32, -below32, 0.5, -0.5, 2.0**23 + 1])).tolist() == [0, 0, 1, -1, 2.0**23 + 1]


@pytest.mark.parametrize("real", [-1.0, math.inf, math.nan])
@pytest.mark.parametrize("scheme", ["tflite_double_round", "tflite_single_round", "tosa_single_round"])
def test_a_bad_ratio_is_refused(scheme: str, real: float) -> None:
    with pytest.raises(ValueError, match="rescale ratio: found"):
        SCHEMES[scheme](torch.tensor([1]), real)


def test_a_ratio_without_a_register_is_refused() -> None:
    with pytest.raises(ValueError, match="rescale shift: found 32, expected at most 31"):
        tflite_double_round(torch.tensor([1]), HALF, 32)
    with pytest.raises(ValueError, match=r"expected less than 2\*\*29"):
        tosa_multiplier(2.0**29)


# The definitions, as TensorFlow Lite and TOSA write them, in Python integers.


def high_multiply(a: int, b: int) -> int:
    product = a * b
    nudged = product + (2**30 if product >= 0 else 1 - 2**30)
    return nudged // 2**31 if nudged >= 0 else -(-nudged // 2**31)  # truncating division


def divide_by_power_of_two(x: int, exponent: int) -> int:
    mask = (1 << exponent) - 1
    threshold = (mask >> 1) + (1 if x < 0 else 0)
    return (x >> exponent) + (1 if (x & mask) > threshold else 0)


def wrapped(x: int) -> int:
    return (x + 2**31) % 2**32 - 2**31


def defined_double_round(acc: int, multiplier: int, shift: int) -> int:
    high = high_multiply(wrapped(acc << max(shift, 0)), multiplier)
    return divide_by_power_of_two(high, max(-shift, 0))


def accumulators(rng: random.Random, multiplier: int, shift: int) -> list[int]:
    """Boundaries, random ones of every size, and the ones around the ties of small results."""
    values = [0, 1, -1, 2**31 - 1, -(2**31), 2**30, -(2**30)]
    values += [rng.randrange(-(2**bits), 2**bits) for bits in range(1, 32) for _ in range(4)]
    if multiplier:
        ties = [round((j + 0.5) * 2.0 ** (31 - shift) / multiplier) for j in range(-130, 130)]
        values += [v + d for v in ties for d in (-1, 0, 1)]
    return [v for v in values if -(2**31) <= v < 2**31]


def multipliers(rng: random.Random) -> list[int]:
    return [0, HALF, HALF + 1, 2**31 - 1, 3 * 2**29, 5 * 2**28, rng.randrange(HALF, 2**31), rng.randrange(HALF, 2**31)]


@pytest.mark.parametrize("shift", range(-31, 32))
def test_double_rounding_is_its_definition(shift: int) -> None:
    rng = random.Random(shift)
    for multiplier in multipliers(rng):
        values = accumulators(rng, multiplier, shift)
        expected = [defined_double_round(v, multiplier, shift) for v in values]
        assert tflite_double_round(torch.tensor(values), multiplier, shift).tolist() == expected


@pytest.mark.parametrize("shift", range(-31, 32))
def test_the_output_stage_is_the_scheme_saturated(shift: int) -> None:
    """Also where the stage runs in float64, shifts -12..-1, and one past each end."""
    rng = random.Random(shift)
    y = Affine(1.0, rng.randrange(-128, 128))
    for multiplier in multipliers(rng):
        values = accumulators(rng, multiplier, shift)
        expected = [max(-128, min(127, defined_double_round(v, multiplier, shift) + y.zero_point)) for v in values]
        stage = double_round_stage([(multiplier, shift)], y)
        relu = double_round_stage([(multiplier, shift)], y, (y.zero_point, 127))
        for dtype in (torch.int32, torch.int64, torch.float64):
            assert stage(torch.tensor(values).to(dtype)).tolist() == expected
            assert relu(torch.tensor(values).to(dtype)).tolist() == [max(y.zero_point, code) for code in expected]


@pytest.mark.parametrize(
    "parameters",
    [[(HALF, -1), (3 * 2**29, -7)], [(HALF, 3), (HALF + 1, 0)], [(HALF, 3), (HALF, -1)], [(0, 0), (HALF, -20)]],
)
@pytest.mark.parametrize("pixels", [1, 3, 64, 72])
def test_one_multiplier_per_channel(parameters: list[tuple[int, int]], pixels: int) -> None:
    values = torch.arange(-pixels, pixels, dtype=torch.int64).view(pixels, 2) * 37
    expected = [[defined_double_round(int(v), *p) for v, p in zip(row, parameters, strict=True)] for row in values]
    assert double_rounder(parameters)(values).tolist() == expected
    stage = double_round_stage(parameters, Affine(1.0, 5), (0, 100))
    assert stage(values).tolist() == [[max(0, min(100, v + 5)) for v in row] for row in expected]


def test_the_stage_leaves_its_input_alone() -> None:
    for dtype in (torch.float64, torch.int64):
        for shift in (-3, 0, 2):
            acc = torch.tensor([[5, -7]], dtype=dtype)
            double_round_stage([(HALF, shift)], Affine(1.0, 0))(acc)
            float64_stage([0.3], Affine(1.0, 0))(acc)
            assert acc.tolist() == [[5, -7]]


def test_single_rounding_is_its_definition() -> None:
    rng = random.Random(1)
    for shift in range(-31, 31):
        multiplier = rng.randrange(HALF, 2**31)
        values = accumulators(rng, multiplier, min(shift, 0))
        expected = [(v * multiplier + (1 << (30 - shift))) >> (31 - shift) for v in values]
        assert tflite_single_round(torch.tensor(values), multiplier, shift).tolist() == expected
        assert tosa_single_round(torch.tensor(values), multiplier, 31 - shift).tolist() == expected


def test_float64_ties_go_away_from_zero() -> None:
    acc = torch.tensor([[1, 3], [-1, -3]])
    assert tflite_float64(acc, torch.tensor([0.5, 0.5], dtype=torch.float64)).tolist() == [[1, 2], [-1, -2]]
    assert float64_stage([0.5, 0.25], Affine(1.0, 10))(torch.tensor([[1, 2], [-1, -2]])).tolist() == [[11, 11], [9, 9]]


@pytest.mark.parametrize("ratio", [0.5, 0.25, 3 / 8, 1.0, 0.3, 1 / 3, 0.0123456789, 2.0**-20, 7e-9, 5.5, 600.0])
def test_the_float64_stage_is_the_scheme_saturated(ratio: float) -> None:
    """Ratios whose products meet ties take another way than ratios whose products stay clear of them."""
    near = [round((j + 0.5) / ratio) + d for j in range(-260, 260) for d in (-1, 0, 1)]
    values = torch.tensor([0, 2**31 - 1, -(2**31), *(v for v in near if abs(v) < 2**31)])
    for zero_point in (-128, 5, 127):
        expected = (tflite_float64(values, ratio) + zero_point).clamp(-128, 127)
        assert float64_stage([ratio], Affine(1.0, zero_point))(values).tolist() == expected.tolist()


def test_one_ratio_that_meets_ties_among_others() -> None:
    values = torch.tensor([[1, 1], [-1, -1], [3, 3], [-3, -3]])
    assert float64_stage([0.3, 0.5], Affine(1.0, 0))(values).tolist() == [[0, 1], [0, -1], [1, 2], [-1, -2]]


def test_an_activation_outside_the_type_is_refused() -> None:
    with pytest.raises(ValueError, match="activation codes: found"):
        double_round_stage([(HALF, 0)], Affine(1.0, 0), (0, 128))
