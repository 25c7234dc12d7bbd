"""Arithmetic on codes: sums in fine steps of the larger scale, extremes in those of the smaller one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic.tosa.rescale import (
    bits_of,
    centred,
    code_of,
    output,
    requantised,
    saturated,
    shifted,
)

FRACTION = {torch.int8: 20, torch.int16: 12}
"""Bits below twice the larger scale that sums keep."""


def add(p: Tensor, q: Tensor, a: Affine, b: Affine, y: Affine) -> Tensor:
    """p + q."""
    return _sum(p, q, a, b, y, 1)


def sub(p: Tensor, q: Tensor, a: Affine, b: Affine, y: Affine) -> Tensor:
    """p - q."""
    return _sum(p, q, a, b, y, -1)


def _sum(p: Tensor, q: Tensor, a: Affine, b: Affine, y: Affine, sign: int) -> Tensor:
    """Both operands in units of 2 * max(sa, sb) / 2**20 (2**12 for int16), each rounded to it; then their sum."""
    unit = (2 * max(a.scale, b.scale)) / (1 << FRACTION[p.dtype])
    first, second = shifted(centred(p, a), a.scale / unit), shifted(centred(q, b), b.scale / unit)
    return output(first + sign * second, unit / y.scale, y)


def mul(p: Tensor, q: Tensor, a: Affine, b: Affine, y: Affine) -> Tensor:
    """p * q."""
    return output(centred(p, a) * centred(q, b), a.scale * b.scale / y.scale, y)


def common(codes: Sequence[Tensor], affines: Sequence[Affine]) -> tuple[list[Tensor], float]:
    """Operands in steps of their smallest scale, and that scale: what extremes and comparisons compare."""
    smallest = min(x.scale for x in affines)
    pairs = zip(codes, affines, strict=True)
    return [shifted(centred(each, x), x.scale / smallest) for each, x in pairs], smallest


def extreme(
    function: Callable[[Tensor, Tensor], Tensor], p: Tensor, q: Tensor, a: Affine, b: Affine, y: Affine
) -> Tensor:
    """The larger or the smaller (torch.maximum, torch.minimum) of p and q."""
    (first, second), scale = common((p, q), (a, b))
    return output(function(first, second), scale / y.scale, y)


def limited(
    operands: Sequence[tuple[Tensor, Affine]], functions: Sequence[Callable[[Tensor, Tensor], Tensor]], y: Affine
) -> Tensor:
    """The first operand, and a function of it and each further one: limits that are tensors."""
    (found, *others), scale = common([codes for codes, _ in operands], [x for _, x in operands])
    for function, other in zip(functions, others, strict=True):
        found = function(found, other)
    return output(found, scale / y.scale, y)


def clamp(codes: Tensor, low: float | None, high: float | None, x: Affine, y: Affine) -> Tensor:
    """Requantized, and then between the codes of real limits; None is no limit."""
    first = y.qmin if low is None else code_of(low, y)
    last = y.qmax if high is None else code_of(high, y)
    return requantised(codes, x, y).clamp_min(first).clamp_max(last)


def abs_(codes: Tensor, x: Affine, y: Affine) -> Tensor:
    """|x|."""
    return output(centred(codes, x).abs(), x.scale / y.scale, y)


def neg(codes: Tensor, x: Affine, y: Affine) -> Tensor:
    """-x, by NEGATE alone where the scales are equal."""
    if x.scale == y.scale:
        return saturated(y.zero_point - centred(codes, x), y)
    return output(-centred(codes, x), x.scale / y.scale, y)


def total(codes: Tensor, dims: Sequence[int], keepdim: bool, x: Affine, y: Affine, *, mean: bool = False) -> Tensor:
    """The sum over axes; with `mean` the ratio is divided by the number of codes, in float64."""
    count = math.prod(codes.shape[axis] for axis in dims) if mean else 1
    return output(centred(codes, x).sum(list(dims), keepdim), x.scale / (count * y.scale), y)


def cumsum(codes: Tensor, dim: int, x: Affine, y: Affine) -> Tensor:
    """Running totals along an axis; those of int16 are of 48 bits."""
    return output(centred(codes, x).cumsum(dim), x.scale / y.scale, y, bits_of(codes))
