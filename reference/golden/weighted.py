"""Operators that average or move numbers, and say so in more than torch's own way: what is special of each.

With coefficients that are not negative, the bound of sum c_i * x_i is sum c_i * dx_i; the bound of a
maximum is the maximum of the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden.aten import aten
from npu_assay.reference.golden.bounded import Bounded
from npu_assay.reference.golden.special import anything, between_infinities
from npu_assay.reference.operators.home import ByName


def _on_both(function: Callable[..., Tensor], x: Bounded, *rest: Any) -> Bounded:
    """A function on the values and, unless they are exact, on the errors."""
    value = function(x.value, *rest)
    return Bounded(value) if x.exact else Bounded(value, function(x.spread().contiguous(), *rest))


def mean(x: Bounded, dim: Any, keepdim: bool = False, dtype: Any = None) -> Bounded:
    """aten.mean.dim; the dtype changes nothing in float64."""
    return _on_both(aten("aten.mean.dim"), x, dim, keepdim)


def strided(x: Bounded, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Bounded:
    """aten.as_strided_copy.default: strides are those of numbers that lie one after the other."""
    dense = Bounded(x.value.contiguous(), x.error)
    return _on_both(aten("aten.as_strided_copy.default"), dense, list(size), list(stride), storage_offset)


def bilinear(x: Bounded, *rest: Any, **options: Any) -> Bounded:
    """aten.upsample_bilinear2d.vec, which leaves open what is made of infinities."""

    def resized(image: Tensor) -> Tensor:
        found: Tensor = aten("aten.upsample_bilinear2d.vec")(image, *rest, **options)
        return found

    value = resized(x.value)
    if not x.exact:
        return Bounded(value, resized(x.spread().contiguous()))
    if bool(x.value.isfinite().all()):
        return Bounded(value)
    nan = resized(x.value.isnan().to(torch.float64))
    return anything(Bounded(value), between_infinities(nan, value) | _of_weight_zero(x.value, resized))


WHOLE = 2.0**-12
"""How far from a whole position float32 may still find the pixel there alone."""


def _of_weight_zero(x: Tensor, resized: Callable[[Tensor], Tensor]) -> Tensor:
    """Where a pixel of weight 0, beside a whole position, is no number: a copy leaves it out, 0 times it is NaN."""
    beside = resized(torch.max_pool2d((~x.isfinite()).to(x.dtype), 3, 1, 1)) > 0
    rows, columns = x.shape[-2:]
    down = resized(torch.arange(rows, dtype=x.dtype).reshape(1, 1, -1, 1).expand(1, 1, rows, columns).contiguous())
    along = resized(torch.arange(columns, dtype=x.dtype).expand(1, 1, rows, columns).contiguous())
    found: Tensor = beside & ((_from_whole(down) < WHOLE) | (_from_whole(along) < WHOLE))
    return found


def _from_whole(positions: Tensor) -> Tensor:
    return (positions - positions.round()).abs()


def padded(x: Bounded, pad: Sequence[int], value: float = 0) -> Bounded:
    """aten.constant_pad_nd.default: the constant itself is exact."""
    number = torch.constant_pad_nd(x.value, list(pad), value)
    return Bounded(number) if x.exact else Bounded(number, torch.constant_pad_nd(x.spread(), list(pad), 0.0))


@ByName
def max_pool_with_indices(op: str) -> Callable[..., tuple[Bounded, Bounded]]:
    """A max pool and its indices: an index is exact when x is, and else unbounded."""
    function = aten(op)

    def pool(x: Bounded, *rest: Any, **options: Any) -> tuple[Bounded, Bounded]:
        value, index = function(x.value, *rest, **options)
        if x.exact:
            return Bounded(value), Bounded(index.to(torch.float64))
        error, _ = function(x.spread().contiguous(), *rest, **options)
        return Bounded(value, error), Bounded(index.to(torch.float64), torch.full_like(error, torch.inf))

    return pool
