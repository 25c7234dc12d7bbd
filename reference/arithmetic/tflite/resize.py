"""Resizes: reference_ops.h (ResizeBilinearInteger), resize_nearest_neighbor.h.

Input and output share their quantization.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from npu_assay.reference.arithmetic.windows import Pair

ONE = 2**10
"""1 in the fixed point of positions and weights of RESIZE_BILINEAR."""


def resize_bilinear(codes: Tensor, size: Pair, align_corners: bool = False, half_pixel: bool = False) -> Tensor:
    """The four neighbors weighted in 2**-20, ties away from zero."""
    image = codes.to(torch.int64)
    top, bottom, down = _neighbours(codes.shape[1], size[0], align_corners, half_pixel)
    left, right, across = _neighbours(codes.shape[2], size[1], align_corners, half_pixel)
    down, across = down.view(-1, 1, 1), across.view(1, -1, 1)
    total = image[:, top][:, :, left] * (ONE - down) * (ONE - across)
    total += image[:, bottom][:, :, left] * down * (ONE - across)
    total += image[:, top][:, :, right] * (ONE - down) * across
    total += image[:, bottom][:, :, right] * down * across
    half = torch.where(total > 0, ONE * ONE // 2, -ONE * ONE // 2)
    return torch.div(total + half, ONE * ONE, rounding_mode="trunc").char()


def _neighbours(size: int, out: int, align_corners: bool, half_pixel: bool) -> tuple[Tensor, Tensor, Tensor]:
    """For each output position: the index before it, the one after it, and the weight of the latter."""
    steps, between = (size - 1, out - 1) if align_corners and out > 1 else (size, out)
    scale = (ONE * steps + between // 2) // between
    positions = [i * scale + (scale // 2 - ONE // 2 if half_pixel else 0) for i in range(out)]
    before = [max(0, math.trunc(position / ONE)) for position in positions]
    after = [min(size - 1, math.trunc((position + ONE - 1) / ONE)) for position in positions]
    weights = [position - ONE * low for position, low in zip(positions, before, strict=True)]
    return torch.tensor(before), torch.tensor(after), torch.tensor(weights)


def resize_nearest(codes: Tensor, size: Pair, align_corners: bool = False, half_pixel: bool = False) -> Tensor:
    """The pixel at position * in / out, in float32: rounded down, or with ties away from zero when corners align."""
    rows, columns = (_nearest(n, out, align_corners, half_pixel) for n, out in zip(codes.shape[1:3], size, strict=True))
    return codes[:, rows][:, :, columns]


def _nearest(size: int, out: int, align_corners: bool, half_pixel: bool) -> Tensor:
    scale = np.float32((size - 1) / (out - 1) if align_corners and out > 1 else size / out)
    offset = np.float32(0.5 if half_pixel else 0)
    places = [(np.float32(i) + offset) * scale for i in range(out)]
    found = [math.floor(float(place) + 0.5) if align_corners else math.floor(place) for place in places]
    return torch.tensor([min(index, size - 1) for index in found])
