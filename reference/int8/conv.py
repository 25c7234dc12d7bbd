"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV: NHWC int8, symmetric int8 weights, int32 bias.

acc = sum((x - zx) * w) + bias, then `tflite_double_round` by sx * sw / sy (float64 products of float32
scales) per output channel. Source: TensorFlow Lite reference_integer_ops (conv.h, depthwise_conv.h,
transpose_conv.h). Raise ValueError for shapes or scale counts that do not fit together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from reference.affine import Affine, check_scale, float32
from reference.int8.accumulate import (
    NO_PADDING,
    Padding,
    Pair,
    exact_dtype,
    folded,
    largest_input,
    output_size,
    pad_hw,
    padded_float,
    window_rows,
)
from reference.int8.output import Bounds, Kernel, double_round_stage
from reference.rescale import quantize_multiplier

_FEW_CHANNELS = 64


def conv2d(
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    w_scales: Sequence[float],
    y: Affine,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    activation: Bounds | None = None,
) -> Kernel:
    """weights [O, KH, KW, I]; returns x [N, H, W, I * groups] -> y [N, OH, OW, O].

    Padded cells hold the zero point. The number of groups follows from the input's channels.
    """
    out_channels, kh, kw, group_channels = weights.shape
    flat, offset = folded(weights.reshape(out_channels, -1), bias, x)
    matrix = flat.t().contiguous()
    finish = double_round_stage(_parameters(x, w_scales, y, out_channels), y, activation)
    gather = None if (kh, kw) == (1, 1) == stride else window_rows((kh, kw), stride, dilation)

    def apply(codes: Tensor) -> Tensor:
        value = padded_float(codes, padding, x.zero_point, matrix.dtype)
        n, h, w, channels = value.shape
        oh, ow = output_size((h, w), (kh, kw), stride, dilation)
        groups = _groups(channels, group_channels, out_channels)
        rows = value.view(-1, channels) if gather is None else gather(value)
        acc = torch.addmm(offset, rows, matrix) if groups == 1 else _grouped(offset, rows, matrix, groups, channels)
        return finish(acc).view(n, oh, ow, out_channels)

    return apply


def _grouped(offset: Tensor, rows: Tensor, matrix: Tensor, groups: int, channels: int) -> Tensor:
    """rows [., KH * KW * C] and matrix [KH * KW * C / groups, O]: one product per group, columns in order."""
    taps = rows.view(len(rows), -1, groups, channels // groups)
    parts = zip(offset.chunk(groups), taps.unbind(2), matrix.chunk(groups, dim=1), strict=True)
    return torch.cat([torch.addmm(bias, part.flatten(1), columns) for bias, part, columns in parts], dim=1)


def _groups(channels: int, group_channels: int, out_channels: int) -> int:
    """Raises ValueError unless the weights' input channels divide the input's into equal groups."""
    groups = channels // group_channels
    if channels % group_channels or not groups or out_channels % groups:
        raise ValueError(
            f"CONV_2D: found {channels} input channels, expected a multiple of the weights' {group_channels} "
            f"in groups that divide the {out_channels} output channels"
        )
    return groups


def depthwise_conv2d(
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    w_scales: Sequence[float],
    y: Affine,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    activation: Bounds | None = None,
) -> Kernel:
    """weights [1, KH, KW, C * m]; returns x [N, H, W, C] -> y [N, OH, OW, C * m].

    Output channel c reads input channel c // m.
    """
    _, kh, kw, out_channels = weights.shape
    rows, offset = folded(weights.reshape(kh * kw, out_channels).t(), bias, x)
    taps = rows.t().contiguous()
    finish = double_round_stage(_parameters(x, w_scales, y, out_channels), y, activation)

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
        parts = _taps(value, (oh, ow), (kh, kw), stride, dilation, merged)
        acc = torch.addcmul(acc, parts[0], factors[0])
        for part, factor in zip(parts[1:], factors[1:], strict=True):
            acc.addcmul_(part, factor)
        return finish(acc.view(n, oh, ow, out_channels))

    return apply


def _taps(value: Tensor, out: Pair, kernel: Pair, stride: Pair, dilation: Pair, merged: bool) -> list[Tensor]:
    """For each tap, in row-major order, the part [N, OH, OW, C] of a fresh, contiguous input that it meets.

    merged, for a column stride of 1: the same numbers as [N, OH, OW * C], so that passes run over long rows.
    """
    n, h, w, c = value.shape
    row = w * c
    columns = ((out[1] * c,), (1,)) if merged else ((out[1], c), (c * stride[1], 1))
    shape = (*kernel, n, out[0], *columns[0])
    strides = (row * dilation[0], c * dilation[1], h * row, row * stride[0], *columns[1])
    return [tap for line in value.as_strided(shape, strides).unbind() for tap in line.unbind()]


def _multiplier(channels: int, out_channels: int) -> int:
    if out_channels % channels:
        raise ValueError(f"DEPTHWISE_CONV_2D: found {out_channels} output channels, expected a multiple of {channels}")
    return out_channels // channels


def transpose_conv(
    weights: Tensor,
    bias: Tensor | None,
    output_shape: Sequence[int],
    x: Affine,
    w_scales: Sequence[float],
    y: Affine,
    stride: Pair = (1, 1),
    crop: Pair = (0, 0),
    activation: Bounds | None = None,
) -> Kernel:
    """weights [O, KH, KW, I]; returns x [N, H, W, I] -> y of `output_shape` [N, OH, OW, O].

    Input pixel (h, w) adds its products to rows h * stride - crop + (0..KH-1), columns likewise. What falls
    outside is dropped; cells that nothing reaches hold the bias. VALID padding is a crop of 0.
    """
    out_channels, kh, kw, in_channels = weights.shape
    taps = weights.permute(3, 1, 2, 0).reshape(in_channels, -1)
    dtype = exact_dtype(_transposed_bound(weights, bias, x))
    matrix = taps.to(dtype)
    offset = torch.zeros(out_channels, dtype=dtype) if bias is None else bias.to(dtype)
    finish = double_round_stage(_parameters(x, w_scales, y, out_channels), y, activation)
    _, oh, ow, _ = output_shape

    def apply(codes: Tensor) -> Tensor:
        n, h, w, _ = codes.shape
        value = codes.reshape(-1, in_channels).to(dtype).sub_(x.zero_point)
        products = (value @ matrix).view(n, h, w, kh, kw, out_channels)
        acc = _scatter(products, stride)[:, crop[0] :, crop[1] :][:, :oh, :ow]
        missing = ((0, oh - acc.shape[1]), (0, ow - acc.shape[2]))
        return finish(pad_hw(acc, missing) + offset)

    return apply


def _transposed_bound(weights: Tensor, bias: Tensor | None, x: Affine) -> int:
    """No output adds up more than all products of its filter, and the bias."""
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


def _parameters(x: Affine, w_scales: Sequence[float], y: Affine, channels: int) -> list[tuple[int, int]]:
    """(multiplier, shift) of each output channel; one in all when the weights have one scale."""
    if len(w_scales) not in (1, channels):
        raise ValueError(f"weight scales: found {len(w_scales)}, expected 1 or {channels}, one per output channel")
    for scale in w_scales:
        check_scale(scale, "weight scale")
    return [quantize_multiplier(x.scale32 * float32(scale) / y.scale32) for scale in w_scales]
