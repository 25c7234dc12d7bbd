"""What if: the smallest change of an operator that its partitioner takes, found by asking it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from npu_assay.conformance.cases.boundaries.knob import Knob
from npu_assay.conformance.cases.boundaries.knobs import knobs
from npu_assay.conformance.explain.asking import Asking
from npu_assay.conformance.graph import Graph, Value

ASKED = 200  # changes of an operator that are tried
WITHIN = 8  # values of a knob that are tried
AXES = ("batch", "channels", "height", "width")
MULTIPLES = (2, 4, 8, 16, 32)


def smallest_change(graph: Graph, asking: Asking) -> tuple[str, Graph] | None:
    """In words, and the changed model; None where nothing that was tried is taken."""
    for _, _, knob, found in islice(_changes(graph), ASKED):
        changed = knob.turn(graph, found)
        if changed is not None and changed != graph and asking.takes(changed):
            return f"{_name(knob, graph)} {_text(knob.at)} -> {_text(found)}", changed
    return None


def _changes(graph: Graph) -> Iterator[tuple[float, int, Knob, Any]]:
    """Every change of one thing, the smallest first."""
    found = []
    for number, knob in enumerate(knobs(graph, ())):
        near = dict.fromkeys([*knob.values[:WITHIN], *_rounded(knob)])
        found += [(_distance(knob, value), number, knob, value) for value in near if value != knob.at]
    yield from sorted(found, key=lambda each: each[:2])


def _rounded(knob: Knob) -> Iterator[int]:
    """The next multiples of small powers of two, which hardware likes, and the last ones."""
    if knob.number and type(knob.at) is int and knob.at > 0:
        for multiple in MULTIPLES:
            up = -(-knob.at // multiple) * multiple
            yield from (size for size in (up, up - multiple) if size > 0)


def _distance(knob: Knob, value: Any) -> float:
    """How far a change goes: a share of a number; other things are as far as half of it, other types twice."""
    if "dtype" in knob.name or knob.name.endswith("_constant"):
        return 2.0
    if "rank" in knob.name:
        return 1.5
    if type(value) in (int, float) and type(knob.at) in (int, float):
        share: float = abs(value - knob.at) / max(1.0, abs(knob.at))
        return share
    return 0.5


def _name(knob: Knob, graph: Graph) -> str:
    """The thing in words: an argument's name, or which size of which operand."""
    if not knob.slots:
        return knob.name.replace("x_rank", "dimensions of x").replace("_of_ones", "")
    values: dict[str, Value] = {value.name: value for value in graph.values}
    names = [_size(values[name], axis) for name, axis in knob.slots]
    return " and ".join(dict.fromkeys(names))


def _size(value: Value, axis: int) -> str:
    if value.constant:
        return f"size {axis} of the constant {value.name}"
    return AXES[axis] if len(value.shape) == len(AXES) else f"size {axis} of {value.name}"


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
