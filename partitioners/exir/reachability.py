"""Sets of nodes of a graph, with what depends on them and what they depend on.

A set of nodes can be one delegate if it is convex: no path leads out of it and back in. Sets of nodes are integers
here: bit i stands for the i-th node of the graph, so that unions, intersections and reachability are single operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torch import fx


@dataclass(frozen=True)
class NodeSet:
    """Nodes, everything that depends on one of them, and everything that one of them depends on."""

    nodes: int
    below: int
    above: int

    def __or__(self, other: NodeSet) -> NodeSet:
        return NodeSet(self.nodes | other.nodes, self.below | other.below, self.above | other.above)

    @property
    def is_convex(self) -> bool:
        """Whether no path leads out of the set and back in."""
        return not self.below & self.above & ~self.nodes


EMPTY = NodeSet(0, 0, 0)


class Reach:
    """The nodes of a graph by position, and what depends on what."""

    def __init__(self, graph: fx.Graph) -> None:
        self.nodes: list[fx.Node] = list(graph.nodes)
        self.position = {node: index for index, node in enumerate(self.nodes)}
        above = [0] * len(self.nodes)
        for index, node in enumerate(self.nodes):
            for source in node.all_input_nodes:
                at = self.position[source]
                above[index] |= above[at] | 1 << at
        below = [0] * len(self.nodes)
        for index in range(len(self.nodes) - 1, -1, -1):
            for user in self.nodes[index].users:
                at = self.position[user]
                below[index] |= below[at] | 1 << at
        self.singles = [NodeSet(1 << i, below[i], above[i]) for i in range(len(self.nodes))]

    def of(self, nodes: Iterable[fx.Node]) -> NodeSet:
        """A set of nodes of the graph."""
        return union(self.singles[self.position[node]] for node in nodes)

    def members(self, found: NodeSet) -> Iterator[fx.Node]:
        """The nodes of a set, in graph order."""
        rest = found.nodes
        while rest:
            lowest = rest & -rest
            yield self.nodes[lowest.bit_length() - 1]
            rest ^= lowest


def union(sets: Iterable[NodeSet]) -> NodeSet:
    """The union of the sets."""
    found = EMPTY
    for one in sets:
        found |= one
    return found


def in_a_circle(partitions: Sequence[NodeSet]) -> list[NodeSet]:
    """The partitions, each convex, that are in a cycle or depend on one; empty if there is no cycle."""
    waiting = list(partitions)
    while waiting:
        ready = [p for p in waiting if not any(p is not other and other.below & p.nodes for other in waiting)]
        if not ready:
            return waiting
        waiting = [p for p in waiting if p not in ready]
    return []
