"""XNNPACK's static int8 operators: codes to codes, by integers and one float32 multiplication."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.accumulate import NO_PADDING, Padding, Pair, largest_input
from npu_assay.partitioners.common.int8.lut import ALL_CODES, table_kernel
from npu_assay.partitioners.xnnpack.kernels import products
from npu_assay.partitioners.xnnpack.kernels.output import Bounds, Kernel, OnCodes, code, fp32_stage, limits, ratios
from npu_assay.partitioners.xnnpack.kernels.pool import max_pool2d as max_pool2d
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
    lo, hi = limits(y, activation)
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


def linear(
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    w_scales: Sequence[float],
    y: Affine,
    activation: Bounds | None = None,
) -> OnCodes:
    """weights [O, I] int8, bias [O] int32; returns x [..., I] -> y [..., O]. w_scales: one, or one per output."""
    finish = fp32_stage(ratios(x, w_scales, y, weights.shape[0]), y, activation)
    multiply = products.linear(weights, bias, largest_input(x))
    return OnCodes(lambda steps: finish(multiply(steps)), (x.zero_point,), y.zero_point)


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
) -> OnCodes:
    """weights [O, KH, KW, I / groups] int8, bias [O] int32; returns x [N, H, W, I] -> y [N, OH, OW, O].

    Padded cells hold the zero point. One group per input channel is a depthwise convolution.
    """
    finish = fp32_stage(ratios(x, w_scales, y, weights.shape[0]), y, activation)
    multiply = products.conv2d(weights, bias, largest_input(x), stride, dilation, padding, groups)
    return OnCodes(lambda steps: finish(multiply(steps)), (x.zero_point,), y.zero_point)


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
) -> OnCodes:
    """weights [O, KH, KW, I / groups] int8; returns x [N, H, W, I] -> y [N, OH, OW, O].

    OH = (H - 1) * stride + (KH - 1) * dilation + 1 + output_padding - top - bottom.
    """
    finish = fp32_stage(ratios(x, w_scales, y, weights.shape[0]), y, activation)
    multiply = products.transpose_conv2d(
        weights, bias, largest_input(x), stride, dilation, padding, output_padding, groups
    )
    return OnCodes(lambda steps: finish(multiply(steps)), (x.zero_point,), y.zero_point)


def mean(x: Affine, y: Affine) -> OnCodes:
    """The mean over height and width of x [N, H, W, C] -> [N, 1, 1, C]: f32(sum of codes) * ratio + start.

    ratio = f32(f32(sx / sy) / n), start = f32(zy - f32(n * zx * ratio)): it is added before the rounding, ties to
    even, so which way a tie goes depends on the zero points.
    """
    ratio = float32(x.scale32 / y.scale32)

    def apply(steps: Tensor) -> Tensor:
        count = steps.shape[1] * steps.shape[2]
        total = steps.sum((1, 2), keepdim=True, dtype=torch.float64).add_(count * x.zero_point)
        factor = float32(ratio / count)
        start = float32(y.zero_point - float32(count * x.zero_point * factor))
        codes = total.float().mul_(factor).add_(start)
        return codes.clamp_(y.qmin, y.qmax).round_().sub_(y.zero_point)

    return OnCodes(apply, (x.zero_point,), y.zero_point)
