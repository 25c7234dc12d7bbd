"""Activations: one number in, one number out; and softmax."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from npu_assay.reference.golden.bounded import Bounded, GoldenError, monotone
from npu_assay.reference.golden.special import anything, beside_infinity


def abs_(x: Bounded) -> Bounded:
    """aten.abs.default: no steeper than 1."""
    return Bounded(x.value.abs(), x.error)


def neg(x: Bounded) -> Bounded:
    """aten.neg.default."""
    return Bounded(-x.value, x.error)


def relu(x: Bounded) -> Bounded:
    """The larger of x and 0."""
    return monotone(torch.relu, x)


def relu6(x: Bounded) -> Bounded:
    """aten.relu6.default."""
    return hardtanh(x, 0.0, 6.0)


def sigmoid(x: Bounded) -> Bounded:
    """aten.sigmoid.default."""
    return monotone(torch.sigmoid, x)


def tanh(x: Bounded) -> Bounded:
    """aten.tanh.default."""
    return monotone(torch.tanh, x)


def exp(x: Bounded) -> Bounded:
    """aten.exp.default."""
    return monotone(torch.exp, x)


def hardtanh(x: Bounded, min_val: float = -1.0, max_val: float = 1.0) -> Bounded:
    """aten.hardtanh.default."""
    return monotone(lambda t: torch.clamp(t, min_val, max_val), x)


def clamp(x: Bounded, min: float | None = None, max: float | None = None) -> Bounded:
    """aten.clamp.default with ATen's own argument names; None leaves that side open."""
    lowest = -math.inf if min is None else min
    highest = math.inf if max is None else max
    return monotone(lambda t: torch.clamp(t, lowest, highest), x)


def leaky_relu(x: Bounded, negative_slope: float = 0.01) -> Bounded:
    """aten.leaky_relu.default; a negative slope makes it fold, so its steepest slope bounds it."""
    if negative_slope >= 0:
        return monotone(lambda t: torch.where(t > 0, t, t * negative_slope), x)
    value = torch.where(x.value > 0, x.value, x.value * negative_slope)
    return Bounded(value, x.error if x.exact else x.error * max(1.0, -negative_slope))


def prelu(x: Bounded, weight: Bounded) -> Bounded:
    """aten.prelu.default: weight [1] or [C], along dim 1 of x.

    Raises GoldenError for a weight of another size.
    """
    count, rank = weight.value.numel(), x.value.dim()
    channels = x.value.shape[1] if rank > 1 else 1
    if count not in (1, channels):
        raise GoldenError(f"aten.prelu.default: found {count} slopes, expected 1 or {channels}")
    shape = [1, count, *[1] * (rank - 2)] if rank > 1 else [count] * rank
    slope = weight.value.reshape(shape)
    value = torch.where(x.value > 0, x.value, x.value * slope)
    if x.exact and weight.exact:
        return Bounded(value)
    slope_error = weight.error if weight.exact else weight.error.expand_as(weight.value).reshape(shape)
    negative = (x.error - x.value).clamp_min(0)  # how far below zero the input may be
    return Bounded(value, x.error * (slope.abs() + slope_error).clamp_min(1) + negative * slope_error)


def softmax(x: Bounded, dim: int, half_to_float: bool = False) -> Bounded:
    """aten._softmax.default.

    An output is largest when its own input is highest and all others are lowest, and the reverse. With
    odds o = sum of exp over the others / exp of its own, the output is 1 / (1 + o).
    """
    value = torch.softmax(x.value, dim)
    if x.exact:
        return anything(Bounded(value), beside_infinity(x.value, dim))
    highest = x.value.amax(dim, keepdim=True)
    low, high = ((x.value + side * x.error - highest).exp() for side in (-1, 1))
    upper = high / (high + _others(low, dim))
    lower = low / (low + _others(high, dim))
    return Bounded(value, torch.maximum(upper - value, value - lower))


def _others(terms: Tensor, dim: int) -> Tensor:
    """For each element the sum of all the others along `dim`."""
    return (terms.sum(dim, keepdim=True) - terms).clamp_min_(0)


def softmax_int(x: Bounded, dim: int, dtype: torch.dtype | None = None) -> Bounded:
    """aten.softmax.int."""
    return softmax(x, dim)
