"""Knobs of what stands before and after the operator, which limits on the program around it ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise

from npu_assay.conformance.cases.boundaries.knob import Knob, near, subject, with_subject
from npu_assay.conformance.cases.make import RELU, SUBJECT
from npu_assay.conformance.programs.graph import Graph, Ref, Step, Value, references, renamed
from npu_assay.partitioners.exir.ops import edge_op

ABS = "aten.abs.default"
MOST = 64  # operators in a row
FOLLOWED, BEFORE, ALONG = "followed", "before", "along"
"""The names of steps: after the operator without a quantize node in between, before it, and around it with some."""
OF_CONTEXT = frozenset({"companions", "downstream", "is_input", "returned_real", "upstream", "used"})
"""The features that these knobs move."""


def neighbors(graph: Graph, names: frozenset[str], texts: Sequence[str], told: Sequence[int]) -> Iterator[Knob]:
    """names: the features of the row's limits. texts, told: the texts and numbers in them."""
    if not names & OF_CONTEXT:
        return
    ops = tuple(dict.fromkeys([*(text for text in texts if text.startswith("aten.")), ABS, RELU]))
    inputs = [v for v in graph.values if not v.constant and Ref(v.name) in references(subject(graph).args)]
    if names & {"is_input", "upstream"}:
        for value in inputs:
            yield Knob(f"{value.name}_made", "", ops, partial(_made, value, False))
            if value.quant is not None:
                yield Knob(f"{value.name}_made_real", "", ops, partial(_made, value, True))
    if names & {"downstream", "returned_real"} and subject(graph).outputs == 1:
        yield Knob("followed", "", ops, _followed)
    if "companions" in names and inputs:
        counts = tuple(n for n in near(0, told, 1, 4) if n <= MOST)
        yield Knob("companions", 0, counts, partial(_along, inputs[0]), True)
    if "used" in names:
        yield from _of_use(graph)


def _made(value: Value, real: bool, graph: Graph, op: str) -> Graph | None:
    """An operand that another operator makes of the input. real: without a quantize node in between."""
    return _with_before(
        value, graph, [Step(f"{BEFORE}_{value.name}", op, (Ref(value.name),), (), None if real else value.quant)]
    )


def _along(value: Value, graph: Graph, count: int) -> Graph | None:
    """So many operators before it, each quantized."""
    names = [value.name, *(f"{ALONG}_{number}" for number in range(count))]
    steps = [Step(name, ABS, (Ref(before),), (), value.quant) for before, name in pairwise(names)]
    return _with_before(value, graph, steps) if steps else graph


def _with_before(value: Value, graph: Graph, steps: Sequence[Step]) -> Graph | None:
    """The subject takes what the last of these steps makes in the place of a value; None where it takes another."""
    step = subject(graph)
    if Ref(value.name) not in references(step.args):
        return None
    args = renamed(step.args, {value.name: steps[-1].name})
    place = graph.steps.index(step)
    return with_subject(
        replace(graph, steps=(*graph.steps[:place], *steps, *graph.steps[place:])), replace(step, args=args)
    )


def _followed(graph: Graph, op: str) -> Graph | None:
    """Another operator after it, with the quantize node after that."""
    step = subject(graph)
    if any(Ref(SUBJECT) in references(other.args) for other in graph.steps):
        return None
    after = Step(FOLLOWED, op, (Ref(SUBJECT),), (), step.quant)
    outputs = tuple(Ref(FOLLOWED) if ref == Ref(SUBJECT) else ref for ref in graph.outputs)
    changed = with_subject(graph, replace(step, quant=None))
    return replace(changed, steps=(*changed.steps, after), outputs=outputs)


def is_exposed(graph: Graph) -> bool:
    """Whether a neighbor stands beside the operator without a quantize node, where there are codes.

    The suite's own limits on that may exclude it, whatever a table's limits say of it.
    """
    coded = any(value.quant is not None for value in graph.values)
    real = any(step.name.startswith(f"{BEFORE}_") and step.quant is None for step in graph.steps)
    return coded and (real or any(step.name == FOLLOWED for step in graph.steps))


def _of_use(graph: Graph) -> Iterator[Knob]:
    """Which of several results the model returns; at least one."""
    schema = edge_op(subject(graph).op).schema
    count = 1 if schema is None else len(schema.returns)
    at = tuple(sorted({ref.index for ref in graph.outputs if ref.name == SUBJECT}))
    places = [each for size in (count, 1) for each in combinations(range(count), size)]
    if count > 1 and len(graph.steps) == 1:
        yield Knob("used", at, tuple(place for place in dict.fromkeys(places) if place != at), _returned)


def _returned(graph: Graph, indices: tuple[int, ...]) -> Graph:
    step = replace(subject(graph), outputs=max(subject(graph).outputs, *(index + 1 for index in indices)))
    return replace(with_subject(graph, step), outputs=tuple(Ref(SUBJECT, index) for index in indices))
