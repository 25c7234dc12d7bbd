"""Pools of TOSA, NHWC."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.accumulate import (
    NO_PADDING,
    Padding,
    Pair,
    exact_dtype,
    output_size,
    padded_float,
)
from npu_assay.partitioners.ethosu.kernels.numbers import INT32, Codes, Kernel, require_within
from npu_assay.partitioners.ethosu.kernels.rescale import rounded


def avg_pool2d(kernel: Pair, stride: Pair, x: Codes, y: Codes, padding: Padding = NO_PADDING) -> Kernel:
    """The mean of the codes inside the image, by a reciprocal of their number and `tosa_single_round`.

    For n codes, k = bits of n - 1: multiplier ((2**30 + 1) << k) // n, shift 30 + k.
    """
    bound = kernel[0] * kernel[1] * x.reach
    dtype = exact_dtype(bound, 53)

    @cache
    def finish(h: int, w: int) -> Kernel:
        counts = _counts((h, w), kernel, stride, padding)
        pairs = {count: reciprocal(count) for count in set(counts.flatten().tolist())}
        multiplier = counts.clone().apply_(lambda count: pairs[count][0])
        shift = counts.clone().apply_(lambda count: pairs[count][1])
        return rounded(multiplier, shift, y, bound)

    def apply(codes: Tensor) -> Tensor:
        if padding == NO_PADDING and tuple(codes.shape[1:3]) == tuple(kernel) and bound <= INT32[1]:
            total = codes.sum((1, 2), keepdim=True, dtype=torch.int32)
            return finish(*kernel)(total.sub_(x.zero_point * kernel[0] * kernel[1]))
        value = padded_float(codes, padding, x.zero_point, torch.float64).sub_(x.zero_point)
        acc = _windows(_summed, value, kernel, stride).to(dtype)
        if bound > INT32[1]:
            require_within(acc, *INT32, "AVG_POOL2D accumulator")
        return finish(codes.shape[1], codes.shape[2])(acc)

    return apply


def reciprocal(count: int) -> tuple[int, int]:
    """(multiplier, shift) that divide by `count`."""
    bits = (count - 1).bit_length()
    return (((1 << 30) + 1) << bits) // count, 30 + bits


def _counts(size: Pair, kernel: Pair, stride: Pair, padding: Padding) -> Tensor:
    """How many cells of each window are inside the image: [1, OH, OW, 1], or 0-d where all are; int64."""
    if padding == NO_PADDING:
        return torch.tensor(kernel[0] * kernel[1])
    inside = padded_float(torch.ones((1, *size, 1), dtype=torch.int8), padding, 0, torch.float64)
    return _windows(_summed, inside, kernel, stride).to(torch.int64)


def max_pool2d(kernel: Pair, stride: Pair, x: Codes, padding: Padding = NO_PADDING) -> Kernel:
    """The largest code inside the image."""

    def apply(codes: Tensor) -> Tensor:
        return _windows(_largest, padded_float(codes, padding, x.low, torch.float32), kernel, stride).to(x.dtype)

    return apply


def _windows(along: Callable[[Tensor, int, int], Tensor], value: Tensor, kernel: Pair, stride: Pair) -> Tensor:
    """One number for each VALID window of `value` [N, H, W, C], row by row and then column by column."""
    output_size((value.shape[1], value.shape[2]), kernel, stride)
    found = along(along(value, kernel[0], 1), kernel[1], 2)
    return found[:, :: stride[0], :: stride[1]].contiguous()


def _largest(value: Tensor, size: int, axis: int) -> Tensor:
    """The largest of `size` neighbors along an axis, from that of fewer: windows of 8,192 take 13 steps."""
    reach = 1
    while reach < size:
        step = min(reach, size - reach)
        length = value.shape[axis] - step
        value = torch.maximum(value.narrow(axis, 0, length), value.narrow(axis, step, length))
        reach += step
    return value


def _summed(value: Tensor, size: int, axis: int) -> Tensor:
    """The sum of `size` neighbors along an axis, from that of all before each; exact for integers below 2**53."""
    length = value.shape[axis] - size
    before = torch.cat([torch.zeros_like(value.narrow(axis, 0, 1)), value.cumsum(axis)], axis)
    return before.narrow(axis, size, length + 1) - before.narrow(axis, 0, length + 1)
