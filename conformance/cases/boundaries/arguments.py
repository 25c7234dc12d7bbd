"""Knobs of an operator's arguments, and its dimensions counted from the other end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.boundaries.knob import Knob, is_order, near, operands, subject, with_subject
from npu_assay.conformance.predicates.features import DIMENSIONS
from npu_assay.conformance.programs.graph import Graph
from npu_assay.reference.golden.aten import canonical, parameters

ORDERS = 24  # of dimensions that are tried


@dataclass(frozen=True)
class Argument:
    """An argument of the subject: `place` among those by position, None by name; `default` where it is left out.

    Another program may leave out what the plain one has by position.
    """

    name: str
    place: int | None
    default: Any

    def get(self, graph: Graph) -> Any:
        """What the program gives, lists as tuples."""
        step = subject(graph)
        place = self.place
        if place is None or place >= len(step.args):
            found = dict(step.kwargs).get(self.name, self.default)
        else:
            found = step.args[place]
        return tuple(found) if isinstance(found, list) else found

    def put(self, graph: Graph, found: Any) -> Graph:
        step = subject(graph)
        if self.place is not None and self.place < len(step.args):
            args = (*step.args[: self.place], found, *step.args[self.place + 1 :])
            return with_subject(graph, replace(step, args=args))
        others = tuple(item for item in step.kwargs if item[0] != self.name)
        return with_subject(graph, replace(step, kwargs=(*others, (self.name, found))))

    def put_item(self, index: int, graph: Graph, number: int) -> Graph | None:
        """One item of a list. A single number stands for every item, and is replaced whole."""
        listed = self.get(graph)
        if not isinstance(listed, tuple):
            return self.put(graph, number)
        return self.put(graph, (*listed[:index], number, *listed[index + 1 :])) if index < len(listed) else None

    def put_all(self, graph: Graph, number: int) -> Graph:
        listed = self.get(graph)
        return self.put(graph, (number,) * len(listed) if isinstance(listed, tuple) else number)


def arguments(graph: Graph, told: Sequence[int]) -> Iterator[Knob]:
    """Numbers, truth values and lists among the arguments, also those that the program leaves to their defaults."""
    first = next(operands(graph), None)
    rank = len(first.shape) if first is not None else 0
    for argument in taken_arguments(graph):
        yield from _turns(argument, argument.get(graph), rank, told)


def taken_arguments(graph: Graph) -> Iterator[Argument]:
    """The arguments that torch's schema lists."""
    step = subject(graph)
    for place, (name, keyword_only, default) in enumerate(parameters(canonical(step.op))):
        by_place = not keyword_only and place < len(step.args)
        yield Argument(name, place if by_place else None, default)


def _turns(argument: Argument, at: Any, rank: int, told: Sequence[int]) -> Iterator[Knob]:
    name = argument.name
    if type(at) is bool:
        yield Knob(name, at, (not at,), argument.put)
    elif type(at) is int:
        yield Knob(name, at, near(at, told), argument.put, True)
    elif type(at) is float:
        yield Knob(name, at, (at + 1.0, at / 2, at * 2, -at, 0.0, 1.0), argument.put)
    elif isinstance(at, tuple) and at and all(type(item) is int for item in at):
        if is_order(at, rank):
            orders = (order for order in itertools.permutations(range(rank)) if order != at)
            yield Knob(f"{name}_order", at, tuple(itertools.islice(orders, ORDERS)), argument.put)
        else:
            yield from _list(argument, at, told)


def _list(argument: Argument, at: tuple[int, ...], told: Sequence[int]) -> Iterator[Knob]:
    """Each number of a list, and all of them at once."""
    name = argument.name
    for index, number in enumerate(at):
        yield Knob(f"{name}_{index}", number, near(number, told), partial(argument.put_item, index), True)
    if len(at) > 1 and len(set(at)) == 1:
        yield Knob(name, at[0], near(at[0], told), argument.put_all, True)


# ------------------------------------------------------------------------------------ spellings


def spelled(graph: Graph, rank: int) -> Graph:
    """The model with the subject's dimensions counted from the other end: -1 for 3 of four dimensions, and 3 for -1.

    rank: the number of dimensions that they count.
    """
    step = subject(graph)
    names = [name for name, _, _ in parameters(canonical(step.op))]
    args = (_counted(item, rank) if name in DIMENSIONS else item for name, item in zip(names, step.args, strict=False))
    kwargs = ((name, _counted(item, rank) if name in DIMENSIONS else item) for name, item in step.kwargs)
    return with_subject(graph, replace(step, args=tuple(args), kwargs=tuple(kwargs)))


def _counted(argument: Any, rank: int) -> Any:
    if isinstance(argument, tuple):
        return tuple(_counted(item, rank) for item in argument)
    if type(argument) is not int:
        return argument
    return argument - rank if argument >= 0 else argument + rank
