"""Static int8 convolutions and linear layers: codes to codes, by integers and one float32 multiplication."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from npu_assay.partitioners.common.int8.accumulate import NO_PADDING, Padding, Pair, largest_input
from npu_assay.partitioners.common.int8.output import Bounds
from npu_assay.partitioners.xnnpack.kernels import accumulators
from npu_assay.partitioners.xnnpack.kernels.output import OnCodes, fp32_stage, ratios
from npu_assay.reference.affine import Affine


def linear(
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    w_scales: Sequence[float],
    y: Affine,
    activation: Bounds | None = None,
) -> OnCodes:
    """weights [O, I] int8, bias [O] int32; returns x [..., I] -> y [..., O]. w_scales: one, or one per output."""
    finish = fp32_stage(ratios(x, w_scales, y, weights.shape[0]), y, activation)
    multiply = accumulators.linear(weights, bias, largest_input(x))
    return OnCodes(lambda steps: finish(multiply(steps)), (x.zero_point,), y.zero_point)


def conv2d(
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    w_scales: Sequence[float],
    y: Affine,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    groups: int = 1,
    activation: Bounds | None = None,
) -> OnCodes:
    """weights [O, KH, KW, I / groups] int8, bias [O] int32; returns x [N, H, W, I] -> y [N, OH, OW, O].

    Padded cells hold the zero point. One group per input channel is a depthwise convolution.
    """
    finish = fp32_stage(ratios(x, w_scales, y, weights.shape[0]), y, activation)
    multiply = accumulators.conv2d(weights, bias, largest_input(x), stride, dilation, padding, groups)
    return OnCodes(lambda steps: finish(multiply(steps)), (x.zero_point,), y.zero_point)


def transpose_conv2d(
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    w_scales: Sequence[float],
    y: Affine,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    output_padding: Pair = (0, 0),
    groups: int = 1,
    activation: Bounds | None = None,
) -> OnCodes:
    """weights [O, KH, KW, I / groups] int8; returns x [N, H, W, I] -> y [N, OH, OW, O].

    OH = (H - 1) * stride + (KH - 1) * dilation + 1 + output_padding - top - bottom.
    """
    finish = fp32_stage(ratios(x, w_scales, y, weights.shape[0]), y, activation)
    multiply = accumulators.transpose_conv2d(
        weights, bias, largest_input(x), stride, dilation, padding, output_padding, groups
    )
    return OnCodes(lambda steps: finish(multiply(steps)), (x.zero_point,), y.zero_point)
