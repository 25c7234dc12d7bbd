"""Pools and resizing on codes by `npu_assay.reference.arithmetic.tosa`; layouts are torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic import tosa
from npu_assay.reference.golden.aten import aten
from npu_assay.reference.integer.operand import Given, Rule, pair


def avg_pool(given: Given, y: Affine) -> Tensor:
    """A divisor of its own is a sum and a rescale."""
    x = given["self"]
    kernel = pair(given["kernel_size"])
    window = (kernel, pair(given["stride"]) if given["stride"] else kernel, pair(given["padding"]), given["ceil_mode"])
    ones = torch.ones_like(x.codes, dtype=torch.float64)
    sums = _window_sums(x.codes.double() - x.zero_point, *window)
    if given["divisor_override"] is not None:
        ratio = x.affine.scale / (given["divisor_override"] * y.scale)
        return tosa.output(sums.long(), ratio, y, tosa.bits_of(x.codes))
    if given["count_include_pad"]:
        pads = [window[2][1]] * 2 + [window[2][0]] * 2
        ones = functional.pad(ones, pads, value=1.0)
        window = (kernel, window[1], (0, 0), window[3])
    counts = _window_sums(ones, *window)[..., : sums.shape[-2], : sums.shape[-1]]
    return tosa.requantised(tosa.averaged(sums.long(), counts.long(), x.codes, x.affine), x.affine, y)


def _window_sums(
    x: Tensor, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], ceil_mode: bool
) -> Tensor:
    """The sum over each window, padding counting as zero, one axis after the other; exact in float64."""
    sizes = torch.empty(x.shape, device="meta")
    shape = torch.ops.aten.avg_pool2d.default(sizes, list(kernel), list(stride), list(padding), ceil_mode).shape
    for axis in (-2, -1):
        before = functional.pad(x.cumsum(axis), (1, 0) if axis == -1 else (0, 0, 1, 0))
        first = torch.arange(shape[axis]) * stride[axis] - padding[axis]
        low, high = (place.clamp(0, x.shape[axis]) for place in (first, first + kernel[axis]))
        x = before.index_select(axis, high) - before.index_select(axis, low)
    return x


def adaptive(given: Given, y: Affine) -> Tensor:
    """Windows from floor(i * size / count) to ceil((i + 1) * size / count), on both axes."""
    x = given["self"]
    numbers = x.codes.long() - x.zero_point
    spans = [
        [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
        for size, count in zip(x.codes.shape[-2:], given["output_size"], strict=True)
    ]
    sums, counts = (torch.zeros(*x.codes.shape[:-2], *map(len, spans), dtype=torch.int64) for _ in range(2))
    for i, (top, bottom) in enumerate(spans[0]):
        for j, (left, right) in enumerate(spans[1]):
            sums[..., i, j] = numbers[..., top:bottom, left:right].sum((-2, -1))
            counts[..., i, j] = (bottom - top) * (right - left)
    return tosa.requantised(tosa.averaged(sums, counts, x.codes, x.affine), x.affine, y)


def _moved(name: str, function: Callable[..., Tensor], *arguments: str) -> Rule:
    """Torch's own on the codes, which keep their order as reals do."""

    def rule(given: Given, y: Affine) -> Tensor:
        x = given[name]
        moved = function(x.codes.double(), *(given[argument] for argument in arguments))
        # The largest number of no pixel at all is minus infinity.
        return tosa.requantised(moved.clamp(*tosa.range_of(x.codes)).to(x.codes.dtype), x.affine, y)

    return rule


def bilinear(given: Given, y: Affine) -> Tensor:
    x, factors = given["input"], given["scale_factors"]
    size = given["output_size"] or [int(n * f) for n, f in zip(x.codes.shape[-2:], factors, strict=True)]
    made = tosa.resize_bilinear(x.codes, tuple(size), given["align_corners"], x.affine, factors)
    return tosa.requantised(made, x.affine, y)


PLAIN = (1, 1, 0, 1)
"""Kernel, stride, padding and dilation of an axis that stays as it is."""


def _largest(x: Tensor, *window: Any) -> Tensor:
    """The largest of each window: that of its rows along the one axis, and of these along the other."""
    kernel, stride, padding, dilation, ceil_mode = window
    pairs = [pair(each) for each in (kernel, stride or kernel, padding, dilation)]
    for axis in (0, 1):
        alone = [
            [each[axis] if at == axis else plain for at in (0, 1)] for each, plain in zip(pairs, PLAIN, strict=True)
        ]
        x = torch.ops.aten.max_pool2d.default(x, *alone, ceil_mode)
    return x


max_pool = _moved("self", _largest, "kernel_size", "stride", "padding", "dilation", "ceil_mode")
nearest = _moved("input", aten("aten.upsample_nearest2d.vec"), "output_size", "scale_factors")
