"""AVERAGE_POOL_2D, MAX_POOL_2D and MEAN of TensorFlow Lite on int8, NHWC.

Sources: TensorFlow Lite reference_integer_ops/pooling.h and reduce.cc (reference kernels).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from reference.affine import Affine
from reference.int8.accumulate import NO_PADDING, Padding, Pair, output_size, pad_hw
from reference.int8.output import Kernel, double_round_stage
from reference.rescale import quantize_multiplier


def avg_pool2d(kernel: Pair, stride: Pair, x: Affine, padding: Padding = NO_PADDING) -> Kernel:
    """The mean of the codes inside the image, ties away from zero; input and output share `x`.

    Padded cells are not counted. To count them pad with the zero point before.
    """

    def apply(codes: Tensor) -> Tensor:
        total = _pool(pad_hw(codes.to(torch.int32), padding), kernel, stride, torch.add)
        count = _counts(codes, kernel, stride, padding)
        nudge = torch.sign(total).mul_(count // 2)
        mean = torch.div(total.add_(nudge), count, rounding_mode="trunc")
        return mean.clamp_(x.qmin, x.qmax).to(torch.int8)

    return apply


def max_pool2d(kernel: Pair, stride: Pair, padding: Padding = NO_PADDING) -> Kernel:
    """The largest code inside the image: padded cells hold -128."""
    return lambda codes: _pool(pad_hw(codes, padding, -128), kernel, stride, torch.maximum)


def mean(axes: Sequence[int], keep_dims: bool, x: Affine, y: Affine) -> Kernel:
    """The mean over `axes`, by `tflite_double_round` with the count divided into the multiplier.

    acc = sum(x - zx); the multiplier of sx / sy becomes floor(multiplier * 2**k / n), its shift less k,
    with k = min(floor(log2 n), 32, 31 + shift). Raises ValueError without any axis.
    """
    if not axes:
        raise ValueError("MEAN axes: found none, expected at least one")
    multiplier, shift = quantize_multiplier(x.scale32 / y.scale32)

    @lru_cache(maxsize=8)
    def finish(count: int) -> Kernel:
        extra = min(count.bit_length() - 1, 32, 31 + shift)
        return double_round_stage([((multiplier << extra) // count, shift - extra)], y)

    def apply(codes: Tensor) -> Tensor:
        dims = sorted({axis % codes.dim() for axis in axes})
        count = math.prod(codes.shape[d] for d in dims)
        acc = codes.sum(dims, keepdim=keep_dims, dtype=torch.int64).sub_(count * x.zero_point)
        return finish(count)(acc)

    return apply


def _pool(value: Tensor, kernel: Pair, stride: Pair, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Combine every VALID window of `value` [N, H, W, C]: along the rows first, then along the columns."""
    for axis, size, k, s in zip(
        (1, 2), output_size(_pair(value.shape[1:3]), kernel, stride), kernel, stride, strict=True
    ):
        parts = [value[(slice(None),) * axis + (slice(i, i + (size - 1) * s + 1, s),)] for i in range(k)]
        value = parts[0]
        for part in parts[1:]:
            value = combine(value, part)
    return value.contiguous()


def _pair(sizes: Sequence[int]) -> Pair:
    h, w = sizes
    return h, w


def _counts(codes: Tensor, kernel: Pair, stride: Pair, padding: Padding) -> Tensor:
    """How many cells of each window are inside the image: broadcasts to [1, OH, OW, 1], int32."""
    if padding == NO_PADDING:
        return torch.tensor(kernel[0] * kernel[1], dtype=torch.int32)
    ones = torch.ones((1, *codes.shape[1:3], 1), dtype=torch.int32)
    return _pool(pad_hw(ones, padding), kernel, stride, torch.add)
