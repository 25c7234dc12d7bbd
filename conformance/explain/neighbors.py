"""The operators around one, and the bytes between them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from torch import fx

from npu_assay.conformance.explain.costs import nbytes, values
from npu_assay.conformance.explain.lowered import converts, source_behind
from npu_assay.conformance.explain.single import is_item
from npu_assay.partitioners.exir.qdq import is_dequantize


def users_of(node: fx.Node) -> Iterator[fx.Node]:
    """The operators that take its results, through conversions."""
    waiting, seen = list(node.users), set[fx.Node]()
    while waiting:
        each = waiting.pop(0)
        if each.op != "call_function" or each in seen:
            continue
        seen.add(each)
        if converts(each):
            waiting += each.users
        else:
            yield each


def is_real_inside(nodes: Sequence[fx.Node], constants: Collection[str]) -> bool:
    """True if no codes stand between these operators, nor between a constant and one of them."""
    within = {*(node.name for node in nodes), *constants}
    coded = (each for node in nodes for each in node.all_input_nodes if is_dequantize(each))
    return not any(source_behind(each).name in within for each in coded)


def joined(node: fx.Node) -> Iterator[str]:
    """The names of operators that it gives real numbers, or takes them from."""
    yield from (each.name for each in map(picked, node.all_input_nodes))
    for user in node.users:
        yield from (each.name for each in (user.users if is_item(user) else (user,)))


def picked(node: fx.Node) -> fx.Node:
    """The operator of several results that a node picks one of; the node itself if it is another."""
    return node.all_input_nodes[0] if is_item(node) else node


def least(node: fx.Node) -> int:
    """The bytes of an operand where they are fewest, between codes and real numbers."""
    found = [nbytes(values(node))]
    while converts(node) and node.all_input_nodes:
        node = node.all_input_nodes[0]
        found.append(nbytes(values(node)))
    return min(found)


def results(node: fx.Node) -> Iterator[list[Any]]:
    """The results of a node, as they are and as they are quantized."""
    yield list(values(node))
    for user in node.users:
        if converts(user):
            yield list(values(user))
