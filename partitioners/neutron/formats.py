"""Which values of a graph are channels-first, and what that makes of axes and transpositions.

The NPU computes channels-last. A value tied to a convolution, pool or resize is NCHW in the graph
and becomes NHWC on the device; any other value keeps its axes. Elementwise operators, quantize and
dequantize tie their result to their operands; no tie crosses any other operator, such as view_copy and permute_copy.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from torch import fx

from npu_assay.partitioners.exir.nodes import rank
from npu_assay.partitioners.exir.ops import DEQUANTIZE, GETITEM, QUANTIZE, target_name
from npu_assay.partitioners.neutron.traits import Operators, Traits

VIEW = "aten.view_copy.default"
POOLS = frozenset(
    {
        "aten._adaptive_avg_pool2d.default",
        "aten.avg_pool2d.default",
        "aten.max_pool2d_with_indices.default",
    }
)
_CONVERTING = QUANTIZE | DEQUANTIZE | {GETITEM}
"""What keeps the format and is not an operator of the NPU."""


def channels_first_nodes(graph: fx.Graph, operators: Operators) -> frozenset[fx.Node]:
    """The nodes whose result is channels-first.

    Needs `meta["val"]`. Values of rank 0 to 2 are channels-first only as direct operands of a
    channels-first operator. Source: the rules of the released v1.3.1 inference.
    """
    parent: dict[fx.Node, fx.Node] = {node: node for node in graph.nodes}
    seeds = [value for node in graph.nodes for value in _seeds(node, operators)]
    for node in graph.nodes:
        _join(parent, _tied(node, operators))
        if target_name(node.target) in POOLS:
            seeds += _around_list_pool(node)
    first = {_root(parent, value) for value in seeds}
    return frozenset(node for node in graph.nodes if _root(parent, node) in first)


def _traits(node: fx.Node, operators: Operators) -> Traits:
    """The traits of the node's operator; default ones for placeholders and operators that the NPU lacks."""
    name = target_name(node.target) if node.op == "call_function" else ""
    return operators.get(name, Traits(keeps_format=name in _CONVERTING))


def _seeds(node: fx.Node, operators: Operators) -> list[fx.Node]:
    """The values that `node` itself makes channels-first: some of its operands and its result."""
    positions = _traits(node, operators).channels_first
    if not positions:
        return []
    operands = [node.args[i] for i in positions]
    return [node, *(a for a in operands if isinstance(a, fx.Node))]


def _tied(node: fx.Node, operators: Operators) -> list[fx.Node]:
    """The values that must have one format because `node` keeps the format of its operands."""
    if not _traits(node, operators).keeps_format:
        return []
    return [value for value in (node, *node.all_input_nodes) if rank(value) >= 3]


def _around_list_pool(pool: fx.Node) -> list[fx.Node]:
    """The values of rank 3 before and after a pool over one spatial axis, which gets a second one of size 1.

    Empty for any other pool: the format of what a model reshapes around an image itself follows from nothing.
    """
    before = _without_conversions(pool.args[0])
    if before is None or not is_spatial_reshape(before) or rank(before.all_input_nodes[0]) != 3:
        return []
    found, ends = [before.all_input_nodes[0]], [pool]
    for end in ends:  # which grows by what only converts
        for user in end.users:
            if target_name(user.target) in _CONVERTING:
                ends.append(user)
            elif is_spatial_reshape(user) and rank(user) == 3:
                found.append(user)
    return found


def _without_conversions(value: object) -> fx.Node | None:
    """What made a value, looking back through quantization."""
    while isinstance(value, fx.Node) and target_name(value.target) in _CONVERTING and value.args:
        value = value.args[0]
    return value if isinstance(value, fx.Node) else None


def is_spatial_reshape(node: fx.Node) -> bool:
    """Whether a reshape keeps images and channels, so that it moves nothing where channels come last, either."""
    source = node.all_input_nodes[0] if node.all_input_nodes else None
    if target_name(node.target) != VIEW or source is None or min(rank(node), rank(source)) < 3:
        return False
    before, after = source.meta["val"].shape, node.meta["val"].shape
    return tuple(before[:2]) == tuple(after[:2])


def _root(parent: dict[fx.Node, fx.Node], node: fx.Node) -> fx.Node:
    while parent[node] is not node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


def _join(parent: dict[fx.Node, fx.Node], nodes: Sequence[fx.Node]) -> None:
    for node in nodes[1:]:
        parent[_root(parent, node)] = _root(parent, nodes[0])


def channel_dim(node: fx.Node, channels_first: Container[fx.Node]) -> int:
    """The non-negative axis that holds the channels: 1 if channels-first, else the last; 0 at rank 0 and 1."""
    axes = rank(node)
    return 1 if node in channels_first and axes >= 2 else max(axes - 1, 0)


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
