"""Operators that put numbers into places of a tensor, or take them from places between others."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden.bounded import Bounded


def _at(index: Bounded) -> Tensor:
    return index.value.to(torch.int64)


def scatter_value(x: Bounded, dim: int, index: Bounded, value: float) -> Bounded:
    """aten.scatter.value: the number that is put there has no error."""
    placed = torch.scatter(x.value, dim, _at(index), value)
    return Bounded(placed) if x.exact else Bounded(placed, torch.scatter(x.spread(), dim, _at(index), 0.0))


def scatter_reduce(
    x: Bounded, dim: int, index: Bounded, src: Bounded, reduce: str, *, include_self: bool = True
) -> Bounded:
    """aten.scatter_reduce.two: sums of errors bound all but products, which nothing bounds here."""
    value = torch.scatter_reduce(x.value, dim, _at(index), src.value, reduce, include_self=include_self)
    if x.exact and src.exact:
        return Bounded(value)
    if reduce == "prod":
        return Bounded(value, torch.full_like(value, math.inf))
    return Bounded(value, torch.scatter_add(x.spread().contiguous(), dim, _at(index), src.spread().contiguous()))


def filled(x: Bounded, value: float) -> Bounded:
    """aten.fill.Scalar: nothing of x is left."""
    return Bounded(torch.full_like(x.value, float(value)))


def ones_like(x: Bounded, **options: Any) -> Bounded:
    """aten.ones_like.default."""
    return Bounded(torch.ones_like(x.value))


def zeros_like(x: Bounded, **options: Any) -> Bounded:
    """aten.zeros_like.default."""
    return Bounded(torch.zeros_like(x.value))


def largest_place(x: Bounded, dim: int | None = None, keepdim: bool = False) -> Bounded:
    """aten.argmax.default: of equal numbers the first, as torch says; unbounded where another may be as large."""
    index = torch.argmax(x.value, dim, keepdim)
    if x.exact:
        return Bounded(index.to(torch.float64))
    along, given = (x.value.flatten(), x.spread().flatten()) if dim is None else (x.value, x.spread())
    axis = 0 if dim is None else dim
    best = torch.argmax(along, axis, True)
    others = (along + given).scatter(axis, best, -math.inf) if along.dim() else torch.full_like(along, -math.inf)
    least = (along - given).gather(axis, best) if along.dim() else along - given
    open_ = ~(others.amax(axis, True) < least)  # true for NaN
    return Bounded(index.to(torch.float64), torch.where(open_.reshape(index.shape), math.inf, 0.0))


def smallest_place(x: Bounded, dim: int | None = None, keepdim: bool = False) -> Bounded:
    """aten.argmin.default, as `largest_place`."""
    return largest_place(Bounded(-x.value, x.error, x.scale, x.axis), dim, keepdim)
