"""Sums of products and of codes: integer_ops/{fully_connected,conv,transpose_conv}.h, batch_matmul.h, reduce.cc.

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
from npu_assay.reference.arithmetic.windows import NO_PADDING, Padding, Pair, convolved, padded, scattered


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
    acc = convolved(padded(centred(codes, x), padding, 0), weights, stride, dilation) + (0 if bias is None else bias)
    return narrowed(rescaled(acc, _ratios(x, scales, y, weights.shape[0])), y)


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

    Pixel (h, w) adds its products to rows h * stride - crop + (0..KH-1), columns likewise.
    """
    acc = scattered(centred(codes, x), weights, shape[1:3], stride, crop=crop) + (0 if bias is None else bias)
    return narrowed(rescaled(acc, _ratios(x, scales, y, weights.shape[0])), y)


def mean(codes: Tensor, axes: Sequence[int], keep_dims: bool, x: Affine, y: Affine) -> Tensor:
    """The mean over axes: the count n is divided into the multiplier, which has the more bits the larger n is.

    Raises ValueError without any axis.
    """
    if not axes:
        raise ValueError("MEAN: found no axes, expected at least one")
    dims = sorted({axis % codes.dim() for axis in axes}) if codes.dim() else []
    count = math.prod(codes.shape[dim] for dim in dims)
    multiplier, shift = multiplier_and_shift(x.scale32 / y.scale32)
    more = min(count.bit_length() - 1, 32, 31 + shift)
    divided = (multiplier << more) // count
    acc = centred(codes, x).sum(dims, keepdim=keep_dims)
    return narrowed(by_multiplier(acc, torch.tensor(divided), torch.tensor(shift - more)), y)


def total(codes: Tensor, axes: Sequence[int], keep_dims: bool, x: Affine, y: Affine) -> Tensor:
    """SUM: the sum over axes, rescaled as a whole. Raises ValueError without any axis.

    As MEAN without the count. LiteRT 2.3.0's optimized kernel rounds in float32, within a step of this; its reference
    kernel is wrong where a sum is negative.
    """
    if not axes:
        raise ValueError("SUM: found no axes, expected at least one")
    dims = sorted({axis % codes.dim() for axis in axes}) if codes.dim() else []
    return narrowed(rescaled(centred(codes, x).sum(dims, keepdim=keep_dims), x.scale32 / y.scale32), y)


def _ratios(x: Affine, scales: Sequence[float], y: Affine, outputs: int) -> list[float]:
    """sx * sw / sy in float64, one or one per output. Raises ValueError for another number of scales."""
    if len(scales) not in (1, outputs):
        raise ValueError(f"weight scales: found {len(scales)}, expected 1 or {outputs}, one per output")
    for scale in scales:
        check_scale(scale, "weight scale")
    return [x.scale32 * float32(scale) / y.scale32 for scale in scales]
