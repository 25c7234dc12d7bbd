"""RESIZE's interpolation on images whose last axes are height and width."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic.tosa.pooling import averaged
from npu_assay.reference.arithmetic.tosa.rescale import bits_of, centred, range_of, shifted

WRITTEN = 10**6
"""The largest denominator of a factor: it is the fraction that a float was meant to be."""
MIDDLE = 16
"""Cells to one of the result, from which the average of the middle four is taken."""
Pair = tuple[int, int]


def resize_bilinear(
    codes: Tensor, size: Pair, aligned: bool, x: Affine, factors: tuple[float, float] | None = None
) -> Tensor:
    """codes [..., H, W] at `size`, in x: positions and weights in whole numbers, their sums rescaled at the end.

    factors: the pixels of the result to one of the codes, where they are not what the sizes say.
    """
    ratios = [Fraction(*pair) for pair in zip(size, codes.shape[-2:], strict=True)]
    if factors is not None and not aligned:
        ratios = [Fraction(factor).limit_denominator(WRITTEN) for factor in factors]
    if not aligned and ratios == [Fraction(1, MIDDLE)] * 2:
        return _middle(codes, x)
    found, scale = codes.to(torch.int64), 1
    for axis, count, ratio in zip((-2, -1), size, ratios, strict=True):
        found, numerator = _interpolated(found, axis, count, aligned, ratio)
        scale *= numerator
    return shifted(found, 1 / scale, bits_of(codes)).clamp(*range_of(codes)).to(codes.dtype)


def _middle(codes: Tensor, x: Affine) -> Tensor:
    """The average of the middle four of 16 x 16."""
    first = MIDDLE // 2 - 1
    rows = torch.stack([centred(codes, x)[..., first + i :: MIDDLE, :] for i in (0, 1)]).sum(0)
    sums = torch.stack([rows[..., first + i :: MIDDLE] for i in (0, 1)]).sum(0)
    return averaged(sums, torch.full_like(sums, 4), codes, x)


def _interpolated(codes: Tensor, axis: int, count: int, aligned: bool, ratio: Fraction) -> tuple[Tensor, int]:
    """Weighted sums of two neighbors along an axis, and what the weights add up to."""
    size = codes.shape[axis]
    if aligned and size > 1 and count > 1:
        ratio = Fraction(count - 1, size - 1)
    n, d = 2 * ratio.numerator, 2 * ratio.denominator
    position = torch.arange(count) * d + (0 if aligned else d // 2 - n // 2)
    first = position.div(n, rounding_mode="floor")
    weight = (position - first * n).reshape(-1, *[1] * (-1 - axis))
    near, far = (codes.index_select(axis, (first + i).clamp(0, size - 1)) for i in (0, 1))
    return near * (n - weight) + far * weight, n
