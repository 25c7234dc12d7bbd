"""Operators that take numbers by their size: what they give rises with every number that they are given.

The largest result within bounds is that of the largest operands, the smallest that of the smallest. An index is exact
where no other number may be as large: which of several equal ones is taken is nobody's promise, but for the largest and
the smallest of all, of which torch takes the first.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from npu_assay.reference.golden.bounded import Bounded
from npu_assay.reference.golden.scatter import largest_place, smallest_place


def _rising(function: Callable[[Tensor], Tensor], x: Bounded) -> Bounded:
    value = function(x.value)
    if x.exact:
        return Bounded(value)
    above = function(x.value + x.error) - value
    return Bounded(value, torch.maximum(above, value - function(x.value - x.error)))


def _sorted_indices(x: Bounded, dim: int, descending: bool) -> Bounded:
    """The indices of a sort; unbounded for numbers that may change places."""
    if not x.value.dim():
        return Bounded(torch.zeros_like(x.value))
    value, index = torch.sort(x.value, dim)
    spread = x.spread().gather(dim, index)
    low, high = value - spread, value + spread
    below, above = _shifted(high.cummax(dim).values, dim, -torch.inf), low.flip(dim).cummin(dim).values
    above = _shifted(above, dim, torch.inf).flip(dim)
    open_ = ~((below < low) & (high < above))  # true for NaN
    found = index.double(), torch.where(open_, torch.inf, 0.0)
    return Bounded(*(each.flip(dim) for each in found) if descending else found)


def _shifted(x: Tensor, dim: int, first: float) -> Tensor:
    """Each number at the place after its own, and `first` at the first."""
    start = torch.full_like(x.narrow(dim, 0, min(1, x.shape[dim])), first)
    return torch.cat([start, x.narrow(dim, 0, max(x.shape[dim] - 1, 0))], dim)


def sort(x: Bounded, dim: int = -1, descending: bool = False) -> tuple[Bounded, Bounded]:
    """aten.sort.default."""
    return _rising(lambda t: torch.sort(t, dim, descending).values, x), _sorted_indices(x, dim, descending)


def topk(x: Bounded, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Bounded, Bounded]:
    """aten.topk.default, in order."""
    value = _rising(lambda t: torch.topk(t, k, dim, largest, sorted).values, x)
    indices = _sorted_indices(x, dim, largest)
    if not x.value.dim():
        return value, indices
    return value, Bounded(indices.value.narrow(dim, 0, k), indices.error.narrow(dim, 0, k))


def largest(x: Bounded, dim: int, keepdim: bool = False) -> tuple[Bounded, Bounded]:
    """aten.max.dim."""
    return _rising(lambda t: torch.amax(t, dim, keepdim), x), largest_place(x, dim, keepdim)


def smallest(x: Bounded, dim: int, keepdim: bool = False) -> tuple[Bounded, Bounded]:
    """aten.min.dim."""
    return _rising(lambda t: torch.amin(t, dim, keepdim), x), smallest_place(x, dim, keepdim)
