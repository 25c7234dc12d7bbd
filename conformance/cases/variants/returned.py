"""The model also returns what the operator takes: of an operator that moves nothing, the same numbers twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from npu_assay.conformance.cases.drafts import OPERATOR, CaseDraft, placed
from npu_assay.conformance.cases.make import SUBJECT, X
from npu_assay.conformance.programs.graph import Graph, Ref, Step, references, renamed

PRECISIONS = ("static_int8",)
"""Precisions that are tried beside a row's first one."""
BEFORE = "before_and_returned"


def operand_returned(precision: str, first: bool, drafts: Sequence[CaseDraft]) -> Iterator[CaseDraft]:
    """The plain case after an abs whose result the model returns, too."""
    if not (first or precision in PRECISIONS):
        return
    for draft in drafts:
        if (draft.constraint, draft.side, draft.variant) == (OPERATOR, "accept", "baseline"):
            yield from _behind_abs(draft.graph)


def _behind_abs(graph: Graph) -> Iterator[CaseDraft]:
    x = next((value for value in graph.values if value.name == X.name), None)
    if x is None or x.constant or x.dtype not in ("float32", "float16") or (x.quant and x.quant.dtype != "int8"):
        return
    before = Step(BEFORE, "aten.abs.default", (X,), (), x.quant)
    steps = (replace(step, args=renamed(step.args, {X.name: BEFORE})) for step in graph.steps)
    operand = _operand(graph)
    outputs = (*graph.outputs, Ref(BEFORE) if operand == X else operand)
    yield placed("operand_returned", Graph(graph.values, (before, *steps), outputs))


def _operand(graph: Graph) -> Ref:
    """The first tensor that the operator takes."""
    step = next(step for step in graph.steps if step.name == SUBJECT)
    return references(step.args)[0]
