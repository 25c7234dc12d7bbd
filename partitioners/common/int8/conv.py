"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV: NHWC int8, symmetric int8 weights, int32 bias.

acc = sum((x - zx) * w) + bias, then `tflite_double_round` by sx * sw / sy (float64 products of float32
scales) per output channel. Source: TensorFlow Lite reference_integer_ops (conv.h, depthwise_conv.h,
transpose_conv.h). Raise ValueError for shapes or scale counts that do not fit together.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from npu_assay.partitioners.common.int8 import conv_accumulators
from npu_assay.partitioners.common.int8.accumulate import NO_PADDING, Padding, Pair
from npu_assay.partitioners.common.int8.output import Bounds, Kernel, check_scales, double_round_stage
from npu_assay.partitioners.common.rescale import quantize_multiplier
from npu_assay.reference.affine import Affine, float32


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
    accumulate = conv_accumulators.conv2d(weights, bias, x, stride, dilation, padding)
    finish = double_round_stage(_parameters(x, w_scales, y, weights.shape[0]), y, activation)
    return lambda codes: finish(accumulate(codes))


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
    accumulate = conv_accumulators.depthwise_conv2d(weights, bias, x, stride, dilation, padding)
    finish = double_round_stage(_parameters(x, w_scales, y, weights.shape[3]), y, activation)
    return lambda codes: finish(accumulate(codes))


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
    size = (output_shape[1], output_shape[2])
    accumulate = conv_accumulators.transpose_conv2d(weights, bias, size, x, stride, (-crop[0], -crop[1]))
    finish = double_round_stage(_parameters(x, w_scales, y, weights.shape[0]), y, activation)
    return lambda codes: finish(accumulate(codes))


def _parameters(x: Affine, w_scales: Sequence[float], y: Affine, channels: int) -> list[tuple[int, int]]:
    """(multiplier, shift) of each output channel; one in all when the weights have one scale."""
    check_scales(w_scales, channels)
    return [quantize_multiplier(x.scale32 * float32(scale) / y.scale32) for scale in w_scales]
