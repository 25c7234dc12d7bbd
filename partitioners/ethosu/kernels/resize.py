"""Resizes of TOSA, NHWC."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.accumulate import Pair
from npu_assay.partitioners.ethosu.kernels.numbers import Kernel

Scale = tuple[int, int]
"""Numerator and denominator: the result has n / d cells for each of the input."""


def resize_nearest(sizes: Pair, y: tuple[Scale, int], x: tuple[Scale, int]) -> Kernel:
    """y, x: (scale, offset) of each axis. The nearest code; the later one where both are as near."""

    @cache
    def places(h: int, w: int) -> tuple[Tensor, Tensor]:
        rows, columns = _positions(h, sizes[0], *y), _positions(w, sizes[1], *x)
        return _nearest(*rows, y[0][0]), _nearest(*columns, x[0][0])

    def apply(codes: Tensor) -> Tensor:
        rows, columns = places(codes.shape[1], codes.shape[2])
        return codes.index_select(1, rows).index_select(2, columns)

    return apply


def resize_bilinear(sizes: Pair, y: tuple[Scale, int], x: tuple[Scale, int], dtype: torch.dtype) -> Kernel:
    """Weighted sums of four codes, larger by both numerators: INT32 of INT8, INT48 of INT16. Zero points stay."""

    @cache
    def places(h: int, w: int) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
        return _positions(h, sizes[0], *y), _positions(w, sizes[1], *x)

    def apply(codes: Tensor) -> Tensor:
        rows, columns = places(codes.shape[1], codes.shape[2])
        return _mixed(_mixed(codes.to(dtype), 1, y[0][0], *rows), 2, x[0][0], *columns)

    return apply


def _mixed(codes: Tensor, axis: int, n: int, low: Tensor, high: Tensor, fraction: Tensor) -> Tensor:
    """(n - fraction) parts of one cell and `fraction` of the next one along an axis."""
    shape = (-1, 1, 1) if axis == 1 else (-1, 1)
    weight = fraction.to(codes.dtype).view(shape)
    return codes.index_select(axis, low) * (n - weight) + codes.index_select(axis, high) * weight


def _positions(size: int, count: int, scale: Scale, offset: int) -> tuple[Tensor, Tensor, Tensor]:
    """For each cell of the result the two cells of the input around it, and n times the distance from the first."""
    n, d = scale
    place = torch.arange(count) * d + offset
    first = torch.div(place, n, rounding_mode="floor")
    return first.clamp(0, size - 1), (first + 1).clamp(0, size - 1), place - first * n


def _nearest(low: Tensor, high: Tensor, fraction: Tensor, n: int) -> Tensor:
    return torch.where(2 * fraction >= n, high, low)
