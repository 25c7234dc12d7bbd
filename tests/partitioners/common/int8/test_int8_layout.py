"""Pooling, mean, resizing and data movement on numbers worked by hand; LiteRT is compared in crosscheck/."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.layout import concat, pad, reshape, slice_, transpose
from npu_assay.partitioners.common.int8.pool import avg_pool2d, max_pool2d, mean
from npu_assay.partitioners.common.int8.resize import resize_bilinear, resize_nearest
from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic.tflite import resize as specification

ONE = Affine(1.0, 0)


def image(rows: list[list[int]]) -> Tensor:
    """[1, H, W, 1]"""
    return torch.tensor(rows, dtype=torch.int8).view(1, len(rows), len(rows[0]), 1)


def rows(x: Tensor) -> list[list[int]]:
    found: list[list[int]] = x.view(x.shape[1], x.shape[2]).tolist()
    return found


def test_avg_pool_ties_go_away_from_zero() -> None:
    """Means of two: 1.5, -1.5, 0.5, -0.5, 127, -128. The zero point plays no part."""
    x = image([[1, 2, -1, -2, 0, 1, 0, -1, 127, 127, -128, -128]])
    assert rows(avg_pool2d((1, 2), (1, 2), Affine(1.0, 50))(x)) == [[2, -2, 1, -1, 127, -128]]


def test_avg_pool_does_not_count_padding() -> None:
    x = image([[10, 20], [30, 40]])
    assert rows(avg_pool2d((2, 2), (1, 1), ONE, ((1, 0), (1, 0)))(x)) == [[10, 15], [20, 25]]
    wide = image([[10, 20, 30]])
    assert rows(avg_pool2d((2, 2), (1, 1), ONE, ((1, 0), (1, 0)))(wide)) == [[10, 15, 25]]


def test_means_of_many_cells_do_not_round_up() -> None:
    """With the nudge the sum is -(128 * 131,074 - 1): even numbers are the nearest that float32 has there."""
    codes = torch.full((1, 2, 65_537, 1), -127, dtype=torch.int8)
    codes.view(-1)[:65_536] = -128
    assert rows(avg_pool2d((2, 65_537), (1, 1), ONE)(codes)) == [[-127]]


def test_max_pool_with_padding_and_overlap() -> None:
    x = image([[-5, -9, -7], [-8, -6, -4]])
    assert rows(max_pool2d((2, 2), (1, 1))(x)) == [[-5, -4]]
    assert rows(max_pool2d((2, 2), (2, 2), ((1, 0), (1, 0)))(x)) == [[-5, -7]]
    assert rows(max_pool2d((1, 1), (1, 1))(x)) == rows(x)
    assert rows(max_pool2d((2, 2), (2, 2), ((1, 0), (1, 0)))(image([[-128, -128]]))) == [[-128]]


def test_mean_rounds_and_rescales() -> None:
    """Sums 3 and -3 of two: 1.5 and -1.5. The multiplier is 1/2 exactly, shift 0: one rounding, ties up."""
    x = torch.tensor([[1, 2], [-1, -2]], dtype=torch.int8)
    assert mean([1], False, ONE, ONE)(x).tolist() == [2, -1]
    assert mean([-1], True, ONE, ONE)(x).tolist() == [[2], [-1]]
    assert mean([0, 1], False, Affine(1.0, 2), Affine(0.5, 7))(x).item() == 3  # (0 - 2) / 0.5 + 7
    with pytest.raises(ValueError, match="MEAN axes: found none"):
        mean([], True, ONE, ONE)


def test_resize_bilinear() -> None:
    """Half pixels: positions -0.25, 0.25, 0.75, 1.25 between 0 and 100. Corners: thirds in 1/1024."""
    x = image([[0, 100]])
    assert rows(resize_bilinear((1, 4), half_pixel=True)(x)) == [[0, 25, 75, 100]]
    assert rows(resize_bilinear((1, 4))(x)) == [[0, 50, 100, 100]]
    assert rows(resize_bilinear((1, 4), align_corners=True)(x)) == [[0, 33, 67, 100]]
    assert rows(resize_bilinear((1, 4), half_pixel=True)(image([[-1, 1]]))) == [[-1, -1, 1, 1]]  # -0.5 and 0.5


def test_resize_nearest() -> None:
    x = image([[1, 2, 3]])
    assert rows(resize_nearest((2, 6))(x)) == [[1, 1, 2, 2, 3, 3]] * 2
    assert rows(resize_nearest((1, 2))(x)) == [[1, 2]]
    assert rows(resize_nearest((1, 2), half_pixel=True)(x)) == [[1, 3]]
    assert rows(resize_nearest((1, 2), align_corners=True)(x)) == [[1, 3]]


def test_data_movement() -> None:
    x = torch.arange(6, dtype=torch.int8).view(2, 3)
    assert pad([(1, 0), (0, 2)], -7)(x).tolist() == [[-7] * 5, [0, 1, 2, -7, -7], [3, 4, 5, -7, -7]]
    assert concat(-1)([x, x[:, :1]]).tolist() == [[0, 1, 2, 0], [3, 4, 5, 3]]
    assert slice_([0, 1], [-1, 2])(x).tolist() == [[1, 2], [4, 5]]
    assert transpose([1, 0])(x).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert reshape([3, -1])(x).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert transpose([1, 0])(x).is_contiguous() and slice_([0, 1], [2, 1])(x).is_contiguous()


def test_results_do_not_share_memory_with_slices() -> None:
    x = torch.zeros(4, dtype=torch.int8)
    for kernel in (slice_([0], [4]), transpose([0]), pad([(0, 0)], 1)):
        kernel(x).fill_(9)
        assert x.tolist() == [0] * 4


def test_movement_outside_the_tensor_is_refused() -> None:
    x = torch.zeros((2, 3), dtype=torch.int8)
    with pytest.raises(ValueError, match=r"slice: found begin \[0, 2\] size \[2, 2\], expected within \[2, 3\]"):
        slice_([0, 2], [2, 2])(x)
    with pytest.raises(ValueError, match="paddings: found 1, expected 2"):
        pad([(0, 0)], 0)(x)
    with pytest.raises(ValueError, match="window"):
        max_pool2d((3, 1), (1, 1))(x.view(1, 2, 3, 1))
    with pytest.raises(ValueError, match="window"):
        max_pool2d((1, 4), (1, 1))(x.view(1, 2, 3, 1))
    assert slice_([1, 3], [1, 0])(x.view(2, 3)).shape == (1, 0)


@pytest.mark.parametrize(("corners", "half"), [(False, False), (True, False), (False, True)])
def test_images_of_any_size_are_resized_as_specified(corners: bool, half: bool) -> None:
    """From and to sizes whose ratios end below and above a half of 1/1024."""
    for size in (1, 2, 3, 5, 7, 12, 29):
        codes = torch.randint(-128, 128, (1, size, 3, 2), generator=torch.Generator().manual_seed(size)).char()
        for out in (1, 2, 3, 7, 11, 40):
            for ours, theirs in (
                (resize_bilinear, specification.resize_bilinear),
                (resize_nearest, specification.resize_nearest),
            ):
                expected = theirs(codes, (out, 5), corners, half)
                assert torch.equal(ours((out, 5), corners, half)(codes), expected), (size, out)
