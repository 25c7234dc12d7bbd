"""Static int8 element by element: codes to codes, by integers and one float32 multiplication."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.lut import ALL_CODES, table_kernel
from npu_assay.partitioners.common.int8.output import Bounds, Kernel, bounds
from npu_assay.partitioners.xnnpack.kernels.output import OnCodes, code, fp32_stage
from npu_assay.reference.affine import Affine, float32

_PRECISION = 20
"""Fraction bits, at most, of the larger operand's multiplier in a sum."""


def add(a: Affine, b: Affine, y: Affine, activation: Bounds | None = None) -> OnCodes:
    """y = a + b with broadcasting. Raises ValueError for ratios sa / sy, sb / sy that XNNPACK cannot shift."""
    return _sum(a, b, y, 1, activation)


def sub(a: Affine, b: Affine, y: Affine, activation: Bounds | None = None) -> OnCodes:
    """y = a - b with broadcasting. Errors as `add`."""
    return _sum(a, b, y, -1, activation)


def _sum(a: Affine, b: Affine, y: Affine, sign: int, activation: Bounds | None) -> OnCodes:
    """(A * (qa - za) + B * (qb - zb) + half) >> shift: multipliers of 21 bits, rounded half up."""
    lo, hi = bounds(y, activation)
    steps = float32(a.scale32 / y.scale32), float32(b.scale32 / y.scale32)
    shift = _PRECISION - (math.frexp(max(steps))[1] - 1)
    if not 1 <= shift <= 31:
        raise ValueError(f"ratio of a sum's scales: found {max(steps)}, expected 2**-11 to less than 2**20")
    first, second = (round(math.ldexp(ratio, shift)) for ratio in steps)  # ties to even
    second *= sign
    half = 1 << (shift - 1)
    below, above = lo - y.zero_point, hi - y.zero_point

    def apply(p: Tensor, q: Tensor) -> Tensor:
        # 32 bits hold it: each factor is at most 2**21, each step at most 255, and half at most 2**30.
        total = p.to(torch.int32).mul_(first).add_(half) + q.to(torch.int32).mul_(second)
        return total.__irshift__(shift).clamp_(below, above).float()

    return OnCodes(apply, (a.zero_point, b.zero_point), y.zero_point)


def mul(a: Affine, b: Affine, y: Affine, activation: Bounds | None = None) -> OnCodes:
    """y = a * b with broadcasting."""
    ratio = float32(float32(a.scale32 * b.scale32) / y.scale32)
    finite = min(ratio, torch.finfo(torch.float32).max)  # no step by an infinite ratio would be no number
    finish = fp32_stage(torch.tensor(finite), y, activation)
    return OnCodes(lambda p, q: finish(p * q), (a.zero_point, b.zero_point), y.zero_point)


def clamp(lo: float | None, hi: float | None, x: Affine, y: Affine) -> Kernel:
    """y = min(max(x, lo), hi) for real limits (None: no limit): relu, hardtanh, clamp.

    With one quantization the codes are clamped. Else a table: the real value in float32, clamped, times
    f32(1 / sy), plus the zero point, and only then rounded.
    """
    low = -math.inf if lo is None else float32(lo)
    high = math.inf if hi is None else float32(hi)
    if (x.scale32, x.zero_point) == (y.scale32, y.zero_point):
        bottom, top = code(low, y) - y.zero_point, max(code(low, y), code(high, y)) - y.zero_point
        return OnCodes(lambda steps: steps.clamp(bottom, top), (x.zero_point,), y.zero_point)
    reals = (ALL_CODES - x.zero_point).float().mul_(x.scale32).clamp_min_(low).clamp_max_(high)
    steps = (reals * float32(1 / y.scale32)).add_(y.zero_point)
    return table_kernel(steps.clamp_(y.qmin, y.qmax).round_().long(), (y.qmin, y.qmax))
