"""Sums of products and MEAN: reference/integer_ops/{fully_connected,conv,transpose_conv}.h, batch_matmul.h, reduce.cc.

Padded cells hold the zero point, so they add nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine, check_scale, float32
from npu_assay.reference.arithmetic.tflite.rounding import (
    by_multiplier,
    centred,
    half_away,
    multiplier_and_shift,
    narrowed,
    rescaled,
)

Pair = tuple[int, int]
Padding = tuple[Pair, Pair]
NO_PADDING: Padding = ((0, 0), (0, 0))


def fully_connected(
    codes: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    scales: Sequence[float],
    y: Affine,
    zero_point: int = 0,
    keep_dims: bool = False,
) -> Tensor:
    """codes [..., I], weights [O, I] of that zero point, bias [O]: [batch, O], or [..., O] with keep_dims.

    LiteRT multiplies by the ratio in float64 and rounds once, ties away from zero.
    """
    acc = centred(codes, x) @ (weights.to(torch.int64) - zero_point).mT + (0 if bias is None else bias)
    ratios = torch.tensor(_ratios(x, scales, y, weights.shape[0]), dtype=torch.float64)
    found = narrowed(half_away(acc.double() * ratios), y)
    return found if keep_dims else found.reshape(-1, weights.shape[0])


def batch_matmul(
    p: Tensor, q: Tensor, a: Affine, b: Affine, y: Affine, adj_x: bool = False, adj_y: bool = False
) -> Tensor:
    """p [..., M, K] @ q [..., K, N]; adj_* swap the last two dims of an operand first. sa * sb is a float32."""
    left, right = centred(p.mT if adj_x else p, a), centred(q.mT if adj_y else q, b)
    return narrowed(rescaled(left @ right, float32(a.scale32 * b.scale32) / y.scale32), y)


def conv2d(
    codes: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    scales: Sequence[float],
    y: Affine,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
) -> Tensor:
    """codes [N, H, W, I * groups], weights [O, KH, KW, I], bias [O]: [N, OH, OW, O]."""
    image = padded(centred(codes, x), padding, 0)
    outputs, height, width, depth = weights.shape
    groups = image.shape[3] // depth
    shape = output_shape(image, (height, width), stride, dilation)
    acc = torch.zeros((*shape, outputs), dtype=torch.int64) + (0 if bias is None else bias)
    for i in range(height):
        for j in range(width):
            cells = tap(image, shape, (i * dilation[0], j * dilation[1]), stride).view(*shape, groups, depth)
            kernel = weights[:, i, j].to(torch.int64).reshape(groups, outputs // groups, depth)
            acc += torch.einsum("nhwgc,goc->nhwgo", cells, kernel).flatten(3)
    return narrowed(rescaled(acc, _ratios(x, scales, y, outputs)), y)


def transpose_conv(
    codes: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    shape: Sequence[int],
    x: Affine,
    scales: Sequence[float],
    y: Affine,
    stride: Pair = (1, 1),
    crop: Pair = (0, 0),
) -> Tensor:
    """codes [N, H, W, I], weights [O, KH, KW, I], bias [O]: [N, OH, OW, O] of `shape`.

    Pixel (h, w) adds its products to rows h * stride - crop + (0..KH-1), columns likewise, that are in the output.
    """
    image, (outputs, height, width, _) = centred(codes, x), weights.shape
    acc = torch.zeros(tuple(shape), dtype=torch.int64) + (0 if bias is None else bias)
    rows, columns = (torch.arange(n) for n in image.shape[1:3])
    for i in range(height):
        for j in range(width):
            products = image @ weights[:, i, j].to(torch.int64).mT
            places = rows * stride[0] + i - crop[0], columns * stride[1] + j - crop[1]
            inside = [(place >= 0) & (place < n) for place, n in zip(places, shape[1:3], strict=True)]
            (row, column), kept = (p[ok] for p, ok in zip(places, inside, strict=True)), products[:, inside[0]]
            acc[:, row[:, None], column] += kept[:, :, inside[1]]
    return narrowed(rescaled(acc, _ratios(x, scales, y, outputs)), y)


def mean(codes: Tensor, axes: Sequence[int], keep_dims: bool, x: Affine, y: Affine) -> Tensor:
    """The mean over axes: the count n is divided into the multiplier, which has the more bits the larger n is.

    Raises ValueError without any axis.
    """
    if not axes:
        raise ValueError("MEAN: found no axes, expected at least one")
    dims = sorted({axis % codes.dim() for axis in axes})
    count = math.prod(codes.shape[dim] for dim in dims)
    multiplier, shift = multiplier_and_shift(x.scale32 / y.scale32)
    more = min(count.bit_length() - 1, 32, 31 + shift)
    divided = (multiplier << more) // count
    acc = centred(codes, x).sum(dims, keepdim=keep_dims)
    return narrowed(by_multiplier(acc, torch.tensor(divided), torch.tensor(shift - more)), y)


def _ratios(x: Affine, scales: Sequence[float], y: Affine, outputs: int) -> list[float]:
    """sx * sw / sy in float64, one or one per output. Raises ValueError for another number of scales."""
    if len(scales) not in (1, outputs):
        raise ValueError(f"weight scales: found {len(scales)}, expected 1 or {outputs}, one per output")
    for scale in scales:
        check_scale(scale, "weight scale")
    return [x.scale32 * float32(scale) / y.scale32 for scale in scales]


# ------------------------------------------------------------------------------------ windows over images


def padded(image: Tensor, padding: Padding, value: int) -> Tensor:
    """An image [N, H, W, C] with a border."""
    (top, bottom), (left, right) = padding
    return torch.constant_pad_nd(image, (0, 0, left, right, top, bottom), value)


def output_shape(image: Tensor, kernel: Pair, stride: Pair, dilation: Pair) -> tuple[int, int, int]:
    """(N, OH, OW) of the windows that fit into the image. Raises ValueError when none does."""
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    if any(n < span for n, span in zip(image.shape[1:3], spans, strict=True)):
        raise ValueError(f"window: found {spans}, expected at most the image, {list(image.shape[1:3])}")
    height, width = ((n - span) // s + 1 for n, span, s in zip(image.shape[1:3], spans, stride, strict=True))
    return image.shape[0], height, width


def tap(image: Tensor, shape: tuple[int, int, int], place: Pair, stride: Pair) -> Tensor:
    """The cell at `place` of every window: [N, OH, OW, C]."""
    rows = place[0] + stride[0] * torch.arange(shape[1])
    columns = place[1] + stride[1] * torch.arange(shape[2])
    return image[:, rows[:, None], columns]
