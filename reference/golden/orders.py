"""Operators that take numbers by their size: what they give rises with every number that they are given.

The largest result within bounds is that of the largest operands, the smallest that of the smallest. Indices are left
out: which of several equal numbers is taken is nobody's promise.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from npu_assay.reference.golden.bounded import Bounded


def _rising(function: Callable[[Tensor], Tensor], x: Bounded) -> Bounded:
    value = function(x.value)
    if x.exact:
        return Bounded(value)
    above = function(x.value + x.error) - value
    return Bounded(value, torch.maximum(above, value - function(x.value - x.error)))


def sort(x: Bounded, dim: int = -1, descending: bool = False) -> Bounded:
    """aten.sort.default: the values."""
    return _rising(lambda t: torch.sort(t, dim, descending).values, x)


def topk(x: Bounded, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Bounded:
    """aten.topk.default: the values, in order."""
    return _rising(lambda t: torch.topk(t, k, dim, largest, sorted).values, x)


def largest(x: Bounded, dim: int, keepdim: bool = False) -> Bounded:
    """aten.max.dim: the values."""
    return _rising(lambda t: torch.amax(t, dim, keepdim), x)


def smallest(x: Bounded, dim: int, keepdim: bool = False) -> Bounded:
    """aten.min.dim: the values."""
    return _rising(lambda t: torch.amin(t, dim, keepdim), x)
