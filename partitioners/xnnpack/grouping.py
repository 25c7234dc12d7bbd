"""Which operators go into one delegate: groups of nodes that belong together, and merging of groups.

A set of nodes can be one delegate when no way leads out of it and back in. Sets of nodes are integers here: bit i
stands for the i-th node of the graph, so that unions, intersections and reachability are single operations.
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
        """Whether no way leads out of the set and back in."""
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
    """All of them together."""
    found = EMPTY
    for one in sets:
        found |= one
    return found


class Groups:
    """Disjoint sets of nodes that must be in one delegate, in the order in which they were begun.

    Constants belong to the group that asked for them first, as delegates get copies; they are
    ways for nothing, so that only the operators of a group must be convex.
    """

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self.groups: dict[int, tuple[NodeSet, NodeSet]] = {}  # by number: operators, constants
        self.of_node: dict[fx.Node, int] = {}

    def add(self, members: Sequence[fx.Node]) -> bool:
        """Put nodes into one group, with the groups that some of them are in; False if that cannot be one delegate."""
        constants = [n for n in members if n.op != "call_function" and n not in self.of_node]
        operators = [n for n in members if n.op == "call_function"]
        touched = sorted({self.of_node[n] for n in operators if n in self.of_node})
        joined = self.reach.of(operators) | union(self.groups[number][0] for number in touched)
        if not joined.is_convex:
            return False
        number = touched[0] if touched else len(self.of_node)
        data = self.reach.of(constants) | union(self.groups[other][1] for other in touched)
        for other in touched:
            del self.groups[other]
        self.groups[number] = (joined, data)
        for node in (*self.reach.members(joined), *constants):
            self.of_node[node] = number
        return True

    def in_order(self) -> list[NodeSet]:
        """The groups with their constants, in the order in which they were begun."""
        return [operators | data for _, (operators, data) in sorted(self.groups.items())]

    def proposed(self) -> list[NodeSet]:
        """The groups with their constants, the one with the last operator of the graph first."""
        found = sorted(self.groups.values(), key=lambda group: -group[0].nodes.bit_length())
        return [operators | data for operators, data in found]


def merged(groups: Sequence[NodeSet]) -> dict[int, NodeSet]:
    """Groups merged wherever the union is convex, by the position of the first one that went into each.

    One sweep: each group, in order, takes in those behind it that it can; whether they touch does not matter.
    """
    found: dict[int, NodeSet] = {}
    taken: set[int] = set()
    for index, group in enumerate(groups):
        if index in taken:
            continue
        for other in range(index + 1, len(groups)):
            if other not in taken and (group | groups[other]).is_convex:
                group |= groups[other]
                taken.add(other)
        found[index] = group
    return found


def in_a_circle(partitions: Sequence[NodeSet]) -> list[NodeSet]:
    """The partitions, each convex, that cannot run one after another; empty when all can."""
    waiting = list(partitions)
    while waiting:
        ready = [p for p in waiting if not any(p is not other and other.below & p.nodes for other in waiting)]
        if not ready:
            return waiting
        waiting = [p for p in waiting if p not in ready]
    return []
