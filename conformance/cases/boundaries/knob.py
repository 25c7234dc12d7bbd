"""One thing to change about a model, and what all of them need of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.predicates.applications import NoProgram, application
from npu_assay.conformance.programs.graph import Graph, Step, Value, references

LARGEST = 2**20
LEAST = -8  # of an argument
Slot = tuple[str, int]  # a value and its axis
Turn = Callable[[Graph, Any], Graph | None]


@dataclass(frozen=True)
class Knob:
    """`turn(graph, value)` is the graph with the knob there, or None; `at` is where it stands, `values` where it may.

    `values` come nearest first. `number` says that those between two of them are values as well, `slots` are the
    sizes that it is of. `joint` is turned before others, which may then turn a part of it elsewhere.
    """

    name: str
    at: Any
    values: tuple[Any, ...]
    turn: Turn
    number: bool = False
    slots: tuple[Slot, ...] = ()
    joint: bool = False

    def turned(self, graph: Graph, place: Any) -> Graph | None:
        """The graph with the knob at a place; None for another knob's place: of another kind, or below all its own."""
        fits = type(place) in self._kinds and (type(place) is not int or place >= self._least)
        return self.turn(graph, place) if fits else None

    def fitted(self, number: int | None) -> Any:
        """A number as the knob has it: 6.0 for 6 where it stands at real numbers."""
        return float(number) if number is not None and float in self._kinds else number

    @cached_property
    def _kinds(self) -> frozenset[type]:
        return frozenset(map(type, (self.at, *self.values)))

    @cached_property
    def _least(self) -> int:
        return min(place for place in (self.at, *self.values) if type(place) is int)


def near(at: int, told: Sequence[int], least: int = LEAST, doublings: int = 8) -> tuple[int, ...]:
    """Whole numbers around one, nearest first, then those around the limits' numbers, then powers of two."""
    close = [at + sign * step for step in range(1, 5) for sign in (1, -1)]
    limits = sorted({n + more for n in told for more in (-1, 0, 1, n)}, key=lambda n: (abs(n - at), n))
    far = sorted((2**power for power in range(1, doublings + 1)), key=lambda n: abs(n - at))
    found = dict.fromkeys([*close, *limits, 2 * at, 3 * at, *far])
    return tuple(n for n in found if least <= n <= LARGEST and n != at)


def exists(graph: Graph) -> bool:
    """Whether torch takes the model."""
    try:
        application(graph, SUBJECT)
    except NoProgram:
        return False
    return True


def subject(graph: Graph) -> Step:
    return next(step for step in graph.steps if step.name == SUBJECT)


def with_subject(graph: Graph, changed: Step) -> Graph:
    return replace(graph, steps=tuple(changed if step.name == SUBJECT else step for step in graph.steps))


def operands(graph: Graph) -> Iterator[Value]:
    """The values that the subject takes, in order; of a step before it those that it takes."""
    named = {value.name: value for value in graph.values}
    steps = {step.name: step for step in graph.steps}
    waiting = list(references(subject(graph).args))
    while waiting:
        name = waiting.pop(0).name
        if name in named:
            yield named[name]
        else:
            waiting = [*references(steps[name].args), *waiting]


def is_order(at: tuple[int, ...], rank: int) -> bool:
    return rank > 1 and sorted(dim + rank if dim < 0 else dim for dim in at) == list(range(rank))
