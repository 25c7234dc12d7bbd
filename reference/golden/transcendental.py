"""Functions of one real number that only some devices compute, from tables: error and hyperbolic functions, their kin.

Bounds are rigorous: between stationary points a function is monotone, elsewhere its steepest slope bounds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from npu_assay.reference.golden.bounded import Bounded, GoldenError, monotone
from npu_assay.reference.golden.functions import elu, pow_
from npu_assay.reference.golden.special import anything, at_minus_infinity

SILU_SLOPE = 1.1
"""The steepest slope of x * sigmoid(x) is 1.0998, at x = 2.3994."""

Function = Callable[[Bounded], Bounded]


def rising(function: Callable[[Tensor], Tensor], low: float = -math.inf, high: float = math.inf) -> Function:
    """A function that is monotone within [low, high], and NaN, or an infinity, of numbers outside.

    Bounds that reach outside are cut off there; anything is right for a number outside that may be inside.
    """

    def run(x: Bounded) -> Bounded:
        if x.exact:
            return Bounded(function(x.value))
        inside = monotone(lambda t: function(t.clamp(low, high)), x)
        below, above = x.value < low, x.value > high
        open_ = (below & (x.value + x.error >= low)) | (above & (x.value - x.error <= high))
        made = torch.where(below | above, function(x.value), inside.value)
        return anything(Bounded(made, torch.where(below | above, 0.0, inside.error)), open_)

    return run


_TINY = math.ulp(0.0)
acos = rising(torch.acos, -1, 1)
acosh = rising(torch.acosh, 1)
asin = rising(torch.asin, -1, 1)
asinh = rising(torch.asinh)
atan = rising(torch.atan)
atanh = rising(torch.atanh, -1, 1)
erf = rising(torch.erf)
erfinv = rising(torch.erfinv, -1, 1)
expm1 = rising(torch.expm1)
log10 = rising(torch.log10, _TINY)
log1p = rising(torch.log1p, -1)
sinh = rising(torch.sinh)


def cosh(x: Bounded) -> Bounded:
    """aten.cosh.default: monotone in |x|."""
    return monotone(torch.cosh, Bounded(x.value.abs(), x.error))


def reciprocal(x: Bounded) -> Bounded:
    """aten.reciprocal.default: unbounded where the bounds reach zero."""
    value = x.value.reciprocal()
    if x.exact:
        return Bounded(value)
    least = x.value.abs() - x.error
    return Bounded(value, torch.where(least > 0, x.error / (x.value.abs() * least), math.inf))


def tan(x: Bounded) -> Bounded:
    """aten.tan.default: unbounded where a pole is within the bounds."""
    value = torch.tan(x.value)
    if x.exact:
        return Bounded(value)
    low, high = x.value - x.error, x.value + x.error
    branch = [torch.floor(t / math.pi + 0.5) for t in (low, high)]
    reach = torch.maximum(torch.tan(high) - value, value - torch.tan(low))
    return Bounded(value, torch.where(branch[0] == branch[1], reach, math.inf))


def silu(x: Bounded) -> Bounded:
    """aten.silu.default: x * sigmoid(x)."""
    value = x.value * torch.sigmoid(x.value)
    made = Bounded(value) if x.exact else Bounded(value, x.error * SILU_SLOPE)
    return anything(made, at_minus_infinity(x.value))


def remainder(x: Bounded, other: float) -> Bounded:
    """aten.remainder.Scalar: as steep as x, but any number of its range where the bounds reach over a multiple.

    It leaves open what float32 has no quotient for, or a subnormal divisor: torch's kernels say NaN or a number.
    """
    result = Bounded(torch.remainder(x.value, other))
    if not x.exact:
        turns = [torch.floor((x.value + side * x.error) / other) for side in (-1, 1)]
        result = Bounded(result.value, torch.where(turns[0] == turns[1], x.error, abs(other)))
    smallest, largest = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max
    return anything(result, ((x.value / other).abs() > largest) | (abs(other) < smallest))


def hardsigmoid(x: Bounded) -> Bounded:
    """aten.hardsigmoid.default: clamp(x + 3, 0, 6) / 6."""
    return monotone(lambda t: (t + 3).clamp(0, 6) / 6, x)


def round_(x: Bounded) -> Bounded:
    """aten.round.default: ties to even."""
    return monotone(torch.round, x)


def sign(x: Bounded) -> Bounded:
    """aten.sign.default, which leaves open what NaN is: torch's kernels say 0, numpy's and ONNX's NaN."""
    return anything(monotone(torch.sign, x), x.value.isnan())


def selu(x: Bounded) -> Bounded:
    """aten.selu.default: an elu with constants of its own."""
    return elu(x, 1.6732632423543772, 1.0507009873554805)


def celu(x: Bounded, alpha: float = 1.0) -> Bounded:
    """aten.celu.default: x, or alpha * (exp(x / alpha) - 1) below zero."""
    return elu(x, alpha, 1, 1 / alpha)


def power(x: Bounded, exponent: Bounded) -> Bounded:
    """aten.pow.Tensor_Tensor, with an exponent of one element: as steep in it as the result times log |x|."""
    result = pow_(_beside(x, exponent), _number(exponent, "aten.pow.Tensor_Tensor"))
    if exponent.exact:
        return result
    return Bounded(result.value, result.error + exponent.error * result.magnitude * x.magnitude.log().abs())


def remainder_tensor(x: Bounded, other: Bounded) -> Bounded:
    """aten.remainder.Tensor, with a divisor of one element: off by its error as often as it is taken off."""
    x, divisor = _beside(x, other), _number(other, "aten.remainder.Tensor")
    if other.exact:
        return remainder(x, divisor)
    taken = torch.floor(x.value / divisor).abs() * other.error
    return remainder(Bounded(x.value, x.error + taken), divisor)


def _beside(x: Bounded, number: Bounded) -> Bounded:
    """A tensor in the shape that a number of more dimensions gives it."""
    return replace(x, value=x.value.expand_as(x.value + number.value))


def _number(x: Bounded, op: str) -> float:
    if x.value.numel() != 1:
        raise GoldenError(f"{op}: found {x.value.numel()} elements, expected one number")
    return float(x.value)
