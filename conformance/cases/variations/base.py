"""The program that is varied, and how it is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Any, TypeVar

from npu_assay.conformance.predicates.features import Application
from npu_assay.conformance.programs.graph import Graph, Ref, Step, Value, references

Variation = tuple[str, Graph]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Base:
    """A program, the name of the step that is varied, and what that step is applied to."""

    graph: Graph
    subject: str
    use: Application

    @property
    def step(self) -> Step:
        """The step that is varied."""
        return next(step for step in self.graph.steps if step.name == self.subject)

    @property
    def operands(self) -> tuple[Ref, ...]:
        """The tensors that the step takes, each once."""
        return tuple(dict.fromkeys(references((self.step.args, self.step.kwargs))))

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the first operand; none where there is no operand."""
        return self.use.operands[0].shape if self.use.operands else ()

    @property
    def values(self) -> tuple[Value, ...]:
        """Values of the program among its operands."""
        names = {ref.name for ref in self.operands}
        return tuple(value for value in self.graph.values if value.name in names)

    @property
    def beside(self) -> str:
        """A name that no part of the program has."""
        names = {value.name for value in self.graph.values} | {step.name for step in self.graph.steps}
        return next(name for name in ("beside", "another", "one_more") if not any(n.startswith(name) for n in names))

    def with_step(self, **changes: Any) -> Graph:
        """The program with changes in the step."""
        steps = (replace(s, **changes) if s.name == self.subject else s for s in self.graph.steps)
        return replace(self.graph, steps=tuple(steps))

    def with_values(self, changes: dict[str, dict[str, Any]]) -> Graph:
        """The program with changes in values, by name."""
        return replace(self.graph, values=tuple(replace(v, **changes.get(v.name, {})) for v in self.graph.values))


Kind = Callable[[Base], Iterator[Variation]]


def in_turn(*several: Iterable[Item]) -> Iterator[Item]:
    """One of each, the second of each and so on: what stands first is of all of them."""
    return (item for item in chain.from_iterable(zip_longest(*several)) if item is not None)


def ends(count: int) -> tuple[int, ...]:
    """The places of the last, second and first of so many, each once."""
    return tuple(dict.fromkeys(place for place in (count - 1, 1, 0) if 0 <= place < count))


def replaced(items: tuple[Item, ...], place: int, item: Item) -> tuple[Item, ...]:
    """Items with another one in a place."""
    return (*items[:place], item, *items[place + 1 :])
