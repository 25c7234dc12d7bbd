"""XNNPACK's static int8 operators: integer sums, one multiplication in float32, ties to even.

Sources: XNNPACK's reference microkernels and operator-create functions (requantization `fp32`, qs8-vadd, qs8-vmul,
qs8-rdsum, f32-qs8-vcvt), and ExecuTorch's XNNPACK delegate for biases. Images are [N, H, W, C]; numbers named f32 are
rounded to float32 wherever they are computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from npu_assay.reference.affine import Affine, check_scale
from npu_assay.reference.arithmetic.windows import NO_PADDING, Padding, Pair, convolved, padded, scattered, transposed

f32 = np.float32
SUM_BITS = 20
"""The larger operand's multiplier of a sum is in [2**20, 2**21)."""
LARGEST_RATIO = 256.0
"""The largest ratio of a linear operator's scales: XNNPACK creates no operator beyond it."""


def add(p: Tensor, q: Tensor, a: Affine, b: Affine, y: Affine) -> Tensor:
    """p + q. Raises ValueError for ratios sa / sy, sb / sy that XNNPACK cannot shift by."""
    return _sum(p, q, a, b, y, 1)


def sub(p: Tensor, q: Tensor, a: Affine, b: Affine, y: Affine) -> Tensor:
    """p - q. Errors as `add`."""
    return _sum(p, q, a, b, y, -1)


def _sum(p: Tensor, q: Tensor, a: Affine, b: Affine, y: Affine, sign: int) -> Tensor:
    """(A * (p - za) +- B * (q - zb)) / 2**shift, ties up; A and B are the ratios times 2**shift, ties to even."""
    first, second = f32(a.scale32) / f32(y.scale32), f32(b.scale32) / f32(y.scale32)
    largest = max(float(first), float(second))
    shift = SUM_BITS - math.floor(math.log2(largest)) if 2.0**-11 <= largest < 2.0**20 else 0
    if not 1 <= shift <= 31:
        raise ValueError(f"ratio of a sum's scales: found {largest}, expected 2**-11 to less than 2**20")
    left, right = (round(float(ratio) * 2.0**shift) for ratio in (first, second))
    total = left * _centred(p, a) + sign * right * _centred(q, b)
    return _narrowed((total + 2 ** (shift - 1)) >> shift, y)


def mul(p: Tensor, q: Tensor, a: Affine, b: Affine, y: Affine) -> Tensor:
    """p * q, by the ratio f32(f32(sa * sb) / sy).

    XNNPACK itself overflows where the product leaves int32 in the output's steps, from a ratio of 2**15 on.
    """
    with np.errstate(over="ignore"):
        ratio = f32(a.scale32) * f32(b.scale32) / f32(y.scale32)
    ratio = min(ratio, np.finfo(f32).max)  # no step by an infinite ratio would be no number
    return _requantised(_centred(p, a) * _centred(q, b), torch.tensor(ratio), y)


def clamp(codes: Tensor, lo: float | None, hi: float | None, x: Affine, y: Affine) -> Tensor:
    """min(max(x, lo), hi) for real limits; None is no limit.

    With one quantization codes are clamped. Else reals: clamped, times f32(1 / sy), plus the zero point, rounded.
    """
    low, high = f32(-math.inf if lo is None else lo), f32(math.inf if hi is None else hi)
    if (x.scale32, x.zero_point) == (y.scale32, y.zero_point):
        bottom, top = _code(low, y), _code(high, y)
        return codes.to(torch.int64).clamp(bottom, max(bottom, top)).to(torch.int8)
    reals = (f32(x.scale32) * _centred(codes, x).numpy().astype(f32)).clip(low, high)
    return _rounded(torch.from_numpy(reals * (f32(1) / f32(y.scale32)) + f32(y.zero_point)), y)


def _code(limit: np.float32, y: Affine) -> int:
    """A limit's code: f32(f32(limit / sy) + zero point), ties to even, saturated."""
    with np.errstate(over="ignore"):  # which the range of the codes cuts off
        found = float(limit / f32(y.scale32) + f32(y.zero_point))
    return round(max(y.qmin, min(y.qmax, found)))


def linear(
    codes: Tensor, weights: Tensor, bias: Tensor | None, x: Affine, scales: Sequence[float], y: Affine
) -> Tensor:
    """codes [..., I], weights [O, I], bias [O] int32: [..., O]. scales: one, or one per output."""
    acc = _centred(codes, x) @ weights.to(torch.int64).mT
    return _requantised(_with(acc, bias), _ratios(x, scales, y, weights.shape[0]), y)


def conv2d(
    codes: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    scales: Sequence[float],
    y: Affine,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
) -> Tensor:
    """codes [N, H, W, I * groups], weights [O, KH, KW, I], bias [O] int32: [N, OH, OW, O]."""
    acc = convolved(padded(_centred(codes, x), padding, 0), weights, stride, dilation)
    return _requantised(_with(acc, bias), _ratios(x, scales, y, weights.shape[0]), y)


def transpose_conv2d(
    codes: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    scales: Sequence[float],
    y: Affine,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    output_padding: Pair = (0, 0),
) -> Tensor:
    """codes [N, H, W, I * groups], weights [O, KH, KW, I], bias [O] int32: [N, OH, OW, O].

    OH = (H - 1) * stride + (KH - 1) * dilation + 1 + output_padding - top - bottom.
    """
    acc = scattered(_centred(codes, x), weights, *transposed(codes, weights, stride, dilation, padding, output_padding))
    return _requantised(_with(acc, bias), _ratios(x, scales, y, weights.shape[0]), y)


def mean(codes: Tensor, x: Affine, y: Affine) -> Tensor:
    """Over height and width, kept: f32(sum of the codes) * ratio + start, rounded last; all of it in float32.

    ratio = f32(sx / sy) / n, start = zy - f32(n * zx) * ratio: of the zero point, which the sum holds n times.
    """
    count = codes.shape[1] * codes.shape[2]
    ratio = f32(x.scale32) / f32(y.scale32) / f32(count)
    start = f32(y.zero_point) - f32(count * x.zero_point) * ratio
    total = codes.to(torch.int64).sum((1, 2), keepdim=True)
    return _rounded(total.float() * torch.tensor(ratio) + torch.tensor(start), y)


def quantize_bias(bias: Tensor, x: Affine, scales: Sequence[float]) -> Tensor:
    """A real bias as int32 in steps of the accumulator, ties to even; for one scale the step is a float64."""
    if len(scales) == 1:
        return torch.round(bias.double() / (scales[0] * x.scale)).to(torch.int32)
    return torch.round(bias.float() / (torch.tensor(list(scales), dtype=torch.float32) * x.scale32)).to(torch.int32)


# ------------------------------------------------------------------------------------ the end of every operator


def _centred(codes: Tensor, x: Affine) -> Tensor:
    return codes.to(torch.int64) - x.zero_point


def _with(acc: Tensor, bias: Tensor | None) -> Tensor:
    return acc if bias is None else acc + bias


def _requantised(acc: Tensor, ratios: Tensor, y: Affine) -> Tensor:
    """f32(f32(acc) * ratio), ties to even, plus the zero point; saturated before it is rounded."""
    steps = acc.float() * ratios
    return _narrowed(steps.clamp(y.qmin - y.zero_point, y.qmax - y.zero_point).round().long(), y)


def _rounded(values: Tensor, y: Affine) -> Tensor:
    """Reals in steps, the zero point included, as codes: saturated, then ties to even."""
    return values.clamp(y.qmin, y.qmax).round().to(torch.int8)


def _narrowed(steps: Tensor, y: Affine) -> Tensor:
    return (steps + y.zero_point).clamp(y.qmin, y.qmax).to(torch.int8)


def _ratios(x: Affine, scales: Sequence[float], y: Affine, outputs: int) -> Tensor:
    """f32(f32(sw * sx) / sy), one or one per output. Raises ValueError for another number, and for one over 256."""
    if len(scales) not in (1, outputs):
        raise ValueError(f"weight scales: found {len(scales)}, expected 1 or {outputs}, one per output")
    for scale in scales:
        check_scale(scale, "weight scale")
    found = torch.tensor([f32(scale) * f32(x.scale32) / f32(y.scale32) for scale in scales])
    if float(found.max()) > LARGEST_RATIO:
        raise ValueError(f"requantization ratio: found {float(found.max())}, expected at most {LARGEST_RATIO}")
    return found
