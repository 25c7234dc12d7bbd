"""Sums, products, spreads and distances over whole axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden.bounded import Bounded

Dims = int | Sequence[int] | None


def _dims(x: Bounded, dim: Dims) -> list[int]:
    """The axes, all of them where none is named."""
    if dim is None or (not isinstance(dim, int) and not list(dim)):
        return list(range(x.value.dim()))
    return [dim] if isinstance(dim, int) else list(dim)


def product(x: Bounded, *, dtype: Any = None) -> Bounded:
    """aten.prod.default: off by at most the product of the largest sizes less that of the sizes."""
    flat = Bounded(x.value.flatten(), x.error if x.exact else x.spread().flatten())
    return product_along(flat, 0)


def product_along(x: Bounded, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Bounded:
    """aten.prod.dim_int."""
    value = x.value.prod(dim, keepdim)
    return Bounded(value) if x.exact else Bounded(value, x.magnitude.prod(dim, keepdim) - value.abs())


def variance(x: Bounded, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Bounded:
    """aten.var.correction: the mean of squared distances from the mean, of n - correction.

    With a number off by e and the mean by m, a distance d is off by c = e + m, its square by 2 * |d| * c + c**2.
    """
    dims = _dims(x, dim)
    count = 1
    for axis in dims:
        count *= x.value.shape[axis]
    rest = max(0.0, count - (1.0 if correction is None else float(correction)))
    away = x.value - x.value.mean(dims, keepdim=True)
    value = (away**2).sum(dims, keepdim) / rest
    if x.exact:
        return Bounded(value)
    off = x.spread() + x.spread().mean(dims, keepdim=True)
    return Bounded(value, (2 * away.abs() * off + off**2).sum(dims, keepdim) / rest)


def variance_unbiased(x: Bounded, dim: Dims = None, unbiased: bool = True, keepdim: bool = False) -> Bounded:
    """aten.var.dim."""
    return variance(x, dim, correction=1.0 if unbiased else 0.0, keepdim=keepdim)


def norm(x: Bounded, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Bounded:
    """aten.linalg_vector_norm.default, ord 1 or more: off by no more than the norm of the errors."""
    dims = _dims(x, dim)
    value = torch.linalg.vector_norm(x.value, ord, dims, keepdim)
    return Bounded(value) if x.exact else Bounded(value, torch.linalg.vector_norm(x.spread(), ord, dims, keepdim))


def distances(a: Bounded, b: Bounded, p: float = 2.0, compute_mode: int | None = None) -> Bounded:
    """aten._cdist_forward.default: the norm of each row's difference from each of the other's rows, p of 1 or more."""

    def pairs(x: Tensor, y: Tensor) -> Tensor:
        found: Tensor = torch.linalg.vector_norm(x.unsqueeze(-2) + y.unsqueeze(-3), p, -1)
        return found

    value = pairs(a.value, -b.value)
    if a.exact and b.exact:
        return Bounded(value)
    return Bounded(value, pairs(a.spread(), b.spread()))


def distances_within(x: Bounded, p: float = 2.0) -> Bounded:
    """aten._pdist_forward.default: of each row from each later one."""
    pairs = distances(x, x, p)
    first, second = torch.ones_like(pairs.value).triu(1).nonzero(as_tuple=True)
    value = pairs.value[first, second]
    return Bounded(value) if pairs.exact else Bounded(value, pairs.error[first, second])


def log_softmax(x: Bounded, dim: int, half_to_float: bool = False) -> Bounded:
    """aten._log_softmax.default: a number less the logarithm of a sum, off by no more than the largest error."""
    value = torch.log_softmax(x.value, dim)
    return Bounded(value) if x.exact else Bounded(value, x.error + x.spread().amax(dim, keepdim=True))
