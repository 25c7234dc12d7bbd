"""Exact integer accumulators of products, as floating-point numbers, channels last.

float32 where every partial sum provably fits its 24 bits, else float64; see reference.int8.accumulate.
Padded cells hold the zero point, so they add nothing.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from reference.affine import Affine
from reference.int8.accumulate import NO_PADDING, Padding, Pair, folded, padded_float, windows
from reference.xnnpack.output import Kernel


def linear(weights: Tensor, bias: Tensor | None, x: Affine) -> Kernel:
    """x [..., I] -> sum((x - zx) * w) + bias, [..., O]; weights [O, I]."""
    rows, offset = folded(weights, bias, x)
    matrix = rows.t().contiguous()

    def apply(codes: Tensor) -> Tensor:
        flat = codes.reshape(-1, matrix.shape[0]).to(matrix.dtype)
        return torch.addmm(offset, flat, matrix).view(*codes.shape[:-1], matrix.shape[1])

    return apply


def conv2d(
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    groups: int = 1,
) -> Kernel:
    """x [N, H, W, I] -> [N, OH, OW, O]; weights [O, KH, KW, I / groups]."""
    outputs, kh, kw, each = weights.shape
    rows, offset = folded(weights.reshape(outputs, -1), bias, x)
    if each == 1 and groups > 1:
        return _depthwise(rows.view(outputs, 1, kh, kw), offset, x, stride, dilation, padding, groups)
    matrices = [part.t().contiguous() for part in rows.chunk(groups)]
    offsets = offset.chunk(groups)
    pointwise = (kh, kw) == (1, 1) and stride == (1, 1)

    def apply(codes: Tensor) -> Tensor:
        value = padded_float(codes, padding, x.zero_point, rows.dtype)
        taps = value if pointwise else windows(value, (kh, kw), stride, dilation)
        parts = [
            torch.addmm(offsets[g], taps[..., g * each :][..., :each].reshape(-1, matrix.shape[0]), matrix)
            for g, matrix in enumerate(matrices)
        ]
        acc = parts[0] if groups == 1 else torch.cat(parts, 1)
        return acc.view(*taps.shape[:3], outputs)

    return apply


def _depthwise(
    weights: Tensor, offset: Tensor, x: Affine, stride: Pair, dilation: Pair, padding: Padding, groups: int
) -> Kernel:
    """One input channel per group: a library's convolution, which has no transform (Winograd's) to use there."""

    def apply(codes: Tensor) -> Tensor:
        value = padded_float(codes, padding, x.zero_point, weights.dtype).permute(0, 3, 1, 2)
        acc = F.conv2d(value, weights, offset, stride, (0, 0), dilation, groups)
        return acc.permute(0, 2, 3, 1)

    return apply


def transpose_conv2d(
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    output_padding: Pair = (0, 0),
    groups: int = 1,
) -> Kernel:
    """x [N, H, W, I] -> [N, OH, OW, O]; weights [O, KH, KW, I / groups].

    A convolution with the kernel turned around over the input with stride - 1 zero points between its cells.
    """
    kh, kw = weights.shape[1:3]
    (top, bottom), (left, right) = padding
    reach = ((kh - 1) * dilation[0], (kw - 1) * dilation[1])
    around = (
        (reach[0] - top, reach[0] - bottom + output_padding[0]),
        (reach[1] - left, reach[1] - right + output_padding[1]),
    )
    turned = weights.flip(1, 2)
    multiply = conv2d(turned, bias, x, (1, 1), dilation, NO_PADDING, groups)

    def apply(codes: Tensor) -> Tensor:
        return multiply(spread(codes, stride, around, x.zero_point))

    return apply


def spread(x: Tensor, stride: Pair, around: Padding, value: float) -> Tensor:
    """x [N, H, W, C] with stride - 1 cells of `value` between neighbours, and as many around (cut when negative)."""
    n, h, w, c = x.shape
    wide = x.new_full((n, (h - 1) * stride[0] + 1, (w - 1) * stride[1] + 1, c), value)
    wide[:, :: stride[0], :: stride[1]] = x
    (top, bottom), (left, right) = around
    return F.pad(wide, (0, 0, left, right, top, bottom), value=value)
