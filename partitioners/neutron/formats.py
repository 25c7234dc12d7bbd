"""Which values of a graph are channels-first, and what that makes of axes and transpositions.

The NPU computes channels-last. A value tied to a convolution, pool or resize is NCHW in the graph
and becomes NHWC on the device (`Format.CHANNELS_FIRST`); any other value keeps its axes
(`FORMATLESS`). Elementwise operators, quantize and dequantize tie their result to their operands;
view_copy and permute_copy may change the format, so no tie crosses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

import torch
from torch import fx

from npu_assay.partitioners.exir.ops import DEQUANTIZE, GETITEM, QUANTIZE, target_name


class Format(Enum):
    """How the axes of a value are to be read."""

    CHANNELS_FIRST = "channels-first"
    FORMATLESS = "formatless"
    NONE = "none"


# Operators that fix the format, with the positions of their channels-first operands.
CHANNELS_FIRST_INPUTS: Mapping[str, tuple[int, ...]] = {
    "aten._adaptive_avg_pool2d.default": (0,),
    "aten.avg_pool2d.default": (0,),
    "aten.max_pool2d.default": (0,),
    "aten.max_pool2d_with_indices.default": (0,),
    "aten.upsample_bilinear2d.vec": (0,),
    "aten.upsample_nearest2d.vec": (0,),
    "aten.convolution.default": (0, 1),
}
FORMAT_CHANGING = frozenset({"aten.view_copy.default", "aten.permute_copy.default"})
FORMAT_KEEPING = (
    QUANTIZE
    | DEQUANTIZE
    | {
        GETITEM,
        "aten.abs.default",
        "aten.addmm.default",
        "aten.add.Tensor",
        "aten.bmm.default",
        "aten.cat.default",
        "aten.clamp.default",
        "aten.clone.default",
        "aten.constant_pad_nd.default",
        "aten.hardtanh.default",
        "aten.leaky_relu.default",
        "aten.mean.dim",
        "aten.mm.default",
        "aten.mul.Tensor",
        "aten.neg.default",
        "aten.prelu.default",
        "aten.relu.default",
        "aten.sigmoid.default",
        "aten.slice_copy.Tensor",
        "aten._softmax.default",
        "aten.tanh.default",
        "dim_order_ops._clone_dim_order.default",
    }
)


def node_rank(node: fx.Node) -> int:
    """Number of axes of a node's (first) result; 0 when it is not a tensor."""
    value = node.meta.get("val")
    if isinstance(value, (list, tuple)):
        value = value[0] if value else None
    return value.dim() if isinstance(value, torch.Tensor) else 0


def infer_formats(graph: fx.Graph) -> dict[fx.Node, Format]:
    """The format of every node's result, except the output node.

    Needs `meta["val"]`. Values of rank 0 to 2 are channels-first only as direct operands of a
    channels-first operator. Results of operators that are not in the support table are NONE
    unless a tie makes them channels-first. Source: the rules of the released v1.3.1 inference.
    """
    parent: dict[fx.Node, fx.Node] = {node: node for node in graph.nodes}
    seeds = [value for node in graph.nodes for value in _seeds(node)]
    for node in graph.nodes:
        _join(parent, _tied(node))
    first = {_root(parent, value) for value in seeds}
    return {node: _format(node, _root(parent, node) in first) for node in graph.nodes if node.op != "output"}


def _seeds(node: fx.Node) -> list[fx.Node]:
    """The values that `node` itself makes channels-first: some of its operands and its result."""
    positions = CHANNELS_FIRST_INPUTS.get(target_name(node.target)) if node.op == "call_function" else None
    if positions is None:
        return []
    operands = [node.args[i] for i in positions if i < len(node.args)]
    return [node, *(a for a in operands if isinstance(a, fx.Node))]


def _tied(node: fx.Node) -> list[fx.Node]:
    """The values that must have one format because `node` keeps the format of its operands."""
    if node.op != "call_function" or target_name(node.target) not in FORMAT_KEEPING:
        return []
    return [value for value in (node, *node.all_input_nodes) if node_rank(value) >= 3]


def _format(node: fx.Node, channels_first: bool) -> Format:
    if channels_first:
        return Format.CHANNELS_FIRST
    name = target_name(node.target)
    known = name in FORMAT_KEEPING or name in FORMAT_CHANGING or name in CHANNELS_FIRST_INPUTS
    return Format.FORMATLESS if known or node.op in ("placeholder", "get_attr") else Format.NONE


def _root(parent: dict[fx.Node, fx.Node], node: fx.Node) -> fx.Node:
    while parent[node] is not node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


def _join(parent: dict[fx.Node, fx.Node], nodes: Sequence[fx.Node]) -> None:
    for node in nodes[1:]:
        parent[_root(parent, node)] = _root(parent, nodes[0])


def channel_dim(node: fx.Node, formats: Mapping[fx.Node, Format]) -> int:
    """The non-negative axis that holds the channels: 1 if channels-first, else the last; 0 at rank 0 and 1."""
    rank = node_rank(node)
    if formats.get(node) is Format.CHANNELS_FIRST and rank >= 2:
        return 1
    return max(rank - 1, 0)


def to_nhwc(rank: int) -> tuple[int, ...]:
    """The permutation from channels-first to channels-last: (0, 2, ..., rank-1, 1); identity up to rank 2."""
    return tuple(range(rank)) if rank <= 2 else (0, *range(2, rank), 1)


def to_nchw(rank: int) -> tuple[int, ...]:
    """The permutation from channels-last to channels-first, the inverse of `to_nhwc`."""
    return tuple(range(rank)) if rank <= 2 else (0, rank - 1, *range(1, rank - 1))


def permuted(values: Sequence[int], permutation: Iterable[int]) -> tuple[int, ...]:
    """`values` in the order of `permutation`: result[i] = values[permutation[i]]."""
    return tuple(values[i] for i in permutation)


def is_trivial_transposition(shape: Sequence[int], permutation: Sequence[int]) -> bool:
    """Whether the transposition moves no element, because it only moves axes of size 1."""
    kept = [axis for axis in permutation if shape[axis] != 1]
    return kept == sorted(kept)


def supported_transposition(shape: Sequence[int], permutation: Sequence[int], macs: int = 8) -> bool:
    """Whether the NPU can transpose a tensor of this (device) shape.

    It moves the last axis to position 1, or position 1 to the end, of a batch of one, when the
    axes that change places and the product of the two spatial ones are multiples of `macs`; any
    transposition that moves no element is a reshape. Source: transposition list of v1.3.1.
    """
    if is_trivial_transposition(shape, permutation):
        return True
    if len(shape) != 4 or shape[0] != 1:
        return False
    _, a, b, c = shape
    if tuple(permutation) == (0, 3, 1, 2):
        return c % macs == 0 and (a * b) % macs == 0
    if tuple(permutation) == (0, 2, 3, 1):
        return c % macs == 0 and a % macs == 0 and (b * c) % macs == 0
    return False
