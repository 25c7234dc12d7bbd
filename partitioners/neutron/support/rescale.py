"""Whether the device's 32-bit fixed-point arithmetic can hold an operator's numbers.

A rescale multiplies a 32-bit accumulator by scale ratio = q * 2**e (1/2 <= q < 1) and first shifts it
left by e when e > 0, so the largest possible accumulator must leave room for the shift.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import fx

from npu_assay.partitioners.exir.nodes import argument, operand, shape
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.qdq import QParams, input_qparams, is_dequantize, output_quantize, qparams
from npu_assay.partitioners.neutron.support.activation import bounds
from npu_assay.partitioners.neutron.support.rule import Context
from npu_assay.partitioners.neutron.support.weights import (
    BIAS_POSITION,
    is_bias,
    scales_of,
    through_permute,
    weight_scales,
    weight_source,
)

LIMIT = 2.0**31
# ADD shifts its operands left by this many bits before it adds them.
ADD_SHIFT = 2.0**20
# SOFTMAX needs its input scale times 2**26 to exceed 1.
SOFTMAX_SHIFT = 2.0**26
WEIGHT_RANGE = 128

LEAST_SCALE, LARGEST_SCALE = 2.0**-40, 2.0**40
"""What the device takes: products and quotients of three such scales stay within float32."""

Problem = Callable[[fx.Node, QParams, QParams, Context], str | None]


def scale_problem(node: fx.Node, context: Context) -> str | None:
    """A scale of an operand or the result that the device does not take; a bias has those that follow from others."""
    sources = (through_permute(node, source) for source in node.all_input_nodes if not is_bias(node, source))
    for member in (*filter(is_dequantize, sources), output_quantize(node)):
        scales = None if member is None else scales_of(member, context)
        wrong = [] if scales is None else scales[(scales < LEAST_SCALE) | (scales > LARGEST_SCALE)].tolist()
        if wrong and member is not None:
            return f"{member.name} has scale {wrong[0]:.6g}"
    return None


def span(params: QParams) -> int:
    """The largest distance of a code from the zero point."""
    return max(params.zero_point + 128, 127 - params.zero_point)


def _overflow(largest: float, ratio: float) -> str | None:
    """What overflows when accumulators up to `largest` are rescaled by `ratio`, or None."""
    if not math.isfinite(ratio):
        return f"a scale ratio of {ratio}"
    shift = max(math.frexp(ratio)[1], 0)
    if largest * 2.0**shift < LIMIT:
        return None
    return f"accumulators up to {largest:.0f} with a scale ratio of {ratio:.6g}"


def unary(node: fx.Node, x: QParams, y: QParams, context: Context) -> str | None:
    """A rescale from the input's scale to the output's."""
    return _overflow(span(x), x.scale32 / y.scale32)


def clamp(node: fx.Node, x: QParams, y: QParams, context: Context) -> str | None:
    """A rescale, and limits as codes."""
    limits = [abs(b) for b in bounds(node) if isinstance(b, (int, float)) and math.isfinite(b)]
    return unary(node, x, y, context) or _overflow(max(limits, default=0) / y.scale32 + 128, 0)


def leaky(node: fx.Node, x: QParams, y: QParams, context: Context) -> str | None:
    """Two rescales, one with the slope."""
    slope = abs(float(argument(node, 1, "negative_slope", 0.01)))
    return unary(node, x, y, context) or _overflow(span(x), x.scale32 * slope / y.scale32)


def prelu(node: fx.Node, x: QParams, y: QParams, context: Context) -> str | None:
    """Two rescales, one with the slopes."""
    slope = input_qparams(node, 1)
    negative = None if slope is None else _overflow(span(x) * span(slope), x.scale32 * slope.scale32 / y.scale32)
    return unary(node, x, y, context) or negative


def sum_(node: fx.Node, x: QParams, y: QParams, context: Context) -> str | None:
    """Operands on a common scale, then a rescale."""
    other = input_qparams(node, 1)
    largest = max(x.scale32, x.scale32 if other is None else other.scale32)
    return None if 2 * largest < ADD_SHIFT * y.scale32 else f"input scale {largest:.6g}, output scale {y.scale32:.6g}"


def product(node: fx.Node, x: QParams, y: QParams, context: Context, terms: int = 1) -> str | None:
    """A product of two codes, or a sum of `terms` of them, then a rescale."""
    other = input_qparams(node, 1)
    if other is None:
        return None
    return _overflow(terms * span(x) * span(other), x.scale32 * other.scale32 / y.scale32)


def bmm(node: fx.Node, x: QParams, y: QParams, context: Context) -> str | None:
    """Rows times columns, then a rescale."""
    return product(node, x, y, context, terms=shape(operand(node))[-1])


def exponential(node: fx.Node, x: QParams, y: QParams, context: Context) -> str | None:
    """A table, whose largest entry is a number of 32 bits before it saturates."""
    largest = (127 - x.zero_point) * x.scale32 - math.log(y.scale32)
    return None if largest < math.log(LIMIT) else f"input scale {x.scale32:.6g}, output scale {y.scale32:.6g}"


def total(node: fx.Node, x: QParams, y: QParams, context: Context) -> str | None:
    """A sum of codes, then a rescale."""
    terms = math.prod(shape(operand(node))) // max(math.prod(shape(node)), 1)
    return _overflow(terms * span(x), x.scale32 / y.scale32)


def mean(node: fx.Node, x: QParams, y: QParams, context: Context) -> str | None:
    """A sum of codes, then a rescale."""
    return _overflow(math.prod(shape(operand(node))) / math.prod(shape(node)) * span(x), x.scale32 / y.scale32 / 2)


def softmax(node: fx.Node, x: QParams, y: QParams, context: Context) -> str | None:
    """The input's scale in SOFTMAX's fixed-point format."""
    return None if x.scale32 * SOFTMAX_SHIFT > 1 else f"input scale {x.scale32:.6g}, must be above 2**-26"


def weighted(node: fx.Node, x: QParams, y: QParams, context: Context) -> str | None:
    """Convolutions and matrix products; the bias counts when its data is known."""
    source = weight_source(node)
    scales = weight_scales(node, context)
    if source is None:
        return None
    params = qparams(source)
    largest = float(_terms(node, source) * span(x) * (WEIGHT_RANGE if params is None else span(params)))
    ratio = 0.0 if scales is None else x.scale32 * scales.max().item() / y.scale32
    return _overflow(largest + _largest_bias(node, context), ratio)


def _terms(node: fx.Node, weight: fx.Node) -> int:
    """How many products an output sums up, at most."""
    if target_name(node.target) != "aten.convolution.default":
        return shape(node.args[2 if target_name(node.target) == "aten.addmm.default" else 1])[0]
    sizes = shape(weight)
    per_group = sizes[0] if argument(node, 6, "transposed") else sizes[1]
    return int(per_group * math.prod(sizes[2:]))


def _largest_bias(node: fx.Node, context: Context) -> float:
    position = BIAS_POSITION.get(target_name(node.target))
    bias = None if position is None else operand(node, position)
    data = context.data(bias.args[0]) if bias is not None and is_dequantize(bias) else None
    return 0.0 if data is None or not data.numel() else data.to(torch.float64).abs().max().item()
