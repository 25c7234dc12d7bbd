"""Rules of Ethos-U from both sides: every value that a rule names, and those next to it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from ethosu_graphs import U85, Builder, judge
from ethosu_runs import compiled
from lowering_graphs import convolution
from torch import fx

from npu_assay.partitioners.ethosu.operators import OPERATORS
from npu_assay.partitioners.ethosu.support.linear import largest_sum
from npu_assay.partitioners.ethosu.support.rule import Context

BILINEAR, NEAREST = "aten.upsample_bilinear2d.vec", "aten.upsample_nearest2d.vec"
WHERE, SLICE = "aten.where.self", "aten.slice_copy.Tensor"


@pytest.mark.parametrize("start", [None, 1])
@pytest.mark.parametrize("end", [None, 5])
def test_slices_have_both_ends(start: int | None, end: int | None) -> None:
    verdict = judge(lambda b: b.op(SLICE, b.input(2, 8), 1, start, end), U85)
    assert verdict.of(SLICE) == ([] if None not in (start, end) else ["range_arguments"])


@pytest.mark.parametrize(("sizes", "size", "fits"), [((4,), 4, True), ((), 1, False)])
def test_windows_lie_within_a_dimension(sizes: tuple[int, ...], size: int, fits: bool) -> None:
    unfold = "aten.unfold_copy.default"
    assert ("window_within" not in judge(lambda b: b.op(unfold, b.input(*sizes), 0, size, 1)).of(unfold)) is fits


@pytest.mark.parametrize("by_size", [True, False])
@pytest.mark.parametrize(("scale", "fits"), [(n, n in (2, 4, 8)) for n in (1, 2, 3, 4, 5, 7, 8, 9, 16)])
def test_images_grow_twice_or_four_or_eight_times(scale: int, fits: bool, by_size: bool) -> None:
    arguments: tuple[Any, ...] = ([3 * scale, 5 * scale], None) if by_size else (None, [float(scale)] * 2)
    verdict = judge(lambda b: b.op(NEAREST, b.input(1, 2, 3, 5), *arguments))
    assert ("resize_scale" not in verdict.of(NEAREST)) is fits


@pytest.mark.parametrize("factors", [[2.0, 4.0], [4.0, 2.0]])
def test_images_grow_alike_in_both_directions(factors: list[float]) -> None:
    sizes = [int(3 * factors[0]), int(5 * factors[1])]
    assert "resize_scale" in judge(lambda b: b.op(NEAREST, b.input(1, 2, 3, 5), None, factors)).of(NEAREST)
    assert "resize_scale" in judge(lambda b: b.op(NEAREST, b.input(1, 2, 3, 5), sizes, None)).of(NEAREST)


@pytest.mark.parametrize("by", list(product((15, 16, 17), repeat=2)), ids=str)
@pytest.mark.parametrize("sizes", ["sizes", "factors"])
@pytest.mark.parametrize("corners", [False, True])
def test_images_shrink_less_than_sixteen_times_or_bilinear_ones_so_along_both_axes(
    by: tuple[int, int], sizes: str, corners: bool
) -> None:
    before, after = [2 * n for n in by], (2, 2)
    given = (after, None) if sizes == "sizes" else (None, [1 / n for n in by])
    fits = {
        BILINEAR: not corners and (max(by) < 16 or by == (16, 16)),
        NEAREST: max(by) < 16,
    }
    for op, arguments in ((BILINEAR, (given[0], corners, given[1])), (NEAREST, given)):
        verdict = judge(partial(_resized, op, before, arguments), U85)
        assert ("resize" not in verdict.of(op)) is fits[op]


def _resized(op: str, before: Sequence[int], arguments: Sequence[Any], b: Builder) -> fx.Node:
    return b.op(op, b.input(1, 2, *before), *arguments)


@pytest.mark.parametrize("shape", [(1, 65537, 4), (2, 1, 65537, 4)])
def test_the_channels_of_a_linear_product_come_last(shape: tuple[int, ...]) -> None:
    linear = "aten.linear.default"
    assert "max_channels" not in judge(lambda b: b.op(linear, b.input(*shape), b.weight(3, 4)), U85).of(linear)
    turned = (*shape[:-2], 4, 65537)
    assert "max_channels" in judge(lambda b: b.op(linear, b.input(*turned), b.weight(3, 65537)), U85).of(linear)


@pytest.mark.parametrize("stride", list(product((1, 2, 3), repeat=2)), ids=str)
@pytest.mark.parametrize("size", [(1, 4), (4, 1)], ids=str)
@pytest.mark.parametrize("kernel", [(1, 1), (1, 3), (3, 1)], ids=str)
def test_transposed_convolutions_step_by_one_or_two(
    stride: tuple[int, int], size: tuple[int, int], kernel: tuple[int, int]
) -> None:
    """Alike along both axes, or along one where there is nothing along the other."""
    verdict = judge(lambda b: b.conv(b.input(1, 2, *size), b.weight(2, 2, *kernel), stride=stride, transposed=True))
    row, column = (size[axis] == kernel[axis] == 1 for axis in (0, 1))
    fits = stride in ((1, 1), (2, 2)) or (stride == (1, 2) and row) or (stride == (2, 1) and column)
    found = [each.found for each in verdict.partitioner.rejections if each.code == "transposed_stride"]
    sizes, window = ("x".join(map(str, each)) for each in (size, kernel))
    assert found == ([] if fits else [f"stride {stride} of {sizes} with kernel {window}"])


@pytest.mark.parametrize(
    "before", [torch.int8, torch.int32, torch.int64, torch.bool, torch.uint8, torch.float16], ids=str
)
@pytest.mark.parametrize("step", [(1.0, 0), (0.5, 0), (2.0, 0), (1.0, 1)], ids=str)
def test_integers_become_real_numbers_where_they_are_quantized_one_to_one(
    before: torch.dtype, step: tuple[float, int]
) -> None:
    copy = "dim_order_ops._to_dim_order_copy.default"

    def write(b: Builder) -> fx.Node:
        return b.quantised(
            b.call(copy, b.integers(2, 3, dtype=before), dtype=torch.float32), (*step, -128, 127, torch.int8)
        )

    fits = step == (1.0, 0) and before not in (torch.uint8, torch.float16)
    assert ("conversion" not in judge(write, U85).of(copy)) is fits


SELECTED = (torch.bool, torch.int8, torch.int16, torch.int32)


@pytest.mark.parametrize("dtype", [*SELECTED, torch.uint8, torch.int64], ids=str)
def test_what_a_condition_chooses_from(dtype: torch.dtype) -> None:
    """Booleans and integers of up to 32 bits with a sign, or codes."""

    def write(b: Builder) -> fx.Node:
        values = [b.integers(2, 3, dtype=dtype) for _ in range(2)]
        return b.call(WHERE, b.integers(2, 3, dtype=torch.bool), *values)

    assert ("code_dtype" not in judge(write, U85).of(WHERE)) is (dtype in SELECTED)


@pytest.mark.parametrize(
    ("zero_point", "scale", "fused"),
    [  # codes up to 127, 100 or 128 of them above the zero point
        (-128, 0.02, True),
        (-128, 6 / 255, True),
        (-128, 6 / 254, False),
        (0, 6 / 127, True),
        (0, 6 / 126, False),
        (27, 6 / 100, True),
        (27, 6 / 99, False),
        (-27, 6 / 154, True),
        (-27, 6 / 153, False),
    ],
)
def test_an_activation_that_ends_at_the_last_code_is_part_of_its_product(
    zero_point: int, scale: float, fused: bool
) -> None:
    """Else the product's result has no codes."""

    def write(b: Builder) -> fx.Node:
        product = b.call("aten.linear.default", b.input(2, 4), b.weight(3, 4))
        return b.op("aten.hardtanh.default", product, 0.0, 6.0, q=(scale, zero_point, -128, 127, torch.int8))

    assert ("quantized_outputs" not in judge(write).of("aten.linear.default")) is fused


@pytest.mark.parametrize("is_transposed", [False, True])
def test_sums_of_weights_that_are_computed_have_a_bound(is_transposed: bool) -> None:
    """Each weight may be -128; of the size that runs over the outputs there are as many sums."""
    b = Builder()
    x, w = b.input(1, 3 if is_transposed else 5, 7, 9), b.input(3, 5, 2, 1)
    node = b.conv(x, w, None, None, transposed=is_transposed)
    assert largest_sum(node, 10, Context(OPERATORS)) == 10 * 128 * (3 if is_transposed else 5) * 2


@pytest.mark.parametrize(
    ("kernel", "padding", "operator"),
    [
        ((1, 2, 3), (0, 1, 1), "CONV2D"),
        ((1, 2, 3), (0, 0, 0), "CONV2D"),
        ((1, 2, 3), (1, 0, 0), "CONV3D"),
        ((2, 2, 3), (0, 0, 0), "CONV3D"),
    ],
)
def test_a_kernel_of_one_plane_is_flat(kernel: tuple[int, ...], padding: tuple[int, ...], operator: str) -> None:
    """Where no plane is added: there nothing but padding would be read."""
    found = compiled(convolution("", (1, 2, 4, 5, 6), kernel, 3, padding=padding).graph(), "u85")
    assert [code for code in found.operators if code.startswith("CONV")] == [operator]
