"""Functions of real numbers beyond those of int8 devices: rounding, roots, logarithms, and what bends both ways."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.affine import float32
from npu_assay.reference.golden.aten import COPY, aten
from npu_assay.reference.golden.bounded import Bounded, as_bounded, monotone
from npu_assay.reference.golden.special import anything, at_minus_infinity

GELU_SLOPE = 1.13
"""The steepest slope of x * Phi(x) is 1.1289, at x = sqrt(2)."""

HARDSWISH_SLOPE = 1.5
"""The slope of x * (x + 3) / 6 at x = 3."""


def ceil(x: Bounded) -> Bounded:
    """aten.ceil.default."""
    return monotone(torch.ceil, x)


def floor(x: Bounded) -> Bounded:
    """aten.floor.default."""
    return monotone(torch.floor, x)


def sqrt(x: Bounded) -> Bounded:
    """aten.sqrt.default. NaN for negative numbers."""
    return _not_negative(torch.sqrt, x)


def rsqrt(x: Bounded) -> Bounded:
    """aten.rsqrt.default. An infinity for zeros, of their sign, and NaN below; unbounded where zero is possible."""
    return _not_negative(lambda t: torch.sqrt(t).reciprocal(), x)


def log(x: Bounded) -> Bounded:
    """aten.log.default. -inf for zeros and NaN below; unbounded where zero is possible."""
    return _not_negative(torch.log, x)


def _not_negative(function: Callable[[Tensor], Tensor], x: Bounded) -> Bounded:
    """A monotone function of numbers from 0 on, where bounds are cut off; anything where a negative one may be none."""
    value = function(x.value)
    if x.exact:
        return Bounded(value)
    ends = (function((x.value + side * x.error).clamp_min(0)) - value for side in (-1, 1))
    reach = torch.maximum(*(end.abs() for end in ends))
    negative = x.value < 0
    made = Bounded(value, torch.where(negative, 0.0, reach))
    return anything(made, negative & (x.value + x.error >= 0))


def elu(x: Bounded, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Bounded:
    """aten.elu.default: scale * x, or scale * alpha * (exp(input_scale * x) - 1) below zero."""

    def function(t: Tensor) -> Tensor:
        return torch.where(t > 0, t, alpha * torch.expm1(t.clamp_max(0) * input_scale)) * scale

    lowest = (x.value - x.error).clamp_max(0)
    below = abs(alpha * input_scale) * (input_scale * lowest).clamp_min(0).exp()  # which grows where that is negative
    steepest = abs(scale) * below.clamp_min(1.0)
    return _steep(function, x, steepest)


def gelu(x: Bounded, approximate: str = "none") -> Bounded:
    """aten.gelu.default, with erf or with tanh."""
    found = _steep(lambda t: torch.nn.functional.gelu(t, approximate=approximate), x, GELU_SLOPE)
    return anything(found, x.value.isinf())  # torch's own float32 kernel gives NaN for +inf, too


def hardswish(x: Bounded) -> Bounded:
    """aten.hardswish.default: x * clamp(x + 3, 0, 6) / 6."""
    found = _steep(lambda t: t * (t + 3).clamp(0, 6) / 6, x, HARDSWISH_SLOPE)
    return anything(found, at_minus_infinity(x.value))


ANGLE = 2.0**24
"""From here on the numbers of float32 are 2 apart: kernels reduce such an angle with what digits they have."""


def sin(x: Bounded) -> Bounded:
    """aten.sin.default; of finite angles from `ANGLE` on, anything."""
    return anything(_steep(torch.sin, x, 1.0), x.value.isfinite() & (x.magnitude >= ANGLE))


def cos(x: Bounded) -> Bounded:
    """aten.cos.default, as `sin`."""
    return anything(_steep(torch.cos, x, 1.0), x.value.isfinite() & (x.magnitude >= ANGLE))


def _steep(function: Callable[[Tensor], Tensor], x: Bounded, slope: float | Tensor) -> Bounded:
    """A function that is no steeper than `slope` anywhere."""
    return Bounded(function(x.value)) if x.exact else Bounded(function(x.value), x.error * slope)


def pow_(x: Bounded, exponent: float) -> Bounded:
    """aten.pow.Tensor_Scalar: monotone on either side of 0; 1 of everything, NaN too, for the exponent 0.

    A fraction has powers of numbers from 0 on alone. A negative exponent is unbounded where zero is possible. Of one
    half torch takes a power or a root, which differ for -inf, and where it is negative for -0.
    """
    result = _power(x, exponent)
    if abs(exponent) != 1 / 2:
        return result
    return anything(result, (x.value == -math.inf) | ((x.value == 0) & x.value.signbit() & (exponent < 0)))


def _power(x: Bounded, exponent: float) -> Bounded:
    value = torch.pow(x.value, exponent)
    if x.exact or exponent == 0:
        return Bounded(value)
    if math.isfinite(exponent) and exponent != int(exponent):
        return _not_negative(lambda t: torch.pow(t, exponent), x)
    ends = (torch.pow(x.value + side * x.error, exponent) - value for side in (-1, 1))
    reach = torch.maximum(*(end.abs() for end in ends))
    around = (x.value.abs() <= x.error) & (x.error > 0)
    at_zero = torch.where(around, value.abs() if exponent > 0 else math.inf, 0.0)
    return Bounded(value, torch.maximum(reach.nan_to_num(0.0, math.inf), at_zero))


def maximum(a: Any, b: Any) -> Bounded:
    """aten.maximum.default, with broadcasting."""
    return _extreme(torch.maximum, a, b)


def minimum(a: Any, b: Any) -> Bounded:
    """aten.minimum.default, with broadcasting."""
    return _extreme(torch.minimum, a, b)


def _extreme(function: Callable[[Tensor, Tensor], Tensor], a: Any, b: Any) -> Bounded:
    """The bound of one of two numbers is the larger of their bounds."""
    a, b = as_bounded(a), as_bounded(b)
    value = function(a.value, b.value)
    if a.exact and b.exact:
        return Bounded(value)
    return Bounded(value, torch.maximum(a.error, b.error))


def quantize(x: Bounded, scale: float, zero_point: int, low: int, high: int, dtype: Any = None) -> Bounded:
    """quantized_decomposed.quantize_per_tensor.default: the code, as a number, with the scale as float32.

    IEEE 754 leaves open what a conversion to integers makes of NaN (5.8), and so does torch.
    """

    def code(t: Tensor) -> Tensor:
        return (t / float32(scale)).round_().add_(zero_point).clamp_(low, high)

    result = monotone(code, x)
    return anything(result, result.value.isnan())


def dequantize(
    x: Bounded, scale: float, zero_point: int, low: int = 0, high: int = 0, dtype: Any = None, *, out_dtype: Any = None
) -> Bounded:
    """quantized_decomposed.dequantize_per_tensor.default, with the scale as float32."""
    step = float32(scale)
    return Bounded((x.value - zero_point) * step, x.error if x.exact else x.error * abs(step))


def copied(x: Bounded, **options: Any) -> Bounded:
    """dim_order_ops._to_dim_order_copy.default: the same numbers; a smaller type's rounding is `run_float`'s."""
    aten(COPY)(x.value, dim_order=options.get("dim_order"))
    return x
