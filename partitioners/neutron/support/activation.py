"""Rules of activations and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import fx

from npu_assay.partitioners.exir.compiling import bind
from npu_assay.partitioners.exir.nodes import argument, non_negative, operand, rank, shape
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.qdq import is_dequantize, qparams
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.neutron.formats import channel_dim
from npu_assay.partitioners.neutron.support.rule import Context, Rule

Bounds = tuple[float, float | None]
CLAMP_BOUNDS: Sequence[Bounds] = ((-1, 1), (0, 1), (0, 6), (0, None))
HARDTANH_BOUNDS: Sequence[Bounds] = ((-1, 1), (0, 1), (0, 6), (0, math.inf))
# Without rescaling these are a maximum with zero, or nothing: they cannot fill a kernel of their own.
RELU_LIKE: Sequence[Bounds] = ((0, 6), (0, None), (0, math.inf))


def bounds(node: fx.Node) -> tuple[object, object]:
    """The bounds of a clamp or hardtanh; a clamp without a bound has None there."""
    bound = bind(node)
    names = ("min_val", "max_val") if target_name(node.target) == "aten.hardtanh.default" else ("min", "max")
    return bound[names[0]], bound[names[1]]


def bounds_in(allowed: Sequence[Bounds]) -> Rule:
    """The rule on the bounds of a clamp or hardtanh."""

    def check(node: fx.Node, context: Context) -> str | None:
        found = bounds(node)
        return None if found in allowed else f"bounds {found}"

    names = ", ".join(f"({low}, {high})" for low, high in allowed)
    return Rule("bounds", f"the bounds must be one of {names}", check)


def positions(axis_is_second: bool) -> Rule:
    """The rule on how many channel vectors there are; the channels are dimension 1 or follow the format."""

    def check(node: fx.Node, context: Context) -> str | None:
        sizes = shape(node)
        channels = math.prod(sizes[1:2]) if axis_is_second else context.channels(node)
        found = math.prod(sizes) // channels
        return None if found <= 4096 else f"{found} positions"

    return Rule("positions", "input size divided by channels must be at most 4096", check)


@rule("static_weights")
def constant_slope(node: fx.Node, context: Context) -> str | None:
    """weights must be constant and symmetric (zero point 0), per tensor or per output"""
    slope = operand(node, 1)
    if slope is None or not context.is_constant(slope):
        return "the slope is computed by the model"
    params = qparams(slope) if is_dequantize(slope) else None
    return f"zero point {params.zero_point}" if params is not None and params.zero_point else None


@rule("min_rank")
def min_rank(node: fx.Node, context: Context) -> str | None:
    """the input must have rank 2 or more"""
    return None if rank(operand(node)) >= 2 else f"rank {rank(operand(node))}"


@rule("channel_dim")
def along_channels(node: fx.Node, context: Context) -> str | None:
    """the dimension must be the channel dimension"""
    dim, expected = int(argument(node, 1, "dim")), channel_dim(node, context.channels_first)
    return None if non_negative(dim, rank(node)) == expected else f"dimension {dim}, channels are dimension {expected}"


@rule("max_channels")
def max_channels(node: fx.Node, context: Context) -> str | None:
    """the channel count must be below 4096 / pipelines * 4"""
    limit = 4096 // context.pipes * 4
    return None if context.channels(node) < limit else f"{context.channels(node)} channels, the limit is {limit}"


@rule("max_size")
def max_size(node: fx.Node, context: Context) -> str | None:
    """the input must have at most 65536 * MAC units elements"""
    limit, found = 65536 * context.macs, math.prod(shape(node))
    return None if found <= limit else f"{found} elements, the limit is {limit}"
