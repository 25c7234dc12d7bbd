"""Operators that put numbers into places of a tensor, or take them from places between others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden.aten import aten
from npu_assay.reference.golden.bounded import Bounded, operands


def _at(index: Bounded) -> Tensor:
    return index.value.to(torch.int64)


def _put(op: str, x: Bounded, src: Any, *rest: Any) -> Bounded:
    """The operator on the numbers and on their errors; a number that is put there has none."""
    function = aten(op)
    number = not isinstance(src, Bounded)
    value = function(x.value, *rest, src if number else src.value)
    if all(each.exact for each in operands((x, src))):
        return Bounded(value)
    return Bounded(value, function(x.spread().contiguous(), *rest, 0.0 if number else src.spread().contiguous()))


def scatter_value(x: Bounded, dim: int, index: Bounded, value: float) -> Bounded:
    """aten.scatter.value."""
    return _put("aten.scatter.value", x, value, dim, _at(index))


def scatter_src(x: Bounded, dim: int, index: Bounded, src: Bounded) -> Bounded:
    """aten.scatter.src: each place once, or which number stays is nobody's promise."""
    return _put("aten.scatter.src", x, src, dim, _at(index))


def scatter_add(x: Bounded, dim: int, index: Bounded, src: Bounded) -> Bounded:
    """aten.scatter_add.default."""
    return _put("aten.scatter_add.default", x, src, dim, _at(index))


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


def select_scatter(x: Bounded, src: Bounded, dim: int, index: int) -> Bounded:
    """aten.select_scatter.default."""
    return _within("aten.select_scatter.default", x, src, dim, index)


def slice_scatter(
    x: Bounded, src: Bounded, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Bounded:
    """aten.slice_scatter.default."""
    return _within("aten.slice_scatter.default", x, src, dim, start, end, step)


def _within(op: str, x: Bounded, src: Bounded, *rest: Any) -> Bounded:
    function = aten(op)
    value = function(x.value, src.value, *rest)
    if x.exact and src.exact:
        return Bounded(value)
    return Bounded(value, function(x.spread().contiguous(), src.spread().contiguous(), *rest))


def masked_scatter(x: Bounded, mask: Bounded, source: Bounded) -> Bounded:
    """aten.masked_scatter.default: the source's numbers one after another where the mask is true."""
    chosen = mask.value != 0
    value = torch.masked_scatter(x.value, chosen, source.value)
    if x.exact and source.exact:
        return Bounded(value)
    return Bounded(value, torch.masked_scatter(x.spread().contiguous(), chosen, source.spread().contiguous()))


def stacked(tensors: Sequence[Bounded], dim: int = 0) -> Bounded:
    """aten.stack.default."""
    value = torch.stack([x.value for x in tensors], dim)
    if all(x.exact for x in tensors):
        return Bounded(value)
    return Bounded(value, torch.stack([x.spread() for x in tensors], dim))


def filled(x: Bounded, value: float) -> Bounded:
    """aten.fill.Scalar: nothing of x is left."""
    return Bounded(torch.full_like(x.value, float(value)))


def ones_like(x: Bounded, **options: Any) -> Bounded:
    """aten.ones_like.default."""
    return Bounded(torch.ones_like(x.value))


def zeros_like(x: Bounded, **options: Any) -> Bounded:
    """aten.zeros_like.default."""
    return Bounded(torch.zeros_like(x.value))


def rows_together(weight: Bounded, indices: Bounded, offsets: Bounded, *rest: Any, **options: Any) -> Bounded:
    """aten._embedding_bag.default: the sum, mean or largest of some rows; the first result."""
    function = aten("aten._embedding_bag.default")
    places = (_at(indices), _at(offsets))
    value = function(weight.value, *places, *rest, **options)[0]
    if weight.exact:
        return Bounded(value)
    return Bounded(value, function(weight.spread().contiguous(), *places, *rest, **options)[0])


def smallest_place(x: Bounded, dim: int | None = None, keepdim: bool = False) -> Bounded:
    """aten.argmin.default: of equal numbers the first, as torch says; unbounded where a number is off."""
    value = torch.argmin(x.value, dim, keepdim).to(torch.float64)
    return Bounded(value) if x.exact else Bounded(value, torch.full_like(value, math.inf))
