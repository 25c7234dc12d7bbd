"""Normalizations: numbers less their mean, divided by their deviation.

With a number off by e and the mean by m, the distance d from the mean is off by c = e + m. The deviation
s = sqrt(mean(d**2) + eps) is a norm of the distances and sqrt(eps), so it is off by at most sqrt(mean(c**2)) = t.
Then d / s is off by at most (c + |d| / s * t) / (s - t).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden.bounded import Bounded, GoldenError
from npu_assay.reference.golden.elementwise import add, div, mul, sub
from npu_assay.reference.golden.special import anything


def _normalised(x: Bounded, dims: Sequence[int], eps: float) -> Bounded:
    away = x.value - x.value.mean(tuple(dims), keepdim=True)
    deviation = ((away**2).mean(tuple(dims), keepdim=True) + eps).sqrt()
    value = away / deviation
    if x.exact:
        return Bounded(value)
    off = x.spread() + x.spread().mean(tuple(dims), keepdim=True)
    moved = (off**2).mean(tuple(dims), keepdim=True).sqrt()
    least = torch.maximum(deviation - moved, torch.tensor(sqrt(eps), dtype=torch.float64))
    return Bounded(value, (off + value.abs() * moved) / least)


def _scaled(x: Bounded, weight: Any, bias: Any) -> Bounded:
    """Times a weight, plus a bias, where there are any."""
    scaled = x if weight is None else mul(x, weight)
    return scaled if bias is None else add(scaled, bias)


def _along(x: Any, rank: int) -> Any:
    """One number per channel, to broadcast along axis 1 of a tensor of that rank."""
    if x is None:
        return None
    shape = (-1, *[1] * (rank - 2))
    return Bounded(x.value.reshape(shape), x.error if x.exact else x.spread().reshape(shape))


def layer_norm(x: Bounded, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Bounded:
    """aten.native_layer_norm.default: over the last axes; the first result."""
    dims = range(x.value.dim() - len(normalized_shape), x.value.dim())
    return _scaled(_normalised(x, dims, eps), weight, bias)


def group_norm(x: Bounded, weight: Any, bias: Any, n: int, c: int, hxw: int, group: int, eps: float) -> Bounded:
    """aten.native_group_norm.default: over each group of channels; the first result."""

    def grouped(t: Tensor) -> Tensor:
        return t.reshape(n, group, -1)

    parts = Bounded(grouped(x.value), x.error if x.exact else grouped(x.spread()))
    made = _normalised(parts, (2,), eps)
    shape = x.value.shape
    whole = Bounded(made.value.reshape(shape), made.error if made.exact else made.error.reshape(shape))
    return _scaled(whole, _along(weight, len(shape)), _along(bias, len(shape)))


def batch_norm(x: Bounded, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float) -> Bounded:
    """aten._native_batch_norm_legit_no_training.default: by means and variances that are given; the first result.

    Anything where that is not finite: scale and shift may be made one factor and one term first. Raises GoldenError for
    another number of means than of channels, which torch takes.
    """
    rank = x.value.dim()
    if mean.value.numel() != x.value.shape[1]:
        raise GoldenError(f"batch norm: found {mean.value.numel()} means, expected {x.value.shape[1]}")
    mean, var = _along(mean, rank), _along(var, rank)
    deviation = (var.value + eps).sqrt()
    if var.exact:
        divisor = Bounded(deviation)
    else:
        least = (var.value - var.error + eps).clamp_min(0).sqrt()
        divisor = Bounded(deviation, deviation - least)  # a root rises more slowly than it falls
    made = _scaled(div(sub(x, mean), divisor), _along(weight, rank), _along(bias, rank))
    return anything(made, ~made.value.isfinite())


def instance_norm(x: Bounded, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> Bounded:
    """aten._native_batch_norm_legit.no_stats: by each channel's own mean and variance; the first result."""
    rank = x.value.dim()
    made = _normalised(x, [axis for axis in range(rank) if axis != 1], eps)
    return _scaled(made, _along(weight, rank), _along(bias, rank))
