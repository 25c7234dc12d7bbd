"""The Ethos-U backends keep their contract with unread results, narrow codes, and weights in the place of an input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step
from tests.conformance.run.test_own_contract import ROWS, failures, plain_cases

ETHOSU = [(name, row) for name, row in ROWS if name.startswith("ethos")]
QUANTIZED = [(name, row) for name, row in ETHOSU if not row.endswith("/integers")]
WIDE = [(name, row) for name, row in ETHOSU if row.endswith("/int16")]
PER_CHANNEL = [(name, row) for name, row in ETHOSU if row.endswith("linear.default/int8_per_channel")]


def narrowed(graph: Graph, low: int, high: int) -> Graph:
    """The program with inputs of few codes."""

    def new(value: Any) -> Any:
        quant: Quant | None = value.quant
        if value.constant or quant is None or quant.dtype != "int16":
            return value
        return replace(value, quant=replace(quant, qmin=low, qmax=high))

    return replace(graph, values=tuple(map(new, graph.values)))


def beside(graph: Graph, subject: str) -> Graph:
    """The program whose subject nobody reads: another operator gives the output."""
    source = next(value for value in graph.values if value.quant is not None and value.quant.axis is None)
    step = Step("beside", "aten.abs.default", (Ref(source.name),), (), source.quant)
    own = next(step for step in graph.steps if step.name == subject)
    return replace(graph, steps=(*graph.steps[: graph.steps.index(own) + 1], step), outputs=(Ref("beside"),))


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("name", "row"), WIDE)
@pytest.mark.parametrize(("low", "high"), [(-20, 20), (-900, 130)])
def test_16_bit_codes_of_a_narrow_range(name: str, row: str, low: int, high: int) -> None:
    case = plain_cases(name)[row]
    assert not failures(name, narrowed(case.graph, low, high), case)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("name", "row"), QUANTIZED)
def test_a_result_that_nobody_reads(name: str, row: str) -> None:
    case = plain_cases(name)[row]
    assert not failures(name, beside(case.graph, case.subject), case)


@pytest.mark.parametrize(("name", "row"), PER_CHANNEL)
def test_weights_in_the_place_of_the_input(name: str, row: str) -> None:
    case = plain_cases(name)[row]
    (own,) = (step for step in case.graph.steps if step.name == case.subject)
    taken = replace(own, args=(own.args[1], *own.args[1:]))
    steps = tuple(taken if step is own else step for step in case.graph.steps)
    assert not failures(name, replace(case.graph, steps=steps), case)
