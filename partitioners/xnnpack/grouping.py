"""Which operators go into one delegate: groups of nodes that belong together, and merging of groups."""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx

from npu_assay.partitioners.exir.reachability import NodeSet, Reach, union


class Groups:
    """Disjoint sets of nodes that must be in one delegate, in the order in which they were begun.

    Constants belong to the first group that uses them, as delegates get copies. No path leads
    through them, so only the operators of a group must be convex.
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

    One sweep: each group, in order, is merged with the later ones if possible; they need not be connected.
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
