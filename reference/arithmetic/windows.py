"""Sums of products over images [N, H, W, C], in int64: what convolutions of every scheme accumulate."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Pair = tuple[int, int]
Padding = tuple[Pair, Pair]
NO_PADDING: Padding = ((0, 0), (0, 0))


def padded(image: Tensor, padding: Padding, value: int) -> Tensor:
    """An image with a border."""
    (top, bottom), (left, right) = padding
    return torch.constant_pad_nd(image, (0, 0, left, right, top, bottom), value)


def output_shape(image: Tensor, kernel: Sequence[int], stride: Pair, dilation: Pair) -> tuple[int, int, int]:
    """(N, OH, OW) of the windows that fit into the image. Raises ValueError when none does."""
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    if any(n < span for n, span in zip(image.shape[1:3], spans, strict=True)):
        raise ValueError(f"window: found {spans}, expected at most the image, {list(image.shape[1:3])}")
    height, width = ((n - span) // s + 1 for n, span, s in zip(image.shape[1:3], spans, stride, strict=True))
    return image.shape[0], height, width


def windows(image: Tensor, kernel: Pair, stride: Pair) -> Tensor:
    """Every window of the image: [N, OH, OW, C, KH, KW]. Raises ValueError when none fits."""
    output_shape(image, kernel, stride, (1, 1))
    return image.unfold(1, kernel[0], stride[0]).unfold(2, kernel[1], stride[1])


def tap(image: Tensor, shape: tuple[int, int, int], place: Pair, stride: Pair) -> Tensor:
    """The cell at `place` of every window: [N, OH, OW, C]."""
    rows = place[0] + stride[0] * torch.arange(shape[1])
    columns = place[1] + stride[1] * torch.arange(shape[2])
    return image[:, rows[:, None], columns]


def convolved(image: Tensor, weights: Tensor, stride: Pair, dilation: Pair) -> Tensor:
    """image [N, H, W, I * groups], weights [O, KH, KW, I]: [N, OH, OW, O]. Groups follow from the channels."""
    outputs, height, width, depth = weights.shape
    groups = image.shape[3] // depth
    shape = output_shape(image, (height, width), stride, dilation)
    acc = torch.zeros((*shape, outputs), dtype=torch.int64)
    for i in range(height):
        for j in range(width):
            cells = tap(image, shape, (i * dilation[0], j * dilation[1]), stride).view(*shape, groups, depth)
            acc += _by_groups(cells, weights[:, i, j], groups)
    return acc


def scattered(
    image: Tensor, weights: Tensor, size: Sequence[int], stride: Pair, dilation: Pair = (1, 1), crop: Pair = (0, 0)
) -> Tensor:
    """A transposed convolution: image [N, H, W, I * groups], weights [O, KH, KW, I]: [N, *size, O].

    Pixel (h, w) adds its products to rows h * stride - crop + (0..KH-1) * dilation, columns likewise, within `size`.
    """
    outputs, height, width, depth = weights.shape
    groups = image.shape[3] // depth
    acc = torch.zeros((image.shape[0], *size, outputs), dtype=torch.int64)
    pixels, (rows, columns) = image.view(*image.shape[:3], groups, depth), (torch.arange(n) for n in image.shape[1:3])
    for i in range(height):
        for j in range(width):
            row, column = rows * stride[0] + i * dilation[0] - crop[0], columns * stride[1] + j * dilation[1] - crop[1]
            tall, wide = (row >= 0) & (row < size[0]), (column >= 0) & (column < size[1])
            products = _by_groups(pixels, weights[:, i, j], groups)[:, tall][:, :, wide]
            acc[:, row[tall][:, None], column[wide]] += products
    return acc


def transposed(
    image: Tensor, weights: Tensor, stride: Pair, dilation: Pair, padding: Padding, output_padding: Pair
) -> tuple[list[int], Pair, Pair, Pair]:
    """Size, stride, dilation and crop for `scattered`, of a transposed convolution that is given by its padding."""
    extents = zip(image.shape[1:3], weights.shape[1:3], stride, dilation, padding, output_padding, strict=True)
    size = [(n - 1) * s + (k - 1) * d + 1 + more - sum(cut) for n, k, s, d, cut, more in extents]
    return size, stride, dilation, (padding[0][0], padding[1][0])


def _by_groups(cells: Tensor, weights: Tensor, groups: int) -> Tensor:
    """cells [N, H, W, groups, I] times weights [O, I]: [N, H, W, O], the outputs of each group from its own cells."""
    kernel = weights.to(torch.int64).reshape(groups, weights.shape[0] // groups, weights.shape[1])
    return torch.einsum("nhwgi,goi->nhwgo", cells, kernel).flatten(3)
