"""The grids of float goldens, and their error bounds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from golden_programs import F64, IMAGE
from torch import Tensor

from npu_assay.conformance.judge.numerics import golden
from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step, Value
from npu_assay.partitioners.common.rescale import SCHEMES
from npu_assay.reference.affine import Affine
from npu_assay.reference.golden import (
    Bounded,
    dequantised,
    device,
    excess,
    legal_codes,
    on_grid,
    quantised,
    run,
    values,
)
from npu_assay.reference.golden.error_bound import RELATIVE

# ------------------------------------------------------------------------------------ grids


def test_dequantised_uses_the_float32_scale() -> None:
    x = dequantised(torch.tensor([3, -128], dtype=torch.int8), 0.1, 3)
    held = float(torch.tensor(0.1))
    assert x.exact and x.scale == held != 0.1
    assert x.value.tolist() == [0.0, -131 * held]


def test_dequantised_per_channel() -> None:
    x = dequantised(torch.ones(2, 3, dtype=torch.int8), (0.5, 0.25, 2.0), 0, 1)
    assert x.value.tolist() == [[0.5, 0.25, 2.0]] * 2


def test_quantised_adds_half_a_step_within_the_range() -> None:
    y = Affine(0.5, 0)
    b = quantised(Bounded(torch.tensor([0.1, 63.4, 100.0, -64.2], dtype=F64)), y, 0.25)
    assert b.value.tolist() == [0.1, 63.4, 63.5, -64.0]
    assert b.error.tolist() == pytest.approx([0.375, 0.375, 0.0, 0.175])


def test_quantised_on_the_grid_adds_nothing() -> None:
    b = quantised(Bounded(torch.tensor([1.5, 200.0], dtype=F64)), Affine(0.5, 0), 0.0, on_grid=True)
    assert b.exact and b.value.tolist() == [1.5, 63.5]


def test_legal_codes_are_ambiguous_only_around_ties() -> None:
    steps = torch.tensor([0.2, 0.4, 0.5, 1.5, 0.6, 126.5, 500.0], dtype=F64)
    codes = legal_codes(Bounded(steps), Affine(1.0, 0), 0.15)
    assert codes.nearest.tolist() == [0, 0, 0, 2, 1, 126, 127]
    assert codes.low.tolist() == [0, 0, 0, 1, 0, 126, 127]
    assert codes.high.tolist() == [0, 1, 1, 2, 1, 127, 127]
    assert codes.ambiguous().tolist() == [0, 1, 1, 1, 1, 1, 0]


@pytest.mark.parametrize(
    ("op", "rest", "same_scale"),
    [
        ("aten.relu.default", (), True),
        ("aten.clamp.default", (0, 6), False),
        ("aten.constant_pad_nd.default", ([1, 1],), True),
        ("aten.constant_pad_nd.default", ([1, 1], 1.5), False),
        ("aten.sigmoid.default", (), False),
    ],
)
def test_on_grid(op: str, rest: tuple[Any, ...], same_scale: bool) -> None:
    x = dequantised(torch.arange(4, dtype=torch.int8), 0.5, 0)
    assert on_grid(op, (x, *rest), {}, 0.5) is same_scale
    assert not on_grid(op, (x, *rest), {}, 0.25)
    assert not on_grid(op, (Bounded(x.value), *rest), {}, 0.5)


# ------------------------------------------------------------------------------------ error bounds

RATIOS = [0.9, 0.5, 0.499, 0.26, 0.3, 0.13, 0.0371, 0.0021]


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("ratio", RATIOS)
def test_every_scheme_stays_within_half_a_step_and_its_excess(name: str, ratio: float) -> None:
    acc = torch.arange(-40000, 40000)
    real = acc * ratio
    off = (SCHEMES[name](acc, ratio) - real).abs()
    assert bool((off <= 0.5 + excess(name)(ratio) + real.abs() * RELATIVE).all())


@pytest.mark.parametrize("ratio", [0.49, 0.26, 0.13, 0.0371])
def test_double_rounding_needs_its_excess(ratio: float) -> None:
    """No smaller error bound would do: some accumulator comes within 10 % of it."""
    acc = torch.arange(-40000, 40000)
    off = (SCHEMES["tflite_double_round"](acc, ratio) - acc * ratio).abs()
    assert float(off.max()) > 0.5 + 0.9 * excess("tflite_double_round")(ratio)


def test_a_vanishing_ratio_loses_everything() -> None:
    assert excess("tflite_double_round")(2.0**-33) == 0.5


def test_without_a_name_the_largest_excess_counts() -> None:
    assert all(excess(None)(ratio) >= excess(name)(ratio) for name in SCHEMES for ratio in RATIOS)


def test_unknown_scheme_is_an_error() -> None:
    with pytest.raises(ValueError, match="found 'ties_to_odd', expected one of"):
        excess("ties_to_odd")


def test_per_channel_error_bounds_lie_along_the_output_channels() -> None:
    x = dequantised(torch.zeros(1, 1, 2, 2, dtype=torch.int8), 0.5, 0)
    w = dequantised(torch.zeros(2, 1, 1, 1, dtype=torch.int8), (0.6, 1.7), 0, 0)
    args = (x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    (y,) = run("aten.convolution.default", args, {})
    error_bound = device("aten.convolution.default", args, {}, y, 1.0, "tflite_double_round")
    assert isinstance(error_bound, Tensor)
    assert error_bound.expand(1, 2, 2, 2)[0, :, 0, 0].tolist() == [0.25, 0.0]  # ratios 0.3 and 0.85


@pytest.mark.parametrize(("steps", "more"), [(1.0, [0.0, 0.0]), (1.0 + 2.0**-23, [0.0, 0.0]), (1.01, [0.15, 0.425])])
def test_a_bias_of_other_steps_is_rounded_to_those_of_the_product(steps: float, more: list[float]) -> None:
    """Half a step of either output's accumulator, 0.5 * 0.6 and 0.5 * 1.7."""
    x = dequantised(torch.zeros(1, 3, dtype=torch.int8), 0.5, 0)
    w = dequantised(torch.zeros(2, 3, dtype=torch.int8), (0.6, 1.7), 0, 0)
    b = dequantised(torch.zeros(2, dtype=torch.int32), (0.3 * steps, 0.85 * steps), 0, 0)
    (y,) = run("aten.linear.default", (x, w, b), {})
    error_bound, bare = (
        device("aten.linear.default", (x, w, given), {}, y, 1.0, "tosa_single_round", wide=False) for given in (b, None)
    )
    assert (torch.as_tensor(error_bound) - bare).expand(1, 2).tolist() == [pytest.approx(more, abs=1e-6)]


def test_real_operands_have_no_device_error_bound() -> None:
    x = Bounded(torch.zeros(3, dtype=F64))
    assert float(torch.as_tensor(device("aten.relu.default", (x,), {}, x, 1.0, None)).max()) == 0


def test_values_unpacks_nested_operands() -> None:
    unpacked = values(((IMAGE, 2), None))
    assert unpacked[0][0] is IMAGE.value and unpacked[0][1:] == [2] and unpacked[1] is None


@pytest.mark.parametrize("scheme", [None, "tosa_single_round", "xnnpack_fp32"])
def test_scales_along_another_axis_than_the_outputs_are_bounded(scheme: str | None) -> None:
    """As of weights in the place of the input: every backend refuses such a product, and its fallback is judged."""
    x = Value("x", (3, 7), Quant((0.1,) * 7, axis=1))
    w, b = (Value(name, shape, Quant(0.1), constant=True) for name, shape in (("w", (4, 7)), ("b", (4,))))
    step = Step("y", "aten.linear.default", (Ref("x"), Ref("w"), Ref("b")), (), Quant(0.5))
    golden(Graph((x, w, b), (step,), (Ref("y"),))).walk(scheme, delegated=False)
