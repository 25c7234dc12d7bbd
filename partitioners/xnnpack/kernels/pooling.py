"""Max pooling, for codes and reals alike: data movement; and the mean of codes over whole images."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.accumulate import NO_PADDING, Padding, Pair, output_size, pad_hw
from npu_assay.partitioners.xnnpack.kernels.fma import flushed
from npu_assay.partitioners.xnnpack.kernels.output import OnCodes
from npu_assay.reference.affine import Affine, float32


def max_pool2d(
    kernel: Pair, stride: Pair, dilation: Pair = (1, 1), padding: Padding = NO_PADDING
) -> Callable[[Tensor], Tensor]:
    """The largest value inside the image, x [N, H, W, C] -> [N, OH, OW, C]: int8, float32 or float16.

    float32 numbers below the normal range count as zeros. A ceil mode is a larger padding at the bottom and right.
    """

    def apply(x: Tensor) -> Tensor:
        x = flushed(x)
        lowest = torch.iinfo(x.dtype).min if x.dtype == torch.int8 else -torch.inf
        value = pad_hw(x, padding, lowest)  # type: ignore[arg-type]
        oh, ow = output_size((value.shape[1], value.shape[2]), kernel, stride, dilation)
        return _along(_along(value, 1, oh, kernel[0], stride[0], dilation[0]), 2, ow, kernel[1], stride[1], dilation[1])

    return apply


def _along(value: Tensor, axis: int, size: int, kernel: int, stride: int, dilation: int) -> Tensor:
    parts = [
        value[(slice(None),) * axis + (slice(i * dilation, i * dilation + (size - 1) * stride + 1, stride),)]
        for i in range(kernel)
    ]
    result = parts[0]
    for part in parts[1:]:
        result = torch.maximum(result, part)
    return result.contiguous()


def mean(x: Affine, y: Affine) -> OnCodes:
    """The mean over height and width of x [N, H, W, C] -> [N, 1, 1, C]: f32(sum of codes) * ratio + start.

    ratio = f32(f32(sx / sy) / n), start = f32(zy - f32(n * zx * ratio)): it is added before the rounding, ties to
    even, so which way a tie goes depends on the zero points.
    """
    ratio = float32(x.scale32 / y.scale32)

    def apply(steps: Tensor) -> Tensor:
        count = steps.shape[1] * steps.shape[2]
        total = steps.sum((1, 2), keepdim=True, dtype=torch.float64).add_(count * x.zero_point)
        factor = float32(ratio / count)
        start = float32(y.zero_point - float32(count * x.zero_point * factor))
        codes = total.float().mul_(factor).add_(start)
        return codes.clamp_(y.qmin, y.qmax).round_().sub_(y.zero_point)

    return OnCodes(apply, (x.zero_point,), y.zero_point)
