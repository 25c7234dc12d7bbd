"""What if: the smallest change of an operator that its partitioner takes, found by asking it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from math import prod
from typing import Any

import torch

from npu_assay.conformance.cases.boundaries.knob import Knob, subject, with_subject
from npu_assay.conformance.cases.boundaries.knobs import knobs
from npu_assay.conformance.cases.boundaries.sizes import resized
from npu_assay.conformance.explain.asking import Asking
from npu_assay.conformance.predicates.features import DIMENSIONS
from npu_assay.conformance.programs.build import model_inputs, module
from npu_assay.conformance.programs.graph import Graph, references
from npu_assay.reference.golden.aten import canonical, parameters

ASKED = 200  # changes of an operator that are tried
WITHIN = 8  # values of a knob that are tried
GROWTH, SMALL = 4, 1 << 16
"""A changed model may have so many times the elements of the operator's operands, and so many more."""
NOT_WRITTEN = re.compile(r"_(rank|constant)(_of_ones)?$")
"""Knobs that no author of a model has: what an operand is, which the operators before it decide."""
MULTIPLES = (2, 4, 8, 16, 32)
FAR = 1.0  # a distance, as from a stride of 2 to one of 4


def smallest_change(graph: Graph, asking: Asking, told: Callable[[Knob, Any], str | None]) -> str | None:
    """The change as it is told, None for what cannot be; None where nothing that was tried is taken."""
    for *_, knob, found in islice(_changes(graph, asking.numbers(subject(graph).op)), ASKED):
        changed = None if NOT_WRITTEN.search(knob.name) else knob.turn(graph, found)
        if changed is None or changed == graph or not _is_near(changed, graph):
            continue
        repairs = _repaired(changed, knob, found) if asking.refused(changed) else ()
        for whole in (changed, *repairs):
            if not _is_near(whole, graph) or not asking.takes(whole):
                continue
            if (not _does_nothing(whole) or _does_nothing(graph)) and (text := told(knob, found)) is not None:
                return text
    return None


def _does_nothing(graph: Graph) -> bool:
    """Whether the operator's result is its operand, as of a permutation that leaves all dimensions in order."""
    constants = {value.name for value in graph.values if value.constant}
    operands = [ref for ref in references(subject(graph).args) if ref.name not in constants]
    values = tuple(replace(value, quant=None) for value in graph.values)
    steps = tuple(replace(step, quant=None) for step in graph.steps)
    real = Graph(values, steps, (*graph.outputs, *operands))
    try:
        with torch.no_grad():
            *results, x = module(real)(*model_inputs(real))
    except Exception:  # noqa: BLE001  (torch raises anything for what has no real form)
        return False
    return len(operands) == 1 and all(torch.equal(y, x) for y in results)


def _is_near(changed: Graph, graph: Graph) -> bool:
    """Whether its operands are not far larger: a limit of a table, as 2 ** 31, is no size to try."""
    return _elements(changed) <= GROWTH * _elements(graph) + SMALL


def _elements(graph: Graph) -> int:
    return sum(prod(value.shape) for value in graph.values)


def _repaired(changed: Graph, knob: Knob, found: Any) -> Iterator[Graph]:
    """A model that torch refuses, with one size of a constant larger or smaller in proportion to an argument."""
    if knob.slots or type(found) is not int or type(knob.at) is not int or min(found, knob.at) < 1:
        return
    for value in changed.values:
        for axis, size in enumerate(value.shape if value.constant else ()):
            for fitting in {size * knob.at // found, size * found // knob.at} - {size, 0}:
                yield resized([(value.name, axis)], changed, fitting)


def _changes(graph: Graph, told: Sequence[int]) -> Iterator[tuple[bool, float, int, Knob, Any]]:
    """Every change of one thing: of what is the operator's own first, then the smallest first."""
    found = []
    for number, knob in enumerate((*knobs(graph, told), *_lists_of_reals(graph))):
        near = dict.fromkeys([*knob.values[:WITHIN], *_rounded(knob)])
        follows = _follows(knob, graph)
        for value in near:
            away = _distance(knob, value)
            found += [(follows or away > FAR, away, number, knob, value)] if value != knob.at else []
    yield from sorted(found, key=lambda each: each[:3])


def _follows(knob: Knob, graph: Graph) -> bool:
    """Whether a knob turns what earlier operators give: a size of what is no constant."""
    constants = {value.name for value in graph.values if value.constant}
    return any(name not in constants for name, _ in knob.slots)


def _lists_of_reals(graph: Graph) -> Iterator[Knob]:
    """Lists of equal real numbers among the arguments, as the factors of a resize, turned together."""
    step = subject(graph)
    for place, (name, *_) in enumerate(parameters(canonical(step.op))[: len(step.args)]):
        at = step.args[place]
        if isinstance(at, tuple) and at and all(type(each) is float and each == at[0] for each in at):
            yield Knob(name, at[0], (1.0, 2.0, 4.0, 8.0, 0.5), partial(_with_list, place))


def _with_list(place: int, graph: Graph, number: float) -> Graph:
    step = subject(graph)
    listed = (number,) * len(step.args[place])
    return with_subject(graph, replace(step, args=(*step.args[:place], listed, *step.args[place + 1 :])))


def _rounded(knob: Knob) -> Iterator[int]:
    """The next multiples of small powers of two, which hardware likes, and the last ones."""
    if knob.number and type(knob.at) is int and knob.at > 0:
        for multiple in MULTIPLES:
            up = -(-knob.at // multiple) * multiple
            yield from (size for size in (up, up - multiple) if size > 0)


def _distance(knob: Knob, value: Any) -> float:
    """How far a change goes: a share of a number; other things are as far as half of it, other types twice."""
    if "dtype" in knob.name:
        return 2.0
    if knob.name in DIMENSIONS:
        return 0.5
    if type(value) in (int, float) and type(knob.at) in (int, float):
        share: float = abs(value - knob.at) / max(1.0, abs(knob.at))
        return share
    return 0.5
