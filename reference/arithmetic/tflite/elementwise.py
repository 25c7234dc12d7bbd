"""Element-wise operators: reference/integer_ops/{add,mul}.h, kernels/{sub,elementwise,activations,exp,quantize}.cc."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from npu_assay.reference.affine import Affine, float32
from npu_assay.reference.arithmetic.tflite.rounding import (
    centred,
    half_away,
    multiplier_and_shift,
    narrowed,
    rescaled,
)

BEYOND = 2.0**20
"""Steps that saturate, whatever the zero point is."""
LEFT_SHIFT = 20
"""Fraction bits of the grid on which ADD and SUB meet."""


def add(p: Tensor, q: Tensor, a: Affine, b: Affine, y: Affine) -> Tensor:
    """p + q. Raises ValueError where LiteRT aborts: 2 * max(sa, sb) >= 2**20 * sy."""
    return _sum(p, q, a, b, y, 1)


def sub(p: Tensor, q: Tensor, a: Affine, b: Affine, y: Affine) -> Tensor:
    """p - q. Raises ValueError where LiteRT is undefined: 2 * max(sa, sb) >= 2**20 * sy."""
    return _sum(p, q, a, b, y, -1)


def _sum(p: Tensor, q: Tensor, a: Affine, b: Affine, y: Affine, sign: int) -> Tensor:
    """Both operands in steps of T = 2 * max(sa, sb), with 20 fraction bits; then their sum in steps of sy."""
    twice = float32(2 * max(a.scale32, b.scale32))
    ratio = twice / float32(2**LEFT_SHIFT * y.scale32)
    if ratio >= 1 or multiplier_and_shift(ratio)[1] > 0:
        raise ValueError(f"ADD, SUB: the output's ratio is {ratio!r}, expected less than 1")
    left = rescaled(centred(p, a) << LEFT_SHIFT, a.scale32 / twice)
    right = rescaled(centred(q, b) << LEFT_SHIFT, b.scale32 / twice)
    return narrowed(rescaled(left + sign * right, ratio), y)


def mul(p: Tensor, q: Tensor, a: Affine, b: Affine, y: Affine) -> Tensor:
    """p * q. The ratio sa * sb / sy is computed in float32."""
    ratio = float32(float32(a.scale32 * b.scale32) / y.scale32)
    return narrowed(rescaled(centred(p, a) * centred(q, b), ratio), y)


def abs_(codes: Tensor, x: Affine, y: Affine) -> Tensor:
    """|x|; rescaled only when the scales differ."""
    magnitude = centred(codes, x).abs()
    return narrowed(magnitude if x.scale32 == y.scale32 else rescaled(magnitude, float32(x.scale32 / y.scale32)), y)


def relu(codes: Tensor, lo: float | None, hi: float | None, x: Affine, y: Affine) -> Tensor:
    """min(max(x, lo), hi); None is no limit. A limit's code: float32 quotient by the scale, ties away from zero."""
    low = y.qmin if lo is None else max(y.qmin, y.zero_point + _steps(lo, y))
    high = y.qmax if hi is None else min(y.qmax, y.zero_point + _steps(hi, y))
    steps = rescaled(centred(codes, x), float32(x.scale32 / y.scale32))
    return (steps + y.zero_point).clamp(low, high).to(torch.int8)


def _steps(real: float, y: Affine) -> int:
    """Cut off at twice the range of int8, so that infinity is a limit."""
    quotient = float32(float32(real) / y.scale32)
    return int(half_away(torch.tensor(max(-512.0, min(512.0, quotient)), dtype=torch.float64)))


def requantize(codes: Tensor, x: Affine, y: Affine) -> Tensor:
    """QUANTIZE: the same reals in another quantization. The ratio is computed in float64."""
    return narrowed(rescaled(centred(codes, x), x.scale32 / y.scale32), y)


def leaky_relu(codes: Tensor, alpha: float, x: Affine, y: Affine) -> Tensor:
    """x, or alpha * x where x < 0. alpha and both ratios are float32; a negative alpha changes the result's sign."""
    value, slope = centred(codes, x), float32(float32(x.scale32 * float32(alpha)) / y.scale32)
    positive = rescaled(value, float32(x.scale32 / y.scale32))
    negative = rescaled(value, abs(slope)) * (-1 if slope < 0 else 1)
    return narrowed(torch.where(value >= 0, positive, negative), y)


def prelu(codes: Tensor, alpha: Tensor, a: Affine, x: Affine, y: Affine) -> Tensor:
    """x, or alpha * x where x < 0. alpha: codes that broadcast against x from the right."""
    value = centred(codes, x)
    positive = rescaled(value, float32(x.scale32 / y.scale32))
    negative = rescaled(value * centred(alpha, a), float32(float32(x.scale32 * a.scale32) / y.scale32))
    return narrowed(torch.where(value >= 0, positive, negative), y)


def logistic(codes: Tensor, x: Affine, y: Affine) -> Tensor:
    """1 / (1 + exp(-x)) in float32, of each function the nearest float32."""
    real = _reals(codes, x)
    with np.errstate(over="ignore"):
        power = np.exp(-real.astype(np.float64)).astype(np.float32)
    return _codes(np.float32(1) / (np.float32(1) + power), y)


def tanh(codes: Tensor, x: Affine, y: Affine) -> Tensor:
    """tanh(x) in float32, the nearest float32."""
    return _codes(np.tanh(_reals(codes, x).astype(np.float64)).astype(np.float32), y)


def exp(codes: Tensor, x: Affine, y: Affine) -> Tensor:
    """exp(x) in float32, the nearest float32."""
    with np.errstate(over="ignore"):
        return _codes(np.exp(_reals(codes, x).astype(np.float64)).astype(np.float32), y)


def log(codes: Tensor, x: Affine, y: Affine) -> Tensor:
    """log(x) in float32, the nearest float32; what is not positive has none, and becomes the lowest code."""
    real = _reals(codes, x).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(real).astype(np.float32)
    return torch.where(torch.as_tensor(real > 0), _codes(np.nan_to_num(found), y), y.qmin)


def _reals(codes: Tensor, x: Affine) -> np.ndarray:
    found: np.ndarray = np.float32(x.scale32) * centred(codes, x).numpy().astype(np.float32)
    return found


def _codes(reals: np.ndarray, y: Affine) -> Tensor:
    """The reals times 1 / sy, in float32, ties away from zero."""
    with np.errstate(over="ignore"):
        steps = torch.as_tensor(reals * np.float32(1 / y.scale32))
    return narrowed(half_away(steps.clamp(-BEYOND, BEYOND)), y)
