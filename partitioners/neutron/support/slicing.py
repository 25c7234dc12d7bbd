"""Rules of operators that cut, join, pad and resize."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import fx

from npu_assay.partitioners.exir.layout import arranged, to_channels_last
from npu_assay.partitioners.exir.nodes import argument, non_negative, operand, rank, shape, size_text
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.neutron.formats import channel_dim, supported_transposition
from npu_assay.partitioners.neutron.support.common import (
    channel_count_problem,
)
from npu_assay.partitioners.neutron.support.rule import Context

NEAREST = "aten.upsample_nearest2d.vec"
SCALES = (2, 4)
AXIS_SCALES = (1, 2, 4, 8)


def device_dim(dim: int, node: fx.Node, context: Context) -> int:
    """Where a dimension of the node's result is on the device."""
    return to_channels_last(rank(node)).index(dim) if context.is_channels_first(node) else dim


def device_shape(node: fx.Node, sizes: tuple[int, ...], context: Context) -> tuple[int, ...]:
    """A shape in the order of axes that the device gives to the node's result."""
    return arranged(sizes, to_channels_last(len(sizes))) if context.is_channels_first(node) else sizes


# ------------------------------------------------------------------------------------ slice


def _slice_dim(node: fx.Node) -> int:
    return non_negative(int(argument(node, 1, "dim", 0)), rank(operand(node)))


@rule("non_negative_range")
def slice_range(node: fx.Node, context: Context) -> str | None:
    """start and end must be non-negative and start must be before end"""
    start, end = argument(node, 2, "start"), argument(node, 3, "end")
    sizes = shape(operand(node))
    size = sizes[_slice_dim(node)]
    first, last = 0 if start is None else start, size if end is None else end
    return None if first >= 0 and last >= 0 and min(first, size) < min(last, size) else f"{start} to {end}"


@rule("sliced_dim_multiple_of")
def sliced_dim(node: fx.Node, context: Context) -> str | None:
    """the size of the sliced dimension must be a multiple of the number of MAC units"""
    sizes = shape(operand(node))
    found = sizes[_slice_dim(node)] if sizes else 1
    return f"size {found}, {context.macs} MAC units" if found % context.macs else None


@rule("transposition")
def sliced_dim_to_last(node: fx.Node, context: Context) -> str | None:
    """this transposition is not one that the NPU can do"""
    x = operand(node)
    if x is None:
        return None
    sizes, dim = device_shape(node, shape(x), context), device_dim(_slice_dim(node), node, context)
    swap = list(range(len(sizes)))
    swap[dim], swap[-1] = swap[-1], swap[dim]
    if supported_transposition(sizes, swap, context.macs):
        return None
    return f"{size_text(sizes)} by {tuple(swap)} to slice dimension {_slice_dim(node)}"


# ------------------------------------------------------------------------------------ cat


def cat_operands(node: fx.Node) -> list[fx.Node]:
    """The values that a concatenation joins, in order."""
    found = node.args[0] if node.args else ()
    return [item for item in found if isinstance(item, fx.Node)] if isinstance(found, (list, tuple)) else []


def cat_dim(node: fx.Node) -> int:
    """The axis of a concatenation, counted from the front."""
    return non_negative(int(argument(node, 1, "dim", 0)), rank(node))


@rule("min_inputs")
def cat_min_inputs(node: fx.Node, context: Context) -> str | None:
    """there must be at least 2 different inputs"""
    if context.options.force_delegate_cat:
        return None
    found = len(node.all_input_nodes)
    return None if found >= 2 else f"{found} different inputs"


@rule("channels_multiple_of")
def cat_channels(node: fx.Node, context: Context) -> str | None:
    """the channel count must be a multiple of the number of MAC units"""
    if context.options.force_delegate_cat:
        return None
    for tensor in (*cat_operands(node), node):
        problem = channel_count_problem(_cat_channels(tensor, node, context), context)
        if problem is not None:
            return f"{'the result' if tensor is node else tensor.name} has {problem}"
    return None


def _cat_channels(tensor: fx.Node, node: fx.Node, context: Context) -> int:
    sizes = shape(tensor)
    return sizes[channel_dim(node, context.channels_first)] if sizes else 1


# ------------------------------------------------------------------------------------ pad


@rule("channel_and_batch_padding")
def padded_dims(node: fx.Node, context: Context) -> str | None:
    """only height and width may be padded, not batch or channels"""
    dims, pads = rank(operand(node)), list(argument(node, 1, "pad"))
    padded = [dims - 1 - index // 2 for index, amount in enumerate(pads) if amount != 0]
    refused = {channel_dim(node, context.channels_first)} | ({0} if dims >= 3 else set())
    found = sorted(refused.intersection(padded))
    return f"dimension {found[0]} of {size_text(shape(operand(node)))} is padded" if found else None


@rule("non_negative_padding")
def pad_amounts(node: fx.Node, context: Context) -> str | None:
    """padding must not be negative"""
    pads = list(argument(node, 1, "pad"))
    return f"padding {pads}" if any(amount < 0 for amount in pads) else None


@rule("quantized")
def pad_value(node: fx.Node, context: Context) -> str | None:
    """the operator must stand between dequantize and quantize nodes (static int8)"""
    found = argument(node, 2, "value", 0)
    return f"padding value {found}" if isinstance(found, float) and not math.isfinite(found) else None


# ------------------------------------------------------------------------------------ resize


@rule("scale")
def resize_scale(node: fx.Node, context: Context) -> str | None:
    """height and width must both be scaled by the same factor, one of [2, 4]"""
    before, after = shape(operand(node))[2:], shape(node)[2:]
    if any(after == tuple(scale * size for size in before) for scale in SCALES):
        return _other_factor(node, before, after)
    return f"{size_text(before)} to {size_text(after)}"


@rule("axis_scale")
def axis_scale(node: fx.Node, context: Context) -> str | None:
    """height and width must each be scaled by one of [1, 2, 4, 8]"""
    before, after = shape(operand(node))[2:], shape(node)[2:]
    if all(big in [scale * small for scale in AXIS_SCALES] for small, big in zip(before, after, strict=True)):
        return _other_factor(node, before, after)
    return f"{size_text(before)} to {size_text(after)}"


def _other_factor(node: fx.Node, before: Sequence[int], after: Sequence[int]) -> str | None:
    """A factor that only rounds to these sizes: torch reads pixels by it, the device by the sizes."""
    position = 2 if target_name(node.target) == NEAREST else 3
    if position == 3 and argument(node, 2, "align_corners"):
        return None
    factors = zip(argument(node, position, "scale_factors") or (), before, after, strict=False)
    return next((f"factor {factor!r}" for factor, small, big in factors if factor * small != big), None)
