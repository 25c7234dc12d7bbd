"""Two programs in one model, and two things that are another in one program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice

from npu_assay.conformance.cases.variations.arguments import arguments, left_out, list_items
from npu_assay.conformance.cases.variations.base import Base, Kind, Variation, in_turn
from npu_assay.conformance.cases.variations.numbers import extremes, special_numbers
from npu_assay.conformance.cases.variations.operands import quantizations, sizes
from npu_assay.conformance.programs.graph import Graph, Ref, renamed


def twins(base: Base) -> Iterator[Variation]:
    """The program and one near it in one model: they share the values that are the same in both, and nothing else."""
    for label, graph in in_turn(list_items(base), arguments(base), quantizations(base), left_out(base), sizes(base)):
        if graph != base.graph:
            yield label, _both(base.graph, graph, base.beside)


def _both(one: Graph, other: Graph, prefix: str) -> Graph:
    apart = (*(value.name for value in other.values if value not in one.values), *(step.name for step in other.steps))
    names = {name: f"{prefix}_{name}" for name in apart}
    values = (replace(v, name=names[v.name]) for v in other.values if v.name in names)
    steps = (
        replace(s, name=names[s.name], args=renamed(s.args, names), kwargs=renamed(s.kwargs, names))
        for s in other.steps
    )
    outputs = (Ref(names.get(ref.name, ref.name), ref.index) for ref in other.outputs)
    return Graph((*one.values, *values), (*one.steps, *steps), (*one.outputs, *outputs))


PRODUCTS: tuple[tuple[Kind, Kind], ...] = (
    (list_items, special_numbers),
    (list_items, extremes),
    (arguments, sizes),
    (sizes, list_items),
    (list_items, arguments),
)
"""Kinds that show together what neither shows alone: lists and numbers, options and ranks, sizes and lists, both."""


def products(base: Base) -> Iterator[Variation]:
    """Each of one kind with one of another kind, which comes in turn."""
    return in_turn(*(_products(base, *kinds) for kinds in PRODUCTS))


def _products(base: Base, first: Kind, second: Kind) -> Iterator[Variation]:
    for turn, (label, graph) in enumerate(first(base)):
        for other, both in islice(cycle(second(replace(base, graph=graph))), turn, turn + 1):
            yield f"{label}_{other}", both
