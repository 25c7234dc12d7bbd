"""Exact integer accumulators of products of steps (codes less their zero point), as floating-point numbers.

Channels last. Steps come as float32, or int8 where the zero point is 0. float32 where every partial sum provably
fits its 24 bits, else float64; see npu_assay.partitioners.common.int8.accumulate. Padded cells are 0.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from npu_assay.partitioners.common.int8 import conv_accumulators
from npu_assay.partitioners.common.int8.accumulate import NO_PADDING, Padding, Pair, as_float, factor, folded, pad_hw
from npu_assay.partitioners.common.int8.output import Kernel
from npu_assay.reference.affine import Affine


def linear(weights: Tensor, bias: Tensor | None, largest: int) -> Kernel:
    """x [..., I] within +-largest -> sum(x * w) + bias, [..., O]; weights [O, I]."""
    outputs, inputs = weights.shape
    by = factor(*folded(weights, bias, _steps(largest)), largest)

    def apply(steps: Tensor) -> Tensor:
        flat = as_float(steps.reshape(-1, inputs), by.dtype)
        return by.product(flat).view(*steps.shape[:-1], outputs)

    return apply


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
    if weights.shape[3] > 1 or groups == 1:
        return conv_accumulators.conv2d(weights, bias, _steps(largest), stride, dilation, padding)
    rows, offset = folded(weights.flatten(1), bias, _steps(largest))
    kernel = rows.view(len(rows), 1, *weights.shape[1:3])
    return _depthwise(kernel, offset, stride, dilation, padding, groups)


def _steps(largest: int) -> Affine:
    """Steps as codes: their zero point is 0."""
    return Affine(1.0, 0, -largest, largest)


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
    around = reach((weights.shape[1], weights.shape[2]), dilation, padding, output_padding)
    multiply = conv2d(weights.flip(1, 2), bias, largest, (1, 1), dilation, NO_PADDING, groups)

    def apply(steps: Tensor) -> Tensor:
        return multiply(spread(steps, stride, around, 0))

    return apply


def reach(kernel: Pair, dilation: Pair, padding: Padding, more: Pair) -> Padding:
    """The cells around a spread image that a transposed convolution's windows reach; `more` at the end of each axis."""
    ends = zip(kernel, dilation, padding, more, strict=True)
    height, width = (((k - 1) * d - first, (k - 1) * d - last + extra) for k, d, (first, last), extra in ends)
    return height, width


def spread(x: Tensor, stride: Pair, around: Padding, value: float) -> Tensor:
    """x [N, H, W, C] with stride - 1 cells of `value` between neighbors, and as many around (cut when negative)."""
    n, h, w, c = x.shape
    wide = x.new_full((n, (h - 1) * stride[0] + 1, (w - 1) * stride[1] + 1, c), value)
    wide[:, :: stride[0], :: stride[1]] = x
    (top, bottom), (left, right) = around
    return F.pad(wide, (0, 0, left, right, top, bottom), value=value)
