"""Knobs that only limits which name what they turn ask for: groups, how many tensors, how many dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from npu_assay.conformance.cases.boundaries.arguments import Argument, taken_arguments
from npu_assay.conformance.cases.boundaries.knob import Knob, is_order, near, operands
from npu_assay.conformance.cases.boundaries.sizes import resized
from npu_assay.conformance.predicates.features import DIMENSIONS
from npu_assay.conformance.programs.graph import Graph, Ref

GROUPS, DEPTHWISE = "groups", "depthwise"
MOST_TENSORS = 64
BOUNDS, ENDS = "bounds", ("min", "max", "min_val", "max_val")


def asked(graph: Graph, names: frozenset[str], told: Sequence[int]) -> Iterator[Knob]:
    """names: the features of the row's limits. told: the numbers in them."""
    for argument in taken_arguments(graph):
        at = argument.get(graph)
        if argument.name == GROUPS and GROUPS in names and type(at) is int:
            yield Knob("groups_of_channels", at, (*near(at, told, 2, 6), DEPTHWISE), partial(_grouped, argument))
        if argument.name in ENDS and BOUNDS in names:
            numbers = (float(sign * n + more) for sign in (1, -1) for n in told for more in (0, -1, 1))
            ends = (*dict.fromkeys((*numbers, -1.0, 1.0)), None)
            yield Knob(argument.name, at, tuple(end for end in ends if end != at), argument.put)
        if argument.name in names and isinstance(at, tuple) and at:
            yield from _counted(argument, at, graph, told)


def _grouped(argument: Argument, graph: Graph, groups: int | str) -> Graph | None:
    """As many channels more, of a weight that stays; DEPTHWISE: one channel of the weight for each of the input's."""
    x, weight, *others = (*operands(graph),)
    if argument.get(graph) != 1 or len(weight.shape) < 3 or len(x.shape) < 2:
        return None
    slots = [(value.name, 0) for value in (weight, *others)]
    each = weight.shape[1]
    if groups == DEPTHWISE:
        groups, each = x.shape[1], 1
    assert isinstance(groups, int)
    graph = resized([(x.name, 1)], resized([(weight.name, 1)], graph, each), each * groups)
    return argument.put(resized(slots, graph, -(-weight.shape[0] // groups) * groups), groups)


def _counted(argument: Argument, at: tuple[object, ...], graph: Graph, told: Sequence[int]) -> Iterator[Knob]:
    """How long a list of tensors is, or of dimensions that are not an order of all of them."""
    name, rank = f"{argument.name}_count", len(next(operands(graph)).shape)
    if all(isinstance(item, Ref) for item in at):
        counts = tuple(n for n in near(len(at), told, 1, 4) if n <= MOST_TENSORS)
        yield Knob(name, len(at), counts, partial(_tensors, argument), True)
    elif argument.name in DIMENSIONS and all(type(item) is int for item in at) and not is_order(at, rank):  # type: ignore[arg-type]
        counts = tuple(n for n in near(len(at), (), 0, 1) if n <= rank)
        yield Knob(name, len(at), counts, partial(_dimensions, argument, rank), True)


def _tensors(argument: Argument, graph: Graph, count: int) -> Graph | None:
    """The last tensor again and again, each with numbers of its own; or without those at the end."""
    listed = argument.get(graph)
    known = {value.name: value for value in graph.values}
    if len(graph.steps) > 1 or len(graph.values) != len(listed) or listed[-1].name not in known:
        return None
    last = known[listed[-1].name]
    more = tuple(
        replace(last, name=f"{last.name}_{number}", fill=replace(last.fill, seed=last.fill.seed + number))
        for number in range(1, count - len(listed) + 1)
    )
    kept = {ref.name for ref in listed[:count]}
    values = (*(value for value in graph.values if value.name in kept), *more)
    return argument.put(replace(graph, values=values), tuple(Ref(value.name) for value in values))


def _dimensions(argument: Argument, rank: int, graph: Graph, count: int) -> Graph:
    """The first of them, or the others from the last on after them, counted from the end they are counted from."""
    listed = argument.get(graph)
    back = rank if any(dim < 0 for dim in listed) else 0
    others = [dim - back for dim in reversed(range(rank)) if dim - back not in listed and dim not in listed]
    return argument.put(graph, (*listed, *others)[:count])
