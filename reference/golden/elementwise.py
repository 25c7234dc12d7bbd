"""Sums, differences, products and quotients, element by element.

For y = a * b with errors da, db the bound is da * (|b| + db) + |a| * db: the same operator, run on errors and
absolute values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden.bounded import ZERO, Bounded, as_bounded
from npu_assay.reference.golden.special import anything


def product_error(product: Callable[[Tensor, Tensor], Tensor], a: Bounded, b: Bounded) -> Tensor:
    """The bound of a bilinear operator without negative coefficients of its own."""
    if a.exact and b.exact:
        return ZERO
    error = ZERO
    if not a.exact:
        error = product(a.spread().contiguous(), b.magnitude)
    return error if b.exact else error + product(a.value.abs(), b.spread().contiguous())


def plus(error: Tensor, other: Tensor, factor: float = 1.0) -> Tensor:
    """Adds bounds, and keeps `ZERO` when both are exact."""
    if other is ZERO or factor == 0:
        return error
    scaled = other if factor == 1 else other * abs(factor)
    return scaled if error is ZERO else error + scaled


def add(a: Any, b: Any, alpha: float = 1) -> Bounded:
    """aten.add.Tensor and .Scalar: a + alpha * b, with broadcasting."""
    a, b = as_bounded(a), as_bounded(b)
    return Bounded(torch.add(a.value, b.value, alpha=alpha), plus(a.error, b.error, alpha))


def sub(a: Any, b: Any, alpha: float = 1) -> Bounded:
    """aten.sub.Tensor and .Scalar: a - alpha * b, with broadcasting."""
    return add(a, b, alpha=-alpha)


def mul(a: Any, b: Any) -> Bounded:
    """aten.mul.Tensor, with broadcasting."""
    a, b = as_bounded(a), as_bounded(b)
    return Bounded(a.value * b.value, product_error(torch.mul, a, b))


def div(a: Any, b: Any) -> Bounded:
    """aten.div.Tensor. An infinity where a zero divides a number; anything where it may divide a zero.

    The bound is infinite where the divisor's bounds include zero.
    """
    a, b = as_bounded(a), as_bounded(b)
    value = a.value / b.value
    if a.exact and b.exact:
        return Bounded(value)
    zero = b.value == 0
    if b.exact and not bool(zero.any()):
        return Bounded(value, a.error / b.value.abs())
    least = (b.value.abs() - b.error).clamp_min_(0)
    numerator = a.error * b.value.abs() + a.value.abs() * b.error
    error = (numerator / (least * b.value.abs())).nan_to_num_(nan=torch.inf, posinf=torch.inf)
    known = zero & (b.error == 0) & (a.value.abs() > a.error)
    open_ = (b.value.abs() <= b.error) & (a.value.abs() <= a.error)
    return anything(Bounded(value, torch.where(known, 0.0, error)), open_)
