"""Exact integer accumulators of products of steps (codes less their zero point), as floating-point numbers.

Channels last. Steps come as float32, or int8 where the zero point is 0. float32 where every partial sum provably
fits its 24 bits, else float64; see npu_assay.partitioners.common.int8.accumulate. Padded cells are 0.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from npu_assay.partitioners.common.int8.accumulate import (
    NO_PADDING,
    Padding,
    Pair,
    as_float,
    exact_dtype,
    factor,
    output_size,
    pad_hw,
    window_rows,
)
from npu_assay.partitioners.xnnpack.kernels.output import Kernel


def linear(weights: Tensor, bias: Tensor | None, largest: int) -> Kernel:
    """x [..., I] within +-largest -> sum(x * w) + bias, [..., O]; weights [O, I]."""
    outputs, inputs = weights.shape
    by = factor(*_prepared(weights, bias, largest), largest)

    def apply(steps: Tensor) -> Tensor:
        flat = as_float(steps.reshape(-1, inputs), by.dtype)
        return by.product(flat).view(*steps.shape[:-1], outputs)

    return apply


def _prepared(weights: Tensor, bias: Tensor | None, largest: int) -> tuple[Tensor, Tensor]:
    """weights [rows, terms] and bias [rows] (integers) in the float type in which every partial sum is exact."""
    wide = weights.to(torch.int64)
    offset = wide.new_zeros(len(wide)) if bias is None else bias.to(torch.int64)
    bounds = wide.abs().sum(dim=1) * largest + offset.abs()
    dtype = exact_dtype(int(bounds.max()) if bounds.numel() else 0)
    return wide.to(dtype), offset.to(dtype)


def conv2d(
    weights: Tensor,
    bias: Tensor | None,
    largest: int,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    groups: int = 1,
) -> Kernel:
    """x [N, H, W, I] within +-largest -> [N, OH, OW, O]; weights [O, KH, KW, I / groups]."""
    outputs, kh, kw, each = weights.shape
    rows, offset = _prepared(weights.reshape(outputs, -1), bias, largest)
    if each == 1 and groups > 1:
        return _depthwise(rows.view(outputs, 1, kh, kw), offset, stride, dilation, padding, groups)
    by = factor(rows, offset, largest)
    factors = by.chunk(groups)
    gather = None if (kh, kw) == (1, 1) == stride else window_rows((kh, kw), stride, dilation)

    def apply(steps: Tensor) -> Tensor:
        value = pad_hw(as_float(steps, by.dtype), padding).contiguous()
        n, h, w, channels = value.shape
        oh, ow = output_size((h, w), (kh, kw), stride, dilation)
        flat = value.view(-1, channels) if gather is None else gather(value)
        taps = flat.view(len(flat), kh * kw, groups, each).unbind(2) if groups > 1 else (flat,)
        parts = [each.product(part.flatten(1)) for each, part in zip(factors, taps, strict=True)]
        acc = parts[0] if groups == 1 else torch.cat(parts, 1)
        return acc.view(n, oh, ow, outputs)

    return apply


def _depthwise(weights: Tensor, offset: Tensor, stride: Pair, dilation: Pair, padding: Padding, groups: int) -> Kernel:
    """One input channel per group: a library's convolution, which has no transform (Winograd's) to use there."""
    (top, bottom), (left, right) = padding
    inside = (top, left) if (top, left) == (bottom, right) else None

    def apply(steps: Tensor) -> Tensor:
        value = as_float(steps, weights.dtype)
        value = value if inside else pad_hw(value, padding)
        acc = F.conv2d(value.permute(0, 3, 1, 2), weights, offset, stride, inside or (0, 0), dilation, groups)
        return acc.permute(0, 2, 3, 1)

    return apply


def transpose_conv2d(
    weights: Tensor,
    bias: Tensor | None,
    largest: int,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    output_padding: Pair = (0, 0),
    groups: int = 1,
) -> Kernel:
    """x [N, H, W, I] within +-largest -> [N, OH, OW, O]; weights [O, KH, KW, I / groups].

    A convolution with the kernel turned around over the input with stride - 1 zeros between its cells.
    """
    kh, kw = weights.shape[1:3]
    (top, bottom), (left, right) = padding
    reach = ((kh - 1) * dilation[0], (kw - 1) * dilation[1])
    around = (
        (reach[0] - top, reach[0] - bottom + output_padding[0]),
        (reach[1] - left, reach[1] - right + output_padding[1]),
    )
    turned = weights.flip(1, 2)
    multiply = conv2d(turned, bias, largest, (1, 1), dilation, NO_PADDING, groups)

    def apply(steps: Tensor) -> Tensor:
        return multiply(spread(steps, stride, around, 0))

    return apply


def spread(x: Tensor, stride: Pair, around: Padding, value: float) -> Tensor:
    """x [N, H, W, C] with stride - 1 cells of `value` between neighbors, and as many around (cut when negative)."""
    n, h, w, c = x.shape
    wide = x.new_full((n, (h - 1) * stride[0] + 1, (w - 1) * stride[1] + 1, c), value)
    wide[:, :: stride[0], :: stride[1]] = x
    (top, bottom), (left, right) = around
    return F.pad(wide, (0, 0, left, right, top, bottom), value=value)
