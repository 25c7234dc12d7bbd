"""Functions of one or two real numbers that bend, jump or repeat; each with how far an error may carry them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden.bounded import Bounded, GoldenError, as_bounded, monotone
from npu_assay.reference.golden.elementwise import sub
from npu_assay.reference.golden.selection import quotient
from npu_assay.reference.golden.special import anything, at_minus_infinity
from npu_assay.reference.golden.transcendental import rising

MISH_SLOPE = 1.09
"""The steepest slope of x * tanh(log(1 + exp(x))) is 1.0885, at x = 1.4906."""

log2 = rising(torch.log2, math.ulp(0.0))


def trunc(x: Bounded) -> Bounded:
    """aten.trunc.default: towards zero."""
    return monotone(torch.trunc, x)


def hardshrink(x: Bounded, lambd: float = 0.5) -> Bounded:
    """aten.hardshrink.default: 0 within lambd of 0; where the bounds reach over that, 0 or the number."""
    value = torch.where(x.value.abs() > lambd, x.value, 0.0)
    if x.exact:
        return Bounded(value)
    least, most = x.value.abs() - x.error, x.magnitude
    error = torch.where(least > lambd, x.spread(), torch.where(most <= lambd, 0.0, most))
    return Bounded(value, error)


def softshrink(x: Bounded, lambd: float = 0.5) -> Bounded:
    """aten.softshrink.default: the number less lambd of its size, or 0."""
    value = x.value - x.value.clamp(-lambd, lambd)
    return Bounded(value) if x.exact else Bounded(value, x.spread())


def softplus(x: Bounded, beta: float = 1, threshold: float = 20) -> Bounded:
    """aten.softplus.default: log(1 + exp(beta * x)) / beta; x itself from the threshold on."""
    value = torch.ops.aten.softplus(x.value, beta, threshold)
    return Bounded(value) if x.exact else Bounded(value, x.error + math.exp(-threshold) / abs(beta))


def mish(x: Bounded) -> Bounded:
    """aten.mish.default: x * tanh(log(1 + exp(x)))."""
    value = x.value * torch.tanh(torch.log1p(torch.exp(x.value.clamp_max(700.0))))
    made = Bounded(value) if x.exact else Bounded(value, x.error * MISH_SLOPE)
    return anything(made, at_minus_infinity(x.value))


def logit(x: Bounded, eps: float | None = None) -> Bounded:
    """aten.logit.default: log(x / (1 - x)) of numbers between 0 and 1, cut off at eps and 1 - eps."""
    low, high = (math.ulp(0.0), 1 - 2.0**-53) if eps is None else (-math.inf, math.inf)
    return rising(lambda t: torch.logit(t, eps), low, high)(x)


def power_of(base: float, x: Bounded) -> Bounded:
    """aten.pow.Scalar: a positive number to the power of each element. Raises GoldenError for any other."""
    if base <= 0:
        raise GoldenError(f"aten.pow.Scalar: found {base}, expected a number above 0")
    return monotone(lambda t: torch.pow(base, t), x)


def fmod(x: Bounded, other: Any) -> Bounded:
    """aten.fmod.Scalar and .Tensor: what is left of x, with its sign; any such number next to a multiple."""
    divisor = as_bounded(other)
    value = torch.fmod(x.value, divisor.value)
    if x.exact and divisor.exact:
        return Bounded(value)
    least, most = divisor.value.abs() - divisor.error, divisor.magnitude
    corners = [(x.value.abs() + side * x.error).clamp_min(0) for side in (-1, 1)]
    turns = torch.floor(corners[1] / least)
    same = (least > 0) & (torch.floor(corners[0] / most) == turns)
    near = x.error + turns * divisor.error
    return Bounded(value, torch.where(same, near, 2 * most).expand_as(value))


def atan2(y: Bounded, x: Bounded) -> Bounded:
    """aten.atan2.default: the angle of (x, y); any angle where the bounds reach the origin or the branch cut."""
    value = torch.atan2(y.value, x.value)
    if y.exact and x.exact:
        return Bounded(value)
    reach, radius = torch.hypot(y.error, x.error), torch.hypot(y.value, x.value)
    cut = (y.value.abs() <= y.error) & (x.value - x.error <= 0)
    turned = torch.asin((reach / radius).nan_to_num(nan=1.0).clamp_max(1.0))
    return Bounded(value, torch.where((radius > reach) & ~cut, turned, 2 * math.pi).expand_as(value))


def floor_divide(x: Bounded, other: Any) -> Bounded:
    """aten.floor_divide.default: the quotient, rounded down."""
    return quotient(x, other, rounding_mode="floor")


def taken_from(x: Bounded, other: Any, alpha: float = 1) -> Bounded:
    """aten.rsub.Scalar: other - alpha * x."""
    return sub(other, x, alpha=alpha)


def not_finite(function: Any) -> Any:
    """aten.isinf.default, aten.isnan.default: numbers within finite bounds are neither."""

    def run(x: Bounded) -> Bounded:
        value: Tensor = function(x.value).to(torch.float64)
        return Bounded(value) if x.exact else Bounded(value, (~torch.isfinite(x.magnitude)).to(torch.float64))

    return run


isinf, isnan = not_finite(torch.isinf), not_finite(torch.isnan)
