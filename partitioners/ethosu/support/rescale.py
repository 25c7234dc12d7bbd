"""The rule that every RESCALE of an operator has a multiplier, a shift and an operand within their ranges.

RESCALE computes (v * m + 2**(s-1)) >> s with 2 <= s <= 62. Of 32-bit multipliers it wants |v| < 2**(s-1), of
16-bit ones a result within 32 bits (TOSA 1.0).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import fx

from npu_assay.partitioners.ethosu.support.common import is_quantize
from npu_assay.partitioners.ethosu.support.linear import largest_sum, weight_scales
from npu_assay.partitioners.ethosu.support.quantization import operand_params, result_params
from npu_assay.partitioners.ethosu.support.reduction import reduced_count
from npu_assay.partitioners.ethosu.support.rule import Context
from npu_assay.partitioners.exir.nodes import operand, shape
from npu_assay.partitioners.exir.qdq import QParams, input_qparams, qparams

Scalings = Callable[[fx.Node, Context], Iterator["Scaling"]]
"""Finds every RESCALE that an operator needs and whose parameters are known."""
INT32 = 2**31
INT48 = 2**47


@dataclass(frozen=True)
class Scaling:
    """One RESCALE: the ratio of scales, and the largest absolute value that it may get."""

    ratio: float
    largest: int
    is_wide: bool = False
    """Whether the operand has 48 bits, and the multiplier 16."""

    def defect(self) -> str | None:
        """What does not fit, or None."""
        limit_, bits = (INT48, 15) if self.is_wide else (INT32, 31)
        if self.largest >= limit_:
            return f"sums up to {self.largest}"
        if not (math.isfinite(self.ratio) and self.ratio > 0):
            return f"ratio {self.ratio}"
        shift = bits - math.frexp(self.ratio)[1]
        fits = self.largest * self.ratio < INT32 if self.is_wide else self.largest < 2 ** (min(shift, 62) - 1)
        if shift < 2 or not fits:
            return f"ratio {self.ratio:.9g} of numbers up to {self.largest}"
        return None


def span(params: QParams) -> int:
    """The largest distance of a code from the zero point."""
    info = torch.iinfo(params.dtype)
    return max(params.zero_point - info.min, info.max - params.zero_point)


def sum_(node: fx.Node, context: Context) -> Iterator[Scaling]:
    """Both operands on a common scale of 20 (int8) or 12 (int16) more bits, added, rescaled."""
    params, after = operand_params(node, context), result_params(node)
    if not params or not after:
        return
    bits = 20 if params[0].dtype == torch.int8 else 12
    common = 2 * max(one.scale for one in params) / (1 << bits)
    total = 0
    for one in params:
        yield Scaling(one.scale / common, span(one))
        total += math.ceil(span(one) * (one.scale / common))
    yield Scaling(common / after[0].scale, total * (2 if len(params) == 1 else 1))


def product(node: fx.Node, context: Context) -> Iterator[Scaling]:
    params, after = operand_params(node, context), result_params(node)
    if not params or not after:
        return
    first, second = params[0], params[-1]
    yield Scaling(first.scale * second.scale / after[0].scale, span(first) * span(second))


def compared(node: fx.Node, context: Context) -> Iterator[Scaling]:
    """Every operand on the smallest scale, compared, rescaled."""
    params, after = operand_params(node, context), result_params(node)
    smallest = min((one.scale for one in params), default=1.0)
    largest = 0
    for one in params:
        yield Scaling(one.scale / smallest, span(one))
        largest = max(largest, math.ceil(span(one) * (one.scale / smallest)))
    for one in after:
        yield Scaling(smallest / one.scale, largest)


def total(node: fx.Node, context: Context) -> Iterator[Scaling]:
    """A sum of codes."""
    return _total(node, 1, context)


def mean(node: fx.Node, context: Context) -> Iterator[Scaling]:
    """A sum of codes, divided by their count."""
    return _total(node, max(reduced_count(node), 1), context)


def _total(node: fx.Node, divisor: int, context: Context) -> Iterator[Scaling]:
    params, after = operand_params(node, context), result_params(node)
    count = reduced_count(node)
    if not params or not after:
        return
    yield Scaling(params[0].scale / (divisor * after[0].scale), count * span(params[0]))


def weighted(node: fx.Node, context: Context) -> Iterator[Scaling]:
    """Every channel of a product with weights."""
    x, after = input_qparams(node), result_params(_end(node))
    scales = weight_scales(node, context)
    if x is None or not after or scales is None or not 0 < after[0].scale < math.inf:
        return
    largest = largest_sum(node, span(x), context)
    for scale in (float(scales.max()), float(scales.min())):
        yield Scaling(x.scale * scale / after[0].scale, largest, is_wide=x.dtype == torch.int16)


def _end(node: fx.Node) -> fx.Node:
    """The operator whose result is quantized: the product, or the activation after it."""
    user = next(iter(node.users), node)
    return user if len(node.users) == 1 and not is_quantize(user) else node


def matrices(node: fx.Node, context: Context) -> Iterator[Scaling]:
    params, after = operand_params(node, context), result_params(node)
    if not params or not after:
        return
    first, second, depth = params[0], params[-1], shape(operand(node))[-1]
    wide = first.dtype == torch.int16
    yield Scaling(first.scale * second.scale / after[0].scale, depth * span(first) * span(second), wide)


def converted(node: fx.Node, context: Context) -> Iterator[Scaling]:
    """A dequantize node right before a quantize node."""
    before, after = qparams(node.all_input_nodes[0]), qparams(node)
    if is_quantize(node) and before is not None and after is not None:
        yield Scaling(before.scale / after.scale, span(before))


def moved(node: fx.Node, context: Context) -> Iterator[Scaling]:
    """Codes that are the same before and after the operator, but for their parameters."""
    for after in result_params(node):
        for before in operand_params(node, context):
            yield Scaling(before.scale / after.scale, span(before))
