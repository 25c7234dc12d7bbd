"""Convolutions, pools, reductions and resizes: channels-last arithmetic on channels-first images."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic import tflite
from npu_assay.reference.integer.operand import (
    Given,
    Pair,
    QTensor,
    Rule,
    bias_codes,
    on_images,
    operand,
    pair,
    requantised,
    require,
    symmetric,
)


def convolution(given: Given, y: Affine) -> Tensor:
    """1-D and 2-D, grouped (as many groups as the channels say) and transposed; weights must be symmetric."""
    x, weight = operand(given, "input"), operand(given, "weight")
    require(weight.zero_point == 0, "convolution", f"weight zero point {weight.zero_point}", "0")
    kernel = weight.codes if weight.codes.dim() == 4 else weight.codes.unsqueeze(-2)
    rank = weight.codes.dim() - 2
    require(kernel.dim() == 4, "convolution", f"rank {kernel.dim()} weights", "rank 3 or 4")
    if given.get("transposed"):
        return _transposed(given, x, kernel, weight.scales, rank, y)
    constants = (kernel.permute(0, 2, 3, 1), bias_codes(given), x.affine, weight.scales, y)
    window = (pair(given["stride"], rank), pair(given["dilation"], rank), symmetric(given["padding"], rank))
    return on_images(lambda codes: tflite.conv2d(codes, *constants, *window), x.codes)


def _transposed(given: Given, x: QTensor, kernel: Tensor, scales: Sequence[float], rank: int, y: Affine) -> Tensor:
    """Weights [I, O, KH, KW]. Padding crops the result; output_padding adds to its end."""
    require(given["groups"] == 1, "transposed convolution", f"{given['groups']} groups", "1")
    dilation = pair(given["dilation"], rank)
    require(dilation == (1, 1), "transposed convolution", f"dilation {dilation}", "(1, 1)")
    stride, crop = pair(given["stride"], rank), symmetric(given["padding"], rank)
    more = symmetric(given["output_padding"], rank)
    sizes = (x.codes.shape[2] if rank == 2 else 1, x.codes.shape[-1])
    extents = zip(sizes, stride, crop, kernel.shape[2:], more, strict=True)
    height, width = ((n - 1) * s - 2 * c[0] + k + m[0] for n, s, c, k, m in extents)
    shape = (x.codes.shape[0], height, width, kernel.shape[1])
    constants = (kernel.permute(1, 2, 3, 0), bias_codes(given), shape, x.affine, scales, y)
    cropped = (crop[0][0], crop[1][0])
    return on_images(lambda codes: tflite.transpose_conv(codes, *constants, stride, cropped), x.codes)


# ------------------------------------------------------------------------------------ pools and sizes


def avg_pool(rank: int) -> Rule:
    """AVERAGE_POOL_2D; padding that counts is a PAD with the zero point before it."""

    def rule(given: Given, y: Affine) -> Tensor:
        require(not given["ceil_mode"], "avg_pool", "ceil_mode", "none")
        require(given.get("divisor_override") is None, "avg_pool", "divisor_override", "none")
        x = operand(given, "self")
        kernel = pair(given["kernel_size"], rank)
        stride = pair(given["stride"], rank) if given["stride"] else kernel
        padding = symmetric(given["padding"], rank)
        codes = x.codes
        if given["count_include_pad"]:
            (top, bottom), (left, right) = padding
            border = (left, right, top, bottom) if rank == 2 else (left, right)
            codes, padding = torch.constant_pad_nd(codes, border, x.zero_point), ((0, 0), (0, 0))
        pooled = on_images(lambda image: tflite.avg_pool2d(image, kernel, stride, x.affine, padding), codes)
        return requantised(pooled, x.affine, y)

    return rule


avg_pool1d, avg_pool2d = avg_pool(1), avg_pool(2)


def adaptive_avg_pool(given: Given, y: Affine) -> Tensor:
    """An average pool when the output's size divides the input's."""
    x, size = operand(given, "self"), pair(given["output_size"])
    extents = (x.codes.shape[-2], x.codes.shape[-1])
    divides = all(n % m == 0 for n, m in zip(extents, size, strict=True))
    require(divides, "adaptive_avg_pool2d", f"{extents} -> {size}", "a size that divides")
    kernel = (extents[0] // size[0], extents[1] // size[1])
    pooled = on_images(lambda codes: tflite.avg_pool2d(codes, kernel, kernel, x.affine), x.codes)
    return requantised(pooled, x.affine, y)


def max_pool(rank: int) -> Rule:
    def rule(given: Given, y: Affine) -> Tensor:
        require(not given["ceil_mode"], "max_pool", "ceil_mode", "none")
        require(pair(given["dilation"], rank) == (1, 1), "max_pool", f"dilation {given['dilation']}", "1")
        x = operand(given, "self")
        kernel = pair(given["kernel_size"], rank)
        stride = pair(given["stride"], rank) if given["stride"] else kernel
        padding = symmetric(given["padding"], rank)
        pooled = on_images(lambda codes: tflite.max_pool2d(codes, kernel, stride, padding), x.codes)
        return requantised(pooled, x.affine, y)

    return rule


max_pool1d, max_pool2d = max_pool(1), max_pool(2)


def mean(given: Given, y: Affine) -> Tensor:
    x = operand(given, "self")
    return tflite.mean(x.codes, _axes(given, x), bool(given["keepdim"]), x.affine, y)


def total(given: Given, y: Affine) -> Tensor:
    x = operand(given, "self")
    return tflite.total(x.codes, _axes(given, x), bool(given["keepdim"]), x.affine, y)


def _reduced(function: Callable[[Tensor, list[int], bool], Tensor]) -> Rule:
    """One of the codes over some dimensions, in the quantization of the result."""

    def rule(given: Given, y: Affine) -> Tensor:
        x = operand(given, "self")
        return requantised(function(x.codes, _axes(given, x), bool(given["keepdim"])), x.affine, y)

    return rule


amax, amin = _reduced(torch.amax), _reduced(torch.amin)


def _axes(given: Given, x: QTensor) -> list[int]:
    """The dimensions that a reduction takes away, counted from the front; all where none is named."""
    dims = given["dim"]
    axes = [dims] if isinstance(dims, int) else list(dims or range(x.codes.dim()))
    return [axis % max(1, x.codes.dim()) for axis in axes]


def _size(given: Given, x: Tensor) -> Pair:
    """The output's height and width, given or by factors."""
    if given["output_size"] is not None:
        return pair(given["output_size"])
    height, width = (int(n * f) for n, f in zip(x.shape[-2:], given["scale_factors"], strict=True))
    return height, width


def bilinear(given: Given, y: Affine) -> Tensor:
    x, align = operand(given, "input"), bool(given["align_corners"])
    size = _size(given, x.codes)
    resized = on_images(lambda codes: tflite.resize_bilinear(codes, size, align, half_pixel=not align), x.codes)
    return requantised(resized, x.affine, y)


def nearest(given: Given, y: Affine) -> Tensor:
    x = operand(given, "input")
    size = _size(given, x.codes)
    return requantised(on_images(lambda codes: tflite.resize_nearest(codes, size), x.codes), x.affine, y)
