"""XNNPACK's static int8 operators: codes to codes, by integers and one float32 multiplication."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from reference.affine import Affine, float32
from reference.int8.accumulate import NO_PADDING, Padding, Pair
from reference.int8.lut import ALL_CODES, table_kernel
from reference.xnnpack import products
from reference.xnnpack.output import Bounds, Kernel, Kernel2, code, fp32_stage, limits, ratios
from reference.xnnpack.pool import max_pool2d as max_pool2d

_PRECISION = 20
"""Fraction bits, at most, of the larger operand's multiplier in a sum."""


def add(a: Affine, b: Affine, y: Affine, activation: Bounds | None = None) -> Kernel2:
    """y = a + b with broadcasting. Raises ValueError for ratios sa / sy, sb / sy that XNNPACK cannot shift."""
    return _sum(a, b, y, 1, activation)


def sub(a: Affine, b: Affine, y: Affine, activation: Bounds | None = None) -> Kernel2:
    """y = a - b with broadcasting. Errors as `add`."""
    return _sum(a, b, y, -1, activation)


def _sum(a: Affine, b: Affine, y: Affine, sign: int, activation: Bounds | None) -> Kernel2:
    """(A * (qa - za) + B * (qb - zb) + half) >> shift: multipliers of 21 bits, rounded half up."""
    lo, hi = limits(y, activation)
    steps = float32(a.scale32 / y.scale32), float32(b.scale32 / y.scale32)
    shift = _PRECISION - (math.frexp(max(steps))[1] - 1)
    if not 1 <= shift <= 31:
        raise ValueError(f"ratio of a sum's scales: found {max(steps)}, expected 2**-11 to less than 2**20")
    first, second = (round(math.ldexp(ratio, shift)) for ratio in steps)  # ties to even
    second *= sign
    offset = (1 << (shift - 1)) - first * a.zero_point - second * b.zero_point
    fits = (abs(first) + abs(second)) * 128 + abs(offset) < 1 << 31
    dtype = torch.int32 if fits else torch.int64

    def apply(p: Tensor, q: Tensor) -> Tensor:
        total = p.to(dtype).mul_(first).add_(offset) + q.to(dtype).mul_(second)
        return total.__irshift__(shift).add_(y.zero_point).clamp_(lo, hi).char()

    return apply


def mul(a: Affine, b: Affine, y: Affine, activation: Bounds | None = None) -> Kernel2:
    """y = a * b with broadcasting."""
    ratio = float32(float32(a.scale32 * b.scale32) / y.scale32)
    finish = fp32_stage(torch.tensor(ratio), y, activation)
    return lambda p, q: finish((p.float() - a.zero_point) * (q.float() - b.zero_point))


def clamp(lo: float | None, hi: float | None, x: Affine, y: Affine) -> Kernel:
    """y = min(max(x, lo), hi) for real limits (None: no limit): relu, hardtanh, clamp.

    With one quantisation the codes are clamped. Else a table: the real value in float32, clamped, times
    f32(1 / sy), plus the zero point, and only then rounded.
    """
    low = -math.inf if lo is None else float32(lo)
    high = math.inf if hi is None else float32(hi)
    if (x.scale32, x.zero_point) == (y.scale32, y.zero_point):
        return table_kernel(ALL_CODES, (code(low, y), max(code(low, y), code(high, y))))
    reals = (ALL_CODES - x.zero_point).float().mul_(x.scale32).clamp_min_(low).clamp_max_(high)
    steps = (reals * float32(1 / y.scale32)).add_(y.zero_point)
    return table_kernel(steps.clamp_(y.qmin, y.qmax).round_().long(), (y.qmin, y.qmax))


def linear(
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    w_scales: Sequence[float],
    y: Affine,
    activation: Bounds | None = None,
) -> Kernel:
    """weights [O, I] int8, bias [O] int32; returns x [..., I] -> y [..., O]. w_scales: one, or one per output."""
    finish = fp32_stage(ratios(x, w_scales, y, weights.shape[0]), y, activation)
    multiply = products.linear(weights, bias, x)
    return lambda codes: finish(multiply(codes))


def conv2d(
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    w_scales: Sequence[float],
    y: Affine,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    groups: int = 1,
    activation: Bounds | None = None,
) -> Kernel:
    """weights [O, KH, KW, I / groups] int8, bias [O] int32; returns x [N, H, W, I] -> y [N, OH, OW, O].

    Padded cells hold the zero point. One group per input channel is a depthwise convolution.
    """
    finish = fp32_stage(ratios(x, w_scales, y, weights.shape[0]), y, activation)
    multiply = products.conv2d(weights, bias, x, stride, dilation, padding, groups)
    return lambda codes: finish(multiply(codes))


def transpose_conv2d(
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    w_scales: Sequence[float],
    y: Affine,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    output_padding: Pair = (0, 0),
    groups: int = 1,
    activation: Bounds | None = None,
) -> Kernel:
    """weights [O, KH, KW, I / groups] int8; returns x [N, H, W, I] -> y [N, OH, OW, O].

    OH = (H - 1) * stride + (KH - 1) * dilation + 1 + output_padding - top - bottom.
    """
    finish = fp32_stage(ratios(x, w_scales, y, weights.shape[0]), y, activation)
    multiply = products.transpose_conv2d(weights, bias, x, stride, dilation, padding, output_padding, groups)
    return lambda codes: finish(multiply(codes))


def mean(x: Affine, y: Affine) -> Kernel:
    """The mean over height and width of x [N, H, W, C] -> [N, 1, 1, C]: f32(acc) * f32(f32(sx / sy) / n)."""
    ratio = float32(x.scale32 / y.scale32)

    def apply(codes: Tensor) -> Tensor:
        count = codes.shape[1] * codes.shape[2]
        acc = codes.sum((1, 2), keepdim=True, dtype=torch.int64).sub_(count * x.zero_point)
        return fp32_stage(torch.tensor(float32(ratio / count)), y)(acc)

    return apply
