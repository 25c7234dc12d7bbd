"""Max pooling, for codes and reals alike: data movement."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.accumulate import NO_PADDING, Padding, Pair, output_size, pad_hw
from npu_assay.partitioners.xnnpack.kernels.fma import flushed


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
