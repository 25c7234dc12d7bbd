"""Knobs of the numbers of constants, which limits on these ask for: all of them one number, and no zero among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from npu_assay.conformance.cases.boundaries.knob import Knob, operands
from npu_assay.conformance.cases.make import f32
from npu_assay.conformance.programs.graph import Fill, Graph, Value

OF_NUMBERS = frozenset({"has_zero", "only_number"})
"""The features that these knobs move."""


def fills(graph: Graph, names: frozenset[str], reals: Sequence[float]) -> Iterator[Knob]:
    """names: the features of the row's limits. reals: the numbers in them."""
    if not names & OF_NUMBERS:
        return
    numbers = tuple(dict.fromkeys((*(float(n) for n in reals), 0.0, 1.0, 2.0)))
    for value in operands(graph):
        if not (value.quant is not None and isinstance(value.quant.scale, tuple)):
            yield Knob(f"{value.name}_filled", None, numbers, partial(_filled, value.name))


def _filled(name: str, graph: Graph, number: float) -> Graph | None:
    """A constant that is this number everywhere; one input at least stays one."""
    values = tuple(_constant(value, number) if value.name == name else value for value in graph.values)
    return replace(graph, values=values) if any(not value.constant for value in values) else None


def _constant(value: Value, number: float) -> Value:
    """The value as a constant of one number; codes are one step of a scale of that size."""
    quant = value.quant
    if quant is None:
        return replace(value, constant=True, fill=Fill("list", values=(number,)))
    code = quant.zero_point + (number > 0) - (number < 0)
    scale = f32(abs(number)) if number else quant.scale
    return replace(value, constant=True, quant=replace(quant, scale=scale), fill=Fill("list", values=(float(code),)))
