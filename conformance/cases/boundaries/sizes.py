"""Knobs of sizes: one for each, with those that torch lets grow with it alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.boundaries.knob import Knob, Slot, exists, near, operands
from npu_assay.conformance.cases.make import spread
from npu_assay.conformance.programs.graph import Graph, Quant, Value


def sizes(graph: Graph, told: Sequence[int]) -> Iterator[Knob]:
    values = {value.name: value for value in graph.values}
    slots = [
        (value.name, axis)
        for value in graph.values
        for axis, size in enumerate(value.shape)
        if size and axis not in value.dynamic
    ]
    seen = set[tuple[Slot, ...]]()
    for slot in slots:
        name, axis = slot
        at = values[name].shape[axis]
        for tied in _tied(graph, slot, [s for s in slots if s != slot and values[s[0]].shape[s[1]] == at]):
            if tied not in seen:
                seen.add(tied)
                text = "_and_".join(f"{value}_{each}" for value, each in tied)
                yield Knob(text, at, near(at, told, 1, 20), partial(resized, tied), True, tied)


def alike(graph: Graph, told: Sequence[int]) -> Iterator[Knob]:
    """One knob for an axis of every operand: a limit on all of them does not get nearer with one.

    It stands nowhere in the plain program, where their sizes differ.
    """
    shapes = {value.name: value.shape for value in operands(graph) if not value.dynamic}
    for axis in range(min(map(len, shapes.values()), default=0)) if len(shapes) > 1 else ():
        slots = tuple((name, axis) for name in shapes)
        at = next(iter(shapes.values()))[axis]
        if at and _grows(graph, slots, at):
            yield Knob(f"all_{axis}", None, near(at, told, 1, 20), partial(resized, slots), joint=True)


def _tied(graph: Graph, slot: Slot, alike: Sequence[Slot]) -> Iterator[tuple[Slot, ...]]:
    """The smallest set of sizes that torch lets grow with this one; those that may grow alone or with others: both."""
    at = next(value.shape[slot[1]] for value in graph.values if value.name == slot[0])
    alone = _grows(graph, (slot,), at)
    if alone:
        yield (slot,)
    if alone and at != 1:
        return
    same_axis = [other for other in alike if other[1] == slot[1]]
    for count in (1, 2, 3):
        for others in itertools.combinations(same_axis if alone else alike, count):
            tied = tuple(sorted((slot, *others), key=lambda s: _place(graph, s)))
            if _grows(graph, tied, at):
                yield tied
                return


def _place(graph: Graph, slot: Slot) -> tuple[int, int]:
    return [value.name for value in graph.values].index(slot[0]), slot[1]


def _grows(graph: Graph, tied: tuple[Slot, ...], at: int) -> bool:
    for size in (at + 1, 2 * at):
        grown = resized(tied, graph, size)
        if grown is not None and exists(grown):
            return True
    return False


def resized(tied: Iterable[Slot], graph: Graph, size: int) -> Graph:
    """The model with this size of these axes."""
    for name, axis in tied:
        graph = replace(graph, values=tuple(_with_size(v, axis, size) if v.name == name else v for v in graph.values))
    return graph


def opened(graph: Graph, slots: Iterable[Slot]) -> Graph:
    """The model with these sizes known only at run time."""
    axes = {name: tuple(axis for other, axis in slots if other == name) for name, _ in slots}
    values = (replace(v, dynamic=() if v.constant else axes.get(v.name, ())) for v in graph.values)
    return replace(graph, values=tuple(values))


def _with_size(value: Value, axis: int, size: int) -> Value:
    shape = (*value.shape[:axis], size, *value.shape[axis + 1 :])
    return replace(value, shape=shape, quant=_scaled(value, shape), fill=filled(value, shape))


def _scaled(value: Value, shape: tuple[int, ...]) -> Quant | None:
    """The quantization with as many scales as the new shape needs."""
    quant = value.quant
    if quant is None or not isinstance(quant.scale, tuple):
        return quant
    assert quant.axis is not None
    count = shape[quant.axis] * (1 if quant.group is None else max(1, shape[-1] // quant.group))
    if count == len(quant.scale):
        return quant
    return replace(quant, scale=spread(max(quant.scale), count))


def filled(value: Value, shape: tuple[int, ...]) -> Any:
    """A fill of one place moves to the first where the place is gone."""
    return replace(value.fill, index=0) if value.fill.index >= math.prod(shape) else value.fill


def shaped(graph: Graph, names: Container[str], shape: tuple[int, ...]) -> Graph:
    """The operands of these names in another shape, their quantization as it was."""
    values = (replace(v, shape=shape, fill=filled(v, shape)) if v.name in names else v for v in graph.values)
    return replace(graph, values=tuple(values))
