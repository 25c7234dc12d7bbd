"""Accumulators of convolutions, NHWC: exact integers as floating-point numbers, before any rescale.

Codes may have up to 16 bits: `x` gives their range and zero point. Padded cells hold the zero point. float32
where every partial sum provably fits its 24 bits, else float64; see `accumulate`. Raise ValueError for accumulators
that may need more than `bits` bits and a sign, and for shapes that do not fit together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from npu_assay.partitioners.common.int8.accumulate import (
    NO_PADDING,
    Factor,
    Padding,
    Pair,
    exact_dtype,
    factor,
    folded,
    largest_code,
    largest_input,
    output_size,
    padded_float,
    window_rows,
)
from npu_assay.partitioners.common.int8.output import Kernel
from npu_assay.reference.affine import Affine

_FEW_CHANNELS = 64


def conv2d(
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    bits: int = 31,
) -> Kernel:
    """weights [O, KH, KW, I]; returns x [N, H, W, I * groups] -> accumulators [N, OH, OW, O].

    The number of groups follows from the input's channels.
    """
    out_channels, kh, kw, group_channels = weights.shape
    flat, offset = folded(weights.reshape(out_channels, -1), bias, x, bits)
    by = factor(flat, offset, largest_code(x))
    gather = None if (kh, kw) == (1, 1) == stride else window_rows((kh, kw), stride, dilation)

    def apply(codes: Tensor) -> Tensor:
        value = padded_float(codes, padding, x.zero_point, by.dtype)
        n, h, w, channels = value.shape
        oh, ow = output_size((h, w), (kh, kw), stride, dilation)
        groups = _groups(channels, group_channels, out_channels)
        rows = value.view(-1, channels) if gather is None else gather(value)
        acc = by.product(rows) if groups == 1 else _grouped(by, rows, groups, channels)
        return acc.view(n, oh, ow, out_channels)

    return apply


def _grouped(by: Factor, rows: Tensor, groups: int, channels: int) -> Tensor:
    """rows [., KH * KW * C] by [KH * KW * C / groups, O]: one product per group, columns in order."""
    taps = rows.view(len(rows), -1, groups, channels // groups)
    parts = zip(by.chunk(groups), taps.unbind(2), strict=True)
    return torch.cat([columns.product(part.flatten(1)) for columns, part in parts], dim=1)


def _groups(channels: int, group_channels: int, out_channels: int) -> int:
    """Raises ValueError unless the weights' input channels divide the input's into equal groups."""
    groups = channels // group_channels
    if channels % group_channels or out_channels % groups:
        raise ValueError(
            f"CONV_2D: found {channels} input channels, expected a multiple of the weights' {group_channels} "
            f"in groups that divide the {out_channels} output channels"
        )
    return groups


def depthwise_conv2d(
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    bits: int = 31,
) -> Kernel:
    """weights [1, KH, KW, C * m]; returns x [N, H, W, C] -> accumulators [N, OH, OW, C * m].

    Output channel c reads input channel c // m.
    """
    _, kh, kw, out_channels = weights.shape
    rows, offset = folded(weights.reshape(kh * kw, out_channels).t(), bias, x, bits)
    taps = rows.t().contiguous()

    @lru_cache(maxsize=8)
    def repeated(pixels: int) -> tuple[Tensor, Sequence[Tensor]]:
        return offset.repeat(pixels), taps.repeat(1, pixels).unbind()

    def apply(codes: Tensor) -> Tensor:
        value = padded_float(codes, padding, x.zero_point, taps.dtype)
        if codes.shape[3] != out_channels:
            value = value.repeat_interleave(_multiplier(codes.shape[3], out_channels), dim=3)
        n, h, w, _ = value.shape
        oh, ow = output_size((h, w), (kh, kw), stride, dilation)
        merged = stride[1] == 1 and out_channels < _FEW_CHANNELS
        acc, factors = repeated(ow if merged else 1)
        views = tap_views(value, (oh, ow), (kh, kw), stride, dilation, merged)
        parts = [tap for line in views.unbind() for tap in line.unbind()]
        acc = torch.addcmul(acc, parts[0], factors[0])
        for part, weight in zip(parts[1:], factors[1:], strict=True):
            acc.addcmul_(part, weight)
        return acc.view(n, oh, ow, out_channels)

    return apply


def frame(shape: tuple[int, ...], padding: Padding, code: int) -> Tensor:
    """Memory for float32 images [N, H, W, C], within rows and columns of `code`."""
    return padded_float(torch.zeros(shape, dtype=torch.int8), padding, code, torch.float32)


def tap_views(value: Tensor, out: Pair, kernel: Pair, stride: Pair, dilation: Pair, merged: bool) -> Tensor:
    """For each tap [KH, KW], the part [N, OH, OW, C] of a fresh, contiguous input that it meets.

    merged, for a column stride of 1: the same numbers as [N, OH, OW * C], so that passes run over long rows.
    """
    n, h, w, c = value.shape
    row = w * c
    columns = ((out[1] * c,), (1,)) if merged else ((out[1], c), (c * stride[1], 1))
    shape = (*kernel, n, out[0], *columns[0])
    strides = (row * dilation[0], c * dilation[1], h * row, row * stride[0], *columns[1])
    return value.as_strided(shape, strides)


def _multiplier(channels: int, out_channels: int) -> int:
    if out_channels % channels:
        raise ValueError(f"DEPTHWISE_CONV_2D: found {out_channels} output channels, expected a multiple of {channels}")
    return out_channels // channels


def transpose_conv2d(
    weights: Tensor,
    bias: Tensor | None,
    size: Pair,
    x: Affine,
    stride: Pair = (1, 1),
    before: Pair = (0, 0),
    bits: int = 31,
) -> Kernel:
    """weights [O, KH, KW, I]; returns x [N, H, W, I] -> accumulators [N, *size, O].

    Input pixel (h, w) adds its products to rows h * stride + before + (0..KH-1), columns likewise. What falls
    outside is dropped; cells that nothing reaches hold the bias.
    """
    out_channels, kh, kw, in_channels = weights.shape
    taps = weights.permute(3, 1, 2, 0).reshape(in_channels, -1)
    dtype = exact_dtype(_transposed_bound(weights, bias, x), bits)
    matrix = taps.to(dtype)
    offset = torch.zeros(out_channels, dtype=dtype) if bias is None else bias.to(dtype)

    def apply(codes: Tensor) -> Tensor:
        n, h, w, _ = codes.shape
        value = codes.reshape(-1, in_channels).to(dtype).sub_(x.zero_point)
        acc = _scatter((value @ matrix).view(n, h, w, kh, kw, out_channels), stride)
        after = [wanted - cells - first for wanted, cells, first in zip(size, acc.shape[1:3], before, strict=True)]
        return F.pad(acc, (0, 0, before[1], after[1], before[0], after[0])) + offset

    return apply


def _transposed_bound(weights: Tensor, bias: Tensor | None, x: Affine) -> int:
    """The largest magnitude of an output: that of all products of its filter, and the bias."""
    sums = weights.to(torch.int64).abs().sum(dim=(1, 2, 3)) * largest_input(x)
    return int((sums if bias is None else sums + bias.to(torch.int64).abs()).max())


def _scatter(products: Tensor, stride: Pair) -> Tensor:
    """Add up products [N, H, W, KH, KW, O] at (h * stride + kh, w * stride + kw)."""
    n, h, w, kh, kw, channels = products.shape
    rows, columns = (h - 1) * stride[0], (w - 1) * stride[1]
    acc = products.new_zeros((n, rows + kh, columns + kw, channels))
    for i in range(kh):
        for j in range(kw):
            acc[:, i : i + rows + 1 : stride[0], j : j + columns + 1 : stride[1]] += products[:, :, :, i, j]
    return acc
