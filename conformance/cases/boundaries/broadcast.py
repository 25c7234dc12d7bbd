"""Knobs of operands that are broadcast: one of them has a size of 1, or nothing else, where the others do not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from npu_assay.conformance.cases.boundaries.knob import Knob, exists, operands
from npu_assay.conformance.cases.boundaries.sizes import shaped
from npu_assay.conformance.programs.graph import Graph

ASKED = frozenset({"expanded", "y"})
"""Features of what has a second operand, or is made larger than its first."""


def broadcast(graph: Graph, names: frozenset[str]) -> Iterator[Knob]:
    """Knobs that broadcast one operand, where a limit asks for that. names: the features of the row's limits."""
    if not names & ASKED:
        return
    for value in operands(graph):
        ones = tuple(dict.fromkeys(((1,) * len(value.shape), (1,), value.shape[1:])))
        places = tuple(shape for shape in ones if shape != value.shape and exists(_shaped(value.name, graph, shape)))
        if places:
            yield Knob(f"{value.name}_of_ones", value.shape, places, partial(_shaped, value.name))
        for axis, size in enumerate(value.shape):
            if size > 1 and exists(_one(value.name, axis, graph, 1)):
                yield Knob(f"{value.name}_{axis}_of_one", size, (1,), partial(_one, value.name, axis))


def _shaped(name: str, graph: Graph, shape: tuple[int, ...]) -> Graph:
    return shaped(graph, (name,), shape)


def _one(name: str, axis: int, graph: Graph, size: int) -> Graph:
    """The operand with this size of an axis, where it still has that axis."""
    value = next(each for each in graph.values if each.name == name)
    shape = (*value.shape[:axis], size, *value.shape[axis + 1 :]) if axis < len(value.shape) else value.shape
    return _shaped(name, graph, shape)
