"""How far an arithmetic may be from the real result before its last rounding: derived, never chosen.

Two arithmetics. On the device a result is an integer accumulator times a ratio M, in output steps, and
the rescale scheme rounds; `device` gives its excess over one correct rounding, in output steps.
Fallback runs in float32 between dequantize and quantize; `float32_inputs` and `float32_output` give its
error by backward analysis.

tflite_double_round: with M = f * 2**e, 0.5 <= f < 1, the accumulator is first rounded to multiples of
2**e output steps (half of that, 2**(e-1), at most) and then to a whole step. For e >= 0 the second
rounding is void. The other schemes round once.

Every device term also holds `RELATIVE` of the operands' size in steps: a ratio is kept in 31 bits, made of
at most four float32 roundings, and applied in float32 by one scheme (two more); 2**-24 each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.affine import float32
from npu_assay.reference.golden import error_bound_tosa, error_bound_xnnpack
from npu_assay.reference.golden.aten import bound, canonical
from npu_assay.reference.golden.bounded import Bounded, Scale, operands
from npu_assay.reference.golden.error_bound_tosa import rule_of
from npu_assay.reference.operators.lookup import home

UNIT = 2.0**-24
"""Half the distance between float32 numbers at 1: the relative error of one rounding."""

RELATIVE = 8 * UNIT

ErrorBound = float | Tensor
Excess = Callable[[float], float]
Given = Mapping[str, Any]  # arguments by their schema names


def _double_round(ratio: float) -> float:
    exponent = math.frexp(ratio)[1]
    if exponent < -31:
        return 0.5  # the ratio is kept as 0
    return math.ldexp(1.0, exponent - 1) if exponent < 0 else 0.0


def _single_round(_: float) -> float:
    return 0.0


EXCESS: Mapping[str, Excess] = MappingProxyType(
    {
        "tflite_double_round": _double_round,
        "tflite_single_round": _single_round,
        "tosa_single_round": _single_round,
        "xnnpack_fp32": _single_round,
        "tflite_float64": _single_round,
    }
)
"""Rescale scheme -> excess over half a step, in output steps, for a ratio."""


def excess(scheme: str | None) -> Excess:
    """The excess of a scheme; without a name the largest of all.

    Raises ValueError for a name that is not a scheme.
    """
    if scheme is None:
        return _double_round
    if scheme not in EXCESS:
        raise ValueError(f"rescale scheme: found {scheme!r}, expected one of {sorted(EXCESS)}")
    return EXCESS[scheme]


def device(
    op: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    result: Bounded,
    step: float,
    scheme: str | None,
    *,
    wide: bool = False,
) -> ErrorBound:
    """The device's error bound in output steps, broadcasting to the result, beside half a step.

    step: the output scale. wide: codes have 16 bits. Operands whose `scale` is None (real numbers) need no rescale.
    """
    name, given = canonical(op), bound(op, args, kwargs)
    size = result.value.abs() / step * RELATIVE
    if scheme == "xnnpack_fp32":
        return size + error_bound_xnnpack.error_bound(name, given, step)
    if scheme == "tosa_single_round":
        return size + error_bound_tosa.error_bound(name, given, result, step, wide=wide)
    rule = rule_of(name, "tflite_double_round")
    return size + rule(given, step, excess(scheme)) if rule is not None and is_integer(name, given) else size


def is_integer(op: str, given: Given) -> bool:
    """Whether all operands are codes. A divisor need not be: it is made into codes of its own reciprocals."""
    found = _tensors(given)
    if op == "aten.div.Tensor":
        found = found[:1]
    elif isinstance(given.get("other"), int | float):
        return False
    return bool(found) and all(x.scale is not None for x in found)


def on_grid(op: str, args: Sequence[Any], kwargs: Mapping[str, Any], step: float) -> bool:
    """Whether the results of exact operands are multiples of the output step already: nothing is rounded."""
    own = home(canonical(op))
    if own is not None and own.moves:
        args = [x for place, x in enumerate(args) if place not in own.apart]
    found = operands(args)
    if not found or any(x.scale != step for x in found):
        return False
    if own is None or not (own.moves or own.on_grid):
        return False
    return own.moves or bool(bound(op, args, kwargs).get("value", 0) == 0)


def _per_channel(scale: Scale | None) -> tuple[float, ...]:
    """An operand's scales: one, or one per channel; a real operand counts as scale 1."""
    return scale if isinstance(scale, tuple) else (1.0 if scale is None else scale,)


def _excess_of_product(a: Scale | None, b: Scale | None, step: float, over: Excess) -> ErrorBound:
    """The excess for the ratio a * b / step: a number, or [channels] when a scale is per channel."""
    first, second = _per_channel(a), _per_channel(b)
    channels = max(len(first), len(second))
    pairs = zip(first * (channels // len(first)), second * (channels // len(second)), strict=True)
    found = [over(s * t / step) for s, t in pairs]
    return found[0] if channels == 1 else torch.tensor(found, dtype=torch.float64)


def one_ratio(given: Given, step: float, over: Excess) -> ErrorBound:
    """Each operand's code times its own scale / step (nothing to rescale when they are equal)."""
    return max(over(s / step) for x in _tensors(given) for s in _per_channel(x.scale))


def _tensors(given: Given) -> list[Bounded]:
    return operands(list(given.values()))


def sum_(given: Given, step: float, over: Excess) -> ErrorBound:
    """add, sub: both operands are first rescaled to T * 2**-20, T = 2 * max(scales); their sum once more."""
    scales = [float(x.scale) for x in _tensors(given) if isinstance(x.scale, float)]
    total = 2 * max(scales)
    unit = total / 2.0**20 / step
    sizes = sum((x.magnitude for x in _tensors(given)), torch.zeros((), dtype=torch.float64))
    return over(unit) + unit * sum(0.5 + over(s / total) for s in scales) + sizes / step * RELATIVE


def negation(given: Given, step: float, over: Excess) -> ErrorBound:
    """neg: a subtraction from a constant of the operand's own scale."""
    return sum_({"self": given["self"], "other": given["self"]}, step, over)


def product(given: Given, step: float, over: Excess) -> ErrorBound:
    """mul, mm, bmm, linear: the accumulator's ratio is a product; per-channel weights are the last axis."""
    a, b = _tensors(given)[:2]
    if "mat2" in given:
        return _excess_of_matrices(a, b, step, over)
    return _add_bias(_excess_of_product(a.scale, b.scale, step, over), _tensors(given)[2:], step)


def _excess_of_matrices(a: Bounded, b: Bounded, step: float, over: Excess) -> ErrorBound:
    """The excess per output column; the largest where weights are per channel along rows, which no integers add up."""
    error_bound = _excess_of_product(a.scale, b.scale, step, over)
    return float(error_bound.max()) if isinstance(error_bound, Tensor) and b.axis == 0 else error_bound


def addmm(given: Given, step: float, over: Excess) -> ErrorBound:
    """addmm: like `product`, with the bias first."""
    bias, a, b = _tensors(given)[:3]
    return _add_bias(_excess_of_matrices(a, b, step, over), [bias], step)


def convolution(given: Given, step: float, over: Excess) -> ErrorBound:
    """convolution: like `product`, output channels along axis 1."""
    x, weight = _tensors(given)[:2]
    error_bound = _add_bias(_excess_of_product(x.scale, weight.scale, step, over), _tensors(given)[2:], step)
    return error_bound.reshape(-1, *[1] * (x.value.dim() - 2)) if isinstance(error_bound, Tensor) else error_bound


def _add_bias(error_bound: ErrorBound, bias: Sequence[Bounded], step: float) -> ErrorBound:
    """The bias is in the accumulator's steps: its own scale, rounded to float32, may differ from them.

    Scales along another axis than the outputs' count as their largest excess: no integers add such products up.
    """
    if bias and isinstance(error_bound, Tensor) and error_bound.numel() != bias[0].value.numel():
        error_bound = float(error_bound.max())
    return error_bound + bias[0].magnitude / step * RELATIVE if bias else error_bound


def quotient(given: Given, step: float, over: Excess) -> ErrorBound:
    """div: a product with the reciprocals, which are held as int8 codes of `reciprocal_scale`."""
    x, divisor = given["self"], given["other"]
    reciprocal = 1.0 / (divisor.value if isinstance(divisor, Bounded) else torch.tensor(divisor, dtype=torch.float64))
    if not bool(torch.isfinite(reciprocal).all()):
        return 0.0  # there is no such product: only float arithmetic divides by zero
    held = reciprocal_scale(reciprocal)
    error = (torch.round(reciprocal / held) * held - reciprocal).abs() + reciprocal.abs() * UNIT
    missed: Tensor = x.magnitude * error / step
    return missed + _excess_of_product(x.scale, held, step, over)


def reciprocal_scale(reciprocals: Tensor) -> float:
    """The symmetric int8 scale that reciprocals of divisors are held in: max |1/d| / 127, as float32."""
    return float32(float(reciprocals.abs().max()) / 127)


def leaky(given: Given, step: float, over: Excess) -> ErrorBound:
    """leaky_relu: its negative side has a ratio of its own."""
    slope, ratio = given["negative_slope"], given["self"].scale / step
    return max(over(ratio), over(ratio * abs(slope)) if slope else 0.0)


def prelu(given: Given, step: float, over: Excess) -> ErrorBound:
    """prelu: the same, with the slopes' scale."""
    x, slopes = given["self"], given["weight"]
    return max(over(x.scale / step), over(x.scale * slopes.scale / step))


def mean(given: Given, step: float, over: Excess) -> ErrorBound:
    """mean: the multiplier takes in 1 / n, with floor(log2 n) more bits of shift; it keeps 29 bits."""
    x, dims = given["self"], given["dim"]
    axes = [dims] if isinstance(dims, int) else dims or range(x.value.dim())
    count = math.prod(x.value.shape[axis] for axis in axes)
    return over(math.ldexp(x.scale / step, 1 - math.frexp(count)[1]))


def table(given: Given, step: float, over: Excess) -> ErrorBound:
    """sigmoid, tanh: a table made in float32; its few roundings are within `RELATIVE`, for x * f'(x) <= f(x)."""
    return 0.0


def exponential(given: Given, step: float, over: Excess) -> ErrorBound:
    """exp: a table made in float32; two roundings of x, relative to it, are so much of the result times x."""
    x: Bounded = given["self"]
    return (x.value.abs() * x.value.exp()).nan_to_num() / step * (2 * UNIT)


def logarithm(given: Given, step: float, over: Excess) -> ErrorBound:
    """log: a table made in float32; two roundings of x, relative to it, are so much of the result itself."""
    return 2 * UNIT / step


def average(given: Given, step: float, over: Excess) -> ErrorBound:
    """avg_pool: the sum over the count, rounded once."""
    return _rounded_before(given["self"], step, over)


def _rounded_before(x: Bounded, step: float, over: Excess) -> float:
    """Results are rounded to the operand's own steps, and rescaled where the output's differ."""
    scale = max(_per_channel(x.scale))
    return 0.0 if scale == step else 0.5 * scale / step + over(scale / step)


def softmax(given: Given, step: float, over: Excess) -> ErrorBound:
    """softmax in fixed point. Relative to an output p <= 1:

    each exp, a fourth-order series on an interval of 1/4, is good to 2**-22 (1/8**5 / 120) and used twice;
    the other roundings, of 2**-26 and less, fill that up to 2**-20. The sum, which is 1 or more, takes n
    terms rounded to multiples of 2**-19.
    """
    x: Bounded = given["self"]
    dim: int = given["dim"]
    relative = 2.0**-20 * (1 + x.value.shape[dim])
    return torch.softmax(x.value, dim) * (relative / step) + over(2.0**-23)


def bilinear(given: Given, step: float, over: Excess) -> ErrorBound:
    """upsample_bilinear2d: how far positions are off, times the steepest change between neighboring rows.

    Positions are multiples of i * round(1024 * ratio) / 1024, so output row i is up to i / 2048 input rows off.
    Likewise columns.

    Without align_corners the ratio of a factor that is a power of 2 is exact.
    """
    x, size, factors = given["input"], given["output_size"], given["scale_factors"]
    rounding = _rounded_before(x, step, over)
    height, width = x.value.shape[-2:]
    out = list(size) if size else [int(n * f) for n, f in zip((height, width), factors, strict=True)]
    if not given["align_corners"] and all(1024 * n % m == 0 for n, m in zip((height, width), out, strict=True)):
        return rounding
    rows = torch.arange(out[0], dtype=torch.float64).reshape(-1, 1) / 2048 * _steepest(x.value, -2)
    columns = torch.arange(out[1], dtype=torch.float64) / 2048 * _steepest(x.value, -1)
    return (rows + columns) / step + rounding


def _steepest(x: Tensor, axis: int) -> Tensor:
    """The largest absolute difference of neighbors along an axis of each image: [N, C, 1, 1]."""
    if x.shape[axis] < 2:
        return torch.zeros((), dtype=torch.float64)
    return x.diff(dim=axis).abs().amax((-2, -1), keepdim=True)
