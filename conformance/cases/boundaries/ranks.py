"""Knobs of operands: constants or inputs, of how many dimensions, and how many directions windows move in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.boundaries.knob import Knob, is_order, operands, subject, with_subject
from npu_assay.conformance.cases.boundaries.sizes import filled
from npu_assay.conformance.cases.make import f32
from npu_assay.conformance.predicates.features import DIMENSIONS
from npu_assay.conformance.programs.graph import Graph, Ref, Value
from npu_assay.reference.golden.aten import canonical, parameters

ORDINARY, DEEPEST = 8, 24
"""How many dimensions operands are given: whatever the limits are, and where they tell so many (torch has 64)."""


def constants(graph: Graph) -> Iterator[Knob]:
    """Whether an operand is a constant; one input at least stays one."""
    for value in operands(graph):
        yield Knob(f"{value.name}_constant", value.constant, (not value.constant,), partial(_turned, value.name))


def _turned(name: str, graph: Graph, constant: bool) -> Graph | None:
    """An input has one scale for all of it."""
    values = tuple(_as(value, constant) if value.name == name else value for value in graph.values)
    return replace(graph, values=values) if any(not value.constant for value in values) else None


def _as(value: Value, constant: bool) -> Value:
    quant = value.quant
    if not constant and quant is not None and isinstance(quant.scale, tuple):
        quant = replace(quant, scale=f32(max(quant.scale)), axis=None, group=None)
    return replace(value, constant=constant, quant=quant)


def ranks(graph: Graph, told: Sequence[int] = ()) -> Iterator[Knob]:
    """How many dimensions the first operand has, and all others that have as many; leading ones come and go.

    Up to ORDINARY, and up to DEEPEST around the numbers that limits on dimensions tell.
    """
    first = next(operands(graph), None)
    if first is None or first.dynamic:
        return
    rank = len(first.shape)
    alike = {value.name for value in operands(graph) if len(value.shape) == rank and not value.dynamic}
    deep = {n + more for n in told for more in (-1, 0, 1) if ORDINARY < n + more <= DEEPEST}
    others = tuple(n for n in sorted({*range(ORDINARY + 1), *deep}, key=lambda n: (abs(n - rank), n)) if n != rank)
    for names in dict.fromkeys(((first.name,), tuple(sorted(alike)))):
        for size in (2, 1):
            text = f"{'_and_'.join(names)}_rank{'' if size > 1 else '_of_ones'}"
            yield Knob(text, rank, others, partial(of_rank, names, size), True)


def of_rank(names: Iterable[str], size: int, graph: Graph, rank: int) -> Graph | None:
    """New dimensions of this size in front, or the leading ones taken away."""
    values, more = list[Value](), 0
    for value in graph.values:
        if value.name in names:
            more = rank - len(value.shape)
            if value.quant is not None and value.quant.axis is not None:
                return None
            shape = (*(size,) * (rank - len(value.shape)), *value.shape[max(0, len(value.shape) - rank) :])
            value = replace(value, shape=shape, fill=filled(value, shape))
        values.append(value)
    return _reordered(replace(graph, values=tuple(values)), rank, more)


def _reordered(graph: Graph, rank: int, more: int) -> Graph:
    """The subject's dimensions and orders of them, `more` of which are in front now."""
    step = subject(graph)
    names = [name for name, _, _ in parameters(canonical(step.op))]
    args = (_moved(n, item, rank, more) for n, item in zip(names, step.args, strict=False))
    kwargs = tuple((name, _order_of(item, rank)) for name, item in step.kwargs)
    return with_subject(graph, replace(step, args=tuple(args), kwargs=kwargs))


def _moved(name: str, argument: Any, rank: int, more: int) -> Any:
    if name in DIMENSIONS and type(argument) is int and argument >= 0:
        return max(0, argument + more)
    return _order_of(argument, rank)


def _order_of(argument: Any, rank: int) -> Any:
    if not isinstance(argument, tuple) or not all(type(item) is int for item in argument):
        return argument
    was, more = len(argument), rank - len(argument)
    if not is_order(argument, was):
        return argument
    front = [dim + was if dim < 0 else dim for dim in argument]
    return (*range(more), *(dim + more for dim in front if dim + more >= 0))


def directions(graph: Graph) -> Iterator[Knob]:
    """How many directions windows move in: the sizes after batch and channels, and the lists with one number each."""
    first = next(operands(graph), None)
    rank = 0 if first is None else len(first.shape)
    lists = [item for item in subject(graph).args if isinstance(item, tuple) and len(item) == rank - 2]
    if rank > 2 and any(not any(isinstance(each, Ref) for each in item) for item in lists):
        names = tuple(value.name for value in operands(graph) if len(value.shape) == rank)
        others = tuple(n for n in (rank - 3, rank - 1) if 0 < n < 4)
        yield Knob("directions", rank - 2, others, partial(_moving_in, names))


def _moving_in(names: Iterable[str], graph: Graph, directions: int) -> Graph | None:
    """With sizes of 3 in new directions; lists of numbers repeat their first."""
    step, values = subject(graph), list[Value]()
    was = 0
    for value in graph.values:
        if value.name in names:
            was = len(value.shape) - 2
            shape = (*value.shape[:2], *(3,) * (directions - was), *value.shape[2 + max(0, was - directions) :])
            value = replace(value, shape=shape, fill=filled(value, shape))
        values.append(value)
    args = tuple(_in_directions(item, was, directions) for item in step.args)
    return with_subject(replace(graph, values=tuple(values)), replace(step, args=args))


def _in_directions(argument: Any, was: int, directions: int) -> Any:
    if not isinstance(argument, tuple) or len(argument) != was or not all(type(item) is int for item in argument):
        return argument
    return (*argument[:1] * (directions - was), *argument[max(0, was - directions) :])
