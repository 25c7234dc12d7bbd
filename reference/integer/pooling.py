"""Pools: channels-last arithmetic on channels-first images."""

from __future__ import annotations

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic import tflite
from npu_assay.reference.integer.operand import Given, Rule, on_images, operand, pair, pooled, requantised, require

# ------------------------------------------------------------------------------------ pools and sizes


def avg_pool(rank: int) -> Rule:
    """AVERAGE_POOL_2D; padding that counts is a PAD with the zero point before it."""

    def rule(given: Given, y: Affine) -> Tensor:
        require(not given["ceil_mode"], "avg_pool", "ceil_mode", "none")
        require(given.get("divisor_override") is None, "avg_pool", "divisor_override", "none")
        x, kernel, stride, padding = pooled(given, rank)
        codes = x.codes
        if given["count_include_pad"]:
            (top, bottom), (left, right) = padding
            border = (left, right, top, bottom) if rank == 2 else (left, right)
            codes, padding = torch.constant_pad_nd(codes, border, x.zero_point), ((0, 0), (0, 0))
        means = on_images(lambda image: tflite.avg_pool2d(image, kernel, stride, x.affine, padding), codes)
        return requantised(means, x.affine, y)

    return rule


avg_pool1d, avg_pool2d = avg_pool(1), avg_pool(2)


def adaptive_avg_pool(given: Given, y: Affine) -> Tensor:
    """An average pool when the output's size divides the input's."""
    x, size = operand(given, "self"), pair(given["output_size"])
    extents = (x.codes.shape[-2], x.codes.shape[-1])
    divides = all(n % m == 0 for n, m in zip(extents, size, strict=True))
    require(divides, "adaptive_avg_pool2d", f"{extents} -> {size}", "a size that divides")
    kernel = (extents[0] // size[0], extents[1] // size[1])
    means = on_images(lambda codes: tflite.avg_pool2d(codes, kernel, kernel, x.affine), x.codes)
    return requantised(means, x.affine, y)


def max_pool(rank: int) -> Rule:
    def rule(given: Given, y: Affine) -> Tensor:
        require(not given["ceil_mode"], "max_pool", "ceil_mode", "none")
        require(pair(given["dilation"], rank) == (1, 1), "max_pool", f"dilation {given['dilation']}", "1")
        x, kernel, stride, padding = pooled(given, rank)
        largest = on_images(lambda codes: tflite.max_pool2d(codes, kernel, stride, padding), x.codes)
        return requantised(largest, x.affine, y)

    return rule


max_pool1d, max_pool2d = max_pool(1), max_pool(2)
