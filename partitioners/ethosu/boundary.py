"""From proposed partitions to delegates: codes at the border, no cycles, work inside."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import torch
from torch import fx

from npu_assay.partitioners.ethosu.operators import row_of
from npu_assay.partitioners.ethosu.support.common import dtype_of, is_dequantize, is_qdq, is_quantize, no_int64
from npu_assay.partitioners.exir.backend import Rejection
from npu_assay.partitioners.exir.nodes import type_text
from npu_assay.partitioners.exir.ops import GETITEM, target_name
from npu_assay.partitioners.exir.reachability import Reach, in_a_circle
from npu_assay.partitioners.exir.rules import rejection

Nodes = frozenset[fx.Node]
Reasons = dict[fx.Node, tuple[Rejection, ...]]

SENTENCES: Mapping[str, str] = {
    "real_input": "no real number may come from outside the delegate",
    "real_output": "no real number may leave the delegate",
    "not_alone": "it computes nothing, so it must share its partition with an operator that does",
    "uint8": "a partition must not compute on uint8",
}
"""Limits of whole partitions, by code."""


def with_codes_at_border(nodes: Nodes, graph: fx.Graph) -> tuple[Nodes, Reasons]:
    """A partition whose inputs and outputs are codes, and the operators that were removed for that, with reasons.

    Sweeps in graph order until nothing is removed. Quantize and dequantize nodes are removed without a reason: they run
    on the CPU.
    """
    left = set(nodes)
    refused: Reasons = {}
    before = -1
    while before != len(left):
        before = len(left)
        for node in graph.nodes:
            if node in left and not _may_stay(node, left, refused):
                left.remove(node)
    return frozenset(left), refused


def _may_stay(node: fx.Node, nodes: Collection[fx.Node], refused: Reasons) -> bool:
    """Whether no real number crosses the border at the node; the reason of an operator goes to `refused`."""
    if is_quantize(node):
        return node.all_input_nodes[0] in nodes
    if is_dequantize(node):
        return all(user in nodes for user in node.users)
    source, user = _real_input(node, nodes), _real_output(node, nodes)
    if source is not None:
        found = f"{source.name} is {type_text(dtype_of(source))}"
        refused[node] = (rejection(node, "real_input", found, SENTENCES["real_input"]),)
    elif user is not None:
        found = f"{user.name} uses {type_text(dtype_of(node))}"
        refused[node] = (rejection(node, "real_output", found, SENTENCES["real_output"]),)
    elif _is_real_and_unread(node):
        refused[node] = (rejection(node, "real_output", f"nobody uses {node.name}", SENTENCES["real_output"]),)
    return source is None and user is None and node not in refused


def _is_real_and_unread(node: fx.Node) -> bool:
    """Whether nobody gives real numbers codes; of several results, one may be left."""
    kind = dtype_of(node)
    return not node.users and kind is not None and kind.is_floating_point and target_name(node.target) != GETITEM


def _real_output(node: fx.Node, nodes: Collection[fx.Node]) -> fx.Node | None:
    """A user outside that takes real numbers."""
    kind = dtype_of(node)
    if kind is None or not kind.is_floating_point:
        return None
    return next((user for user in node.users if user not in nodes), None)


def with_int64_inside(graph: fx.Graph, reasons: Reasons) -> Reasons:
    """Also refuse who would take 64-bit integers from a refused operator, or give them to one."""
    found = dict(reasons)
    edges = [
        (source, user)
        for source in graph.nodes
        if source in reasons and dtype_of(source) == torch.int64
        for user in source.users
        if user in reasons
    ]
    changed = True
    while changed:
        changed = False
        for source, user in edges:
            if bool(found[source]) != bool(found[user]):
                refused = user if found[source] else source
                text = f"{source.name} is int64, and {source.name if refused is user else user.name} is refused"
                found[refused] = (rejection(refused, "no_int64", text, no_int64.sentence),)
                changed = True
    return found


def _real_input(node: fx.Node, nodes: Collection[fx.Node]) -> fx.Node | None:
    """An operand from outside that is a real number."""
    for source in node.all_input_nodes:
        kind = dtype_of(source)
        if source not in nodes and kind is not None and kind.is_floating_point:
            return source
    return None


# ------------------------------------------------------------------------------------ cycles


def without_cycles(nodes: Nodes, reach: Reach) -> list[Nodes]:
    """The partition, or the pieces of it that can each be one delegate, in graph order.

    Pieces are connected components. If even these have a cycle, each is cut at the paths that lead out of the partition
    and back in.
    """
    if not nodes or reach.of(nodes).is_convex:
        return [nodes] if nodes else []
    pieces = connected(reach, nodes)
    sets = [reach.of(piece) for piece in pieces]
    if all(found.is_convex for found in sets) and not in_a_circle(sets):
        return pieces
    level = _levels(nodes, reach)
    return [
        piece
        for wanted in sorted({level[node] for node in nodes})
        for piece in connected(reach, frozenset(node for node in nodes if level[node] == wanted))
    ]


def connected(reach: Reach, nodes: Nodes) -> list[Nodes]:
    """The parts of a set that no edge within the set connects, by their first nodes."""
    left, found = set(nodes), []
    for start in reach.members(reach.of(nodes)):
        if start not in left:
            continue
        piece, waiting = set[fx.Node](), [start]
        while waiting:
            node = waiting.pop()
            if node in left:
                left.remove(node)
                piece.add(node)
                waiting += [*node.all_input_nodes, *node.users]
        found.append(frozenset(piece))
    return found


def _levels(nodes: Nodes, reach: Reach) -> Mapping[fx.Node, int]:
    """How often a way to the node leaves the set and comes back, at most."""
    level: dict[fx.Node, int] = {}
    for node in reach.nodes:
        inside = node in nodes
        sources = node.all_input_nodes
        level[node] = max((level[s] + (s in nodes and not inside) for s in sources), default=0)
    return level


# ------------------------------------------------------------------------------------ whole partitions


def partition_rejections(nodes: Nodes, graph: fx.Graph) -> Reasons | None:
    """Why a whole partition is refused, for each of its operators; None when it is not."""
    ordered = [node for node in graph.nodes if node in nodes]
    unsigned = next((one for node in ordered for one in (*node.all_input_nodes, node) if _holds_uint8(one)), None)
    if unsigned is not None:
        return dict(_each(ordered, "uint8", f"{unsigned.name} is uint8"))
    if all(map(_vanishes, ordered)):
        operators = sum(not is_qdq(node) for node in ordered)
        found = "alone in its partition" if operators == 1 else f"one of {operators} that compute nothing"
        return dict(_each(ordered, "not_alone", found))
    return None


def _vanishes(node: fx.Node) -> bool:
    """Whether the node leaves nothing in the compiled program, conversions between codes included."""
    vanishes = row_of(node).vanishes
    return is_qdq(node) or (vanishes is not None and vanishes(node))


def _holds_uint8(node: fx.Node) -> bool:
    if dtype_of(node) != torch.uint8:
        return False
    selected = target_name(node.target) == GETITEM
    return not (selected and node.users and all(user.op == "output" for user in node.users))


def _each(nodes: Sequence[fx.Node], code: str, found: str) -> Iterator[tuple[fx.Node, tuple[Rejection, ...]]]:
    """The same rejection of each operator; conversions just stay with the CPU."""
    for node in nodes:
        if not is_qdq(node):
            yield node, (rejection(node, code, found, SENTENCES[code]),)
