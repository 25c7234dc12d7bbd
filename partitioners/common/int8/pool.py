"""AVERAGE_POOL_2D, MAX_POOL_2D, MEAN, SUM, REDUCE_MAX and REDUCE_MIN of TensorFlow Lite on int8, NHWC.

Sources: TensorFlow Lite reference_integer_ops/pooling.h and reduce.cc (reference kernels).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from npu_assay.partitioners.common.int8.accumulate import (
    NO_PADDING,
    Padding,
    Pair,
    exact_dtype,
    output_size,
    pad_hw,
    padded_float,
)
from npu_assay.partitioners.common.int8.output import Kernel, double_round_stage
from npu_assay.partitioners.common.rescale import quantize_multiplier
from npu_assay.reference.affine import Affine


def avg_pool2d(kernel: Pair, stride: Pair, x: Affine, padding: Padding = NO_PADDING) -> Kernel:
    """The mean of the codes inside the image, ties away from zero; input and output share `x`.

    Padded cells are not counted. To count them, pad with the zero point before.

    With n cells the sums are at most 129 * n, nudge included, and exact. A quotient that is not an integer is
    at least 1 / n from one, which is more than its rounding error as 129 * n fits the significand.
    """
    cells = kernel[0] * kernel[1]
    dtype = exact_dtype(cells * (max(abs(x.qmin), abs(x.qmax)) + 1))

    @lru_cache(maxsize=8)
    def counts(h: int, w: int) -> Tensor | int:
        """How many cells of each window are inside the image: [1, OH, OW, 1], or one number for all."""
        inside = pad_hw(torch.ones((1, h, w, 1), dtype=dtype), padding)
        return cells if padding == NO_PADDING else _pooled(F.avg_pool2d, inside, kernel, stride, divisor_override=1)

    def apply(codes: Tensor) -> Tensor:
        value = padded_float(codes, padding, 0, dtype)
        total = _pooled(F.avg_pool2d, value, kernel, stride, divisor_override=1)
        count = counts(codes.shape[1], codes.shape[2])
        return total.add_(total.sign().mul_(count // 2)).div_(count).trunc_().char()

    return apply


def max_pool2d(kernel: Pair, stride: Pair, padding: Padding = NO_PADDING) -> Kernel:
    """The largest code inside the image: padded cells hold -128."""
    return lambda codes: _pooled(F.max_pool2d, padded_float(codes, padding, -128, torch.float32), kernel, stride).char()


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


def sum_(axes: Sequence[int], keep_dims: bool, x: Affine, y: Affine) -> Kernel:
    """The sum over `axes`, by `tflite_double_round`: acc = sum(x - zx), rescaled by sx / sy."""
    finish = double_round_stage([quantize_multiplier(x.scale32 / y.scale32)], y)

    def apply(codes: Tensor) -> Tensor:
        dims = sorted({axis % codes.dim() for axis in axes})
        count = math.prod(codes.shape[d] for d in dims)
        return finish(codes.sum(dims, keepdim=keep_dims, dtype=torch.int64).sub_(count * x.zero_point))

    return apply


def reduce_max(axes: Sequence[int], keep_dims: bool) -> Kernel:
    """The largest code over `axes`: input and output share their quantization."""
    return lambda codes: codes.amax(tuple(axes), keep_dims)


def reduce_min(axes: Sequence[int], keep_dims: bool) -> Kernel:
    """The smallest code over `axes`: input and output share their quantization."""
    return lambda codes: codes.amin(tuple(axes), keep_dims)


def _pooled(pool: Callable[..., Tensor], value: Tensor, kernel: Pair, stride: Pair, **options: int) -> Tensor:
    """A pool of the library over VALID windows of `value` [N, H, W, C], contiguous like it."""
    output_size((value.shape[1], value.shape[2]), kernel, stride)
    return pool(value.permute(0, 3, 1, 2), kernel, stride, **options).permute(0, 2, 3, 1).contiguous()
