"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR of TensorFlow Lite on int8, NHWC.

Input and output share their quantization. Sources: TensorFlow Lite reference_ops.h
(ResizeBilinearInteger) and reference/resize_nearest_neighbor.h.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.accumulate import Pair
from npu_assay.partitioners.common.int8.output import Kernel
from npu_assay.reference.affine import float32

_ONE = 1 << 10


def resize_bilinear(size: Pair, align_corners: bool = False, half_pixel: bool = False) -> Kernel:
    """size = (height, width). Positions and weights have 10 fraction bits; ties round away from zero."""

    def apply(codes: Tensor) -> Tensor:
        value = codes.to(torch.int32)
        for axis, out in zip((1, 2), size, strict=True):
            low, high, weight = _taps(codes.shape[axis], out, align_corners, half_pixel)
            weight = weight.view(-1, *[1] * (3 - axis))
            value = value.index_select(axis, low) * (_ONE - weight) + value.index_select(axis, high) * weight
        nudge = torch.where(value > 0, _ONE * _ONE // 2, -_ONE * _ONE // 2)
        return torch.div(value + nudge, _ONE * _ONE, rounding_mode="trunc").to(torch.int8)

    return apply


def resize_nearest(size: Pair, align_corners: bool = False, half_pixel: bool = False) -> Kernel:
    """size = (height, width). Positions are float32 products."""

    def apply(codes: Tensor) -> Tensor:
        rows, columns = (
            _nearest(codes.shape[axis], out, align_corners, half_pixel) for axis, out in zip((1, 2), size, strict=True)
        )
        return codes.index_select(1, rows).index_select(2, columns)

    return apply


def _taps(size: int, out: int, align_corners: bool, half_pixel: bool) -> tuple[Tensor, Tensor, Tensor]:
    """(lower index, upper index, weight of the upper one in 1/1024) of every output position."""
    scale = (_ONE * size + out // 2) // out
    if align_corners and out > 1:
        scale = (_ONE * (size - 1) + (out - 1) // 2) // (out - 1)
    position = torch.arange(out, dtype=torch.int64) * scale
    if half_pixel:
        position += scale // 2 - _ONE // 2
    low = torch.div(position, _ONE, rounding_mode="trunc").clamp_(min=0)
    high = torch.div(position + _ONE - 1, _ONE, rounding_mode="trunc").clamp_(max=size - 1)
    return low, high, (position - _ONE * low).to(torch.int32)


def _nearest(size: int, out: int, align_corners: bool, half_pixel: bool) -> Tensor:
    scale = np.float32(float32((size - 1) / (out - 1) if align_corners and out > 1 else size / out))
    offset = np.float32(0.5 if half_pixel else 0)
    places = [float((np.float32(i) + offset) * scale) for i in range(out)]
    indices = [math.floor(place + 0.5) if align_corners else math.floor(place) for place in places]
    return torch.tensor([min(index, size - 1) for index in indices], dtype=torch.int64)
