"""Operators with their quantize and dequantize nodes: dequantize -> operator -> quantize clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import fx

from npu_assay.partitioners.exir.ops import GETITEM, target_name
from npu_assay.partitioners.exir.qdq import is_compute, is_dequantize, is_quantize
from npu_assay.partitioners.neutron.traits import Operators, Traits


@dataclass(frozen=True)
class Cluster:
    """One operator with the nodes that go where it goes, in graph order."""

    centre: fx.Node
    members: tuple[fx.Node, ...]


def is_auxiliary(node: fx.Node, operators: Operators) -> bool:
    """Whether the node may be unquantized inside another operator's cluster."""
    name, plain = target_name(node.target), Traits()
    return name == GETITEM or operators.get(name, plain).is_auxiliary


def find_clusters(graph: fx.Graph, operators: Operators) -> dict[fx.Node, Cluster]:
    """The cluster of every operator that has one, by its centre.

    From the centre, operands are followed back to dequantize nodes and results forward to quantize
    nodes; on the way there may be auxiliary operators only. Source: cluster rules of v1.3.1.
    """
    order = {node: index for index, node in enumerate(graph.nodes)}
    clusters = {}
    for centre in filter(is_compute, graph.nodes):
        before = _reach(centre, lambda n: n.all_input_nodes, is_dequantize, operators)
        after = _reach(centre, lambda n: n.users, is_quantize, operators)
        if before and after:
            clusters[centre] = Cluster(centre, tuple(sorted(before | after, key=order.__getitem__)))
    return clusters


def _reach(
    centre: fx.Node,
    neighbours: Callable[[fx.Node], Iterable[fx.Node]],
    is_end: Callable[[fx.Node], bool],
    operators: Operators,
) -> set[fx.Node]:
    """Everything from `centre` to the ends; empty when the way meets anything but ends and auxiliaries."""
    found: set[fx.Node] = set()
    stack = [centre]
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found.add(node)
        if is_end(node):
            continue
        following = list(neighbours(node))
        if not all(is_end(n) or is_auxiliary(n, operators) for n in following):
            return set()
        stack.extend(following)
    return found
