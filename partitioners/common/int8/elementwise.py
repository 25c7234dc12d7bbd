"""Element-wise int8 operators of TensorFlow Lite: arithmetic, extremes, the RELU family, PRELU, QUANTIZE.

Sources: TensorFlow Lite reference_ops and kernels/{add,sub,mul,maximum_minimum,elementwise,activations,quantize}.cc.
An operator of one input maps 256 codes to 256 codes, so its exact formula runs once over all codes.
Where a formula says float32, the kernel computes that product or quotient in float32.
"""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.lut import ALL_CODES, lookup, table_kernel
from npu_assay.partitioners.common.int8.output import Bounds, Kernel, Kernel2, bounds, double_round_stage
from npu_assay.partitioners.common.rescale import quantize_multiplier, tflite_double_round
from npu_assay.reference.affine import Affine, float32

_LEFT_SHIFT = 20
_WORTH_A_TABLE = 1 << 12


def add(a: Affine, b: Affine, y: Affine, activation: Bounds | None = None) -> Kernel2:
    """y = a + b with broadcasting. Raises ValueError for 2 * max(sa, sb) >= 2**20 * sy, where LiteRT aborts."""
    return _sum(a, b, y, 1, activation)


def sub(a: Affine, b: Affine, y: Affine, activation: Bounds | None = None) -> Kernel2:
    """y = a - b with broadcasting. Raises ValueError for 2 * max(sa, sb) >= 2**20 * sy: undefined in LiteRT."""
    return _sum(a, b, y, -1, activation)


def mul(a: Affine, b: Affine, y: Affine, activation: Bounds | None = None) -> Kernel2:
    """y = a * b with broadcasting."""
    ratio = float32(float32(a.scale32 * b.scale32) / y.scale32)
    finish = double_round_stage([quantize_multiplier(ratio)], y, activation)
    return _paired(lambda p, q: finish((p.to(torch.int32) - a.zero_point) * (q.to(torch.int32) - b.zero_point)))


def maximum(p: Tensor, q: Tensor) -> Tensor:
    """The larger code, with broadcasting: inputs and output share their quantization."""
    return torch.maximum(p, q)


def minimum(p: Tensor, q: Tensor) -> Tensor:
    """The smaller code, with broadcasting: inputs and output share their quantization."""
    return torch.minimum(p, q)


def abs_(x: Affine, y: Affine) -> Kernel:
    """y = |x|; without a rescale when the scales are equal."""
    magnitude = (ALL_CODES - x.zero_point).abs()
    scaled = magnitude if x.scale32 == y.scale32 else _rescale(magnitude, float32(x.scale32 / y.scale32))
    return table_kernel(scaled + y.zero_point, bounds(y, None))


def neg(x: Affine) -> Kernel:
    """y = -x with the input's quantization: 2 * zero_point - code, saturated."""
    return table_kernel(2 * x.zero_point - ALL_CODES, bounds(x, None))


def relu(lo: float | None, hi: float | None, x: Affine, y: Affine) -> Kernel:
    """y = min(max(x, lo), hi) for real limits; None is no limit. RELU is (0, None), RELU6 is (0, 6)."""
    return table_kernel(_shifted(x, y), relu_bounds(lo, hi, y))


def relu_bounds(lo: float | None, hi: float | None, y: Affine) -> Bounds:
    """The codes of real limits: float32 quotient, ties away from zero, kept within the type's range."""
    low = y.qmin if lo is None else max(y.qmin, y.zero_point + _steps(lo, y))
    high = y.qmax if hi is None else min(y.qmax, y.zero_point + _steps(hi, y))
    return low, high


def requantize(x: Affine, y: Affine) -> Kernel:
    """The same reals in another quantization: QUANTIZE from int8 to int8. Its ratio is a float64 quotient."""
    codes = _rescale(ALL_CODES - x.zero_point, x.scale32 / y.scale32) + y.zero_point
    return table_kernel(codes, bounds(y, None))


def leaky_relu(alpha: float, x: Affine, y: Affine) -> Kernel:
    """y = x for x >= 0, else alpha * x. alpha is held in float32 and may be negative."""
    value = ALL_CODES - x.zero_point
    positive = _rescale(value, float32(x.scale32 / y.scale32))
    slope = float32(float32(x.scale32 * float32(alpha)) / y.scale32)
    negative = _rescale(value, abs(slope)) * (-1 if slope < 0 else 1)
    return table_kernel(torch.where(value >= 0, positive, negative) + y.zero_point, bounds(y, None))


def prelu(alpha: Tensor, a: Affine, x: Affine, y: Affine) -> Kernel:
    """y = x for x >= 0, else alpha * x. alpha: int8 codes that broadcast against x from the right."""
    slope = alpha.to(torch.int64) - a.zero_point
    positive = _rescale(ALL_CODES - x.zero_point, float32(x.scale32 / y.scale32)) + y.zero_point
    positive = positive.clamp_(y.qmin, y.qmax).to(torch.int8)
    finish = double_round_stage([quantize_multiplier(float32(float32(x.scale32 * a.scale32) / y.scale32))], y)

    def apply(codes: Tensor) -> Tensor:
        value = codes.to(torch.int64) - x.zero_point
        return torch.where(value >= 0, lookup(positive, codes), finish(value * slope))

    return apply


def _sum(a: Affine, b: Affine, y: Affine, sign: int, activation: Bounds | None) -> Kernel2:
    """MB(a << 20, sa / T) + sign * MB(b << 20, sb / T), then MB(., T / (2**20 * sy)), with T = 2 * max(sa, sb)."""
    twice = float32(2 * max(a.scale32, b.scale32))
    ratio = twice / float32((1 << _LEFT_SHIFT) * y.scale32)
    if quantize_multiplier(ratio)[1] > 0:  # 1 or more, once it is rounded
        raise ValueError(
            f"{'ADD' if sign > 0 else 'SUB'} output ratio 2 * max(sa, sb) / (2**20 * sy): found {ratio!r} from "
            f"sa={a.scale}, sb={b.scale}, sy={y.scale}, expected less than 1"
        )
    left = _aligned(a, twice)
    right = _aligned(b, twice) * sign
    finish = double_round_stage([quantize_multiplier(ratio)], y, activation)
    return _paired(lambda p, q: finish(lookup(left, p) + lookup(right, q)))


def _paired(exact: Kernel2) -> Kernel2:
    """`exact`, which for large tensors is run once over all 65,536 pairs of codes and looked up from then on."""

    @cache
    def table() -> Tensor:
        codes = ALL_CODES.char()
        return exact(codes.view(-1, 1), codes).flatten()

    def apply(p: Tensor, q: Tensor) -> Tensor:
        if max(p.numel(), q.numel()) < _WORTH_A_TABLE:
            return exact(p, q)
        index = torch.add(q.view(torch.uint8).int(), p.view(torch.uint8).int(), alpha=256)
        return table().index_select(0, index.view(-1)).view(index.shape)

    return apply


def _aligned(q: Affine, twice: float) -> Tensor:
    """int32 [256]: every code's value on the common fine grid of ADD and SUB."""
    return _rescale((ALL_CODES - q.zero_point) << _LEFT_SHIFT, q.scale32 / twice).to(torch.int32)


def _rescale(values: Tensor, ratio: float) -> Tensor:
    return tflite_double_round(values, *quantize_multiplier(ratio))


def _shifted(x: Affine, y: Affine) -> Tensor:
    return _rescale(ALL_CODES - x.zero_point, float32(x.scale32 / y.scale32)) + y.zero_point


def _steps(real: float, y: Affine) -> int:
    """real / sy as float32, ties away from zero; more than any int8 range needs is cut off."""
    steps = max(-512.0, min(512.0, float32(float32(real) / y.scale32)))
    return int(math.copysign(math.floor(abs(steps) + 0.5), steps))
