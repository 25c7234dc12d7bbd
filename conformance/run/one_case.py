"""Assay one case: ask the backend, judge what it answers. Whatever the backend does becomes a verdict with a reason.

The two halves are apart: `answering` is where the backend is and knows a program and inputs; here is what the case
promises, and the goldens. `isolation` puts a process between them; `run_case` does both in this one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from npu_assay.conformance.backend.loading import highest_level
from npu_assay.conformance.common.describing import describe
from npu_assay.conformance.judge.second_golden import golden_failures
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Case, Graph
from npu_assay.conformance.programs.seeds import is_first, is_thorough, opened, runs_once
from npu_assay.conformance.programs.variation_names import has_passes
from npu_assay.conformance.record.levels import NUMBERS
from npu_assay.conformance.record.results import (
    SUITE,
    CaseResult,
    Failure,
    program_sha256,
    status_of,
)
from npu_assay.conformance.run.answering import (
    FIRST,
    answer,
)
from npu_assay.conformance.run.drawing import Drawing
from npu_assay.conformance.run.observation import Elsewhere, Observation, judge_answer
from npu_assay.conformance.run.question import Answer, Question
from npu_assay.conformance.run.suite_faults import fault_of_golden, fault_of_program
from npu_assay.conformance.table import Table
from npu_assay.partitioners.exir import Backend


def run_case(
    case: Case, backend: Backend, table: Table, tools: Sequence[str] = (), level: str | None = None
) -> CaseResult:
    """Everything that one case shows about a backend, in this process. Never raises: a crash is a failure of the case.

    tools: those of the backend's blob checks that every delegate must pass as well. level: how far to look, None for
    as far as the backend goes.
    """
    level = highest_level(backend) if level is None else level
    drawing = Drawing(case.graph)
    given = answer(asked(case, table, tools, level=level), backend, drawing)
    return judged(case, table, given, drawing, tools, level=level)


def asked(
    case: Case, table: Table, tools: Sequence[str] = (), beside: Graph | None = None, level: str = NUMBERS
) -> Question:
    """What a case asks of a backend. beside: a program that a row's first case takes turns with."""
    first, anew = is_first(case.id, case.side), is_thorough(case.id, case.side)
    beside = opened(beside) if first and beside is not None else None
    how = {"once": runs_once(case.id, case.side), "passes": has_passes(case.id)}
    return question(case, table, tools=tuple(tools), elsewhere=first, anew=anew, beside=beside, level=level, **how)


def partners(cases: Iterable[Case]) -> dict[str, str]:
    """By the id of each row's first case, that of the next accepted one, which takes turns with it, where there is one.

    Of the same precision, and with the same options of the partitioner.
    """
    found, first = dict[str, str](), dict[tuple[str, str | None], Case]()
    for case in cases:
        key = case.row, case.precision
        if is_first(case.id, case.side):
            first.setdefault(key, case)
        elif case.expect == "accept" and key in first and case.options == first[key].options:
            found.setdefault(first[key].id, case.id)
    return found


def question(case: Case, table: Table, **more: Any) -> Question:
    """A case's program, its inputs open, and how the table has programs made, and nothing else of either."""
    return Question(opened(case.graph), tuple(table.preserve), table.mark, table.backend_id, case.options, **more)


def judged(
    case: Case,
    table: Table,
    given: Answer,
    drawing: Drawing,
    tools: Sequence[str] = (),
    elsewhere: Elsewhere | None = None,
    level: str = NUMBERS,
) -> CaseResult:
    """The result of a case whose question was answered so, on inputs that were drawn so."""

    def judge(seen: Observation) -> None:
        if given.error is not None and (fault := fault_of_program(case, table)) is not None:
            seen.fail(SUITE, fault)
            return
        question = asked(case, table, tools, level=level)
        judge_answer(case, table, given, drawing, question, elsewhere, seen)
        if FIRST in given.runs and level == NUMBERS and not question.once:
            seen.failures += golden_failures(case.graph)

    return result_of(case, judge, table.rescale or None)


def result_of(case: Case, judge: Callable[[Observation], None], scheme: str | None) -> CaseResult:
    """What judging a case comes to, however it ends. scheme: the rescale scheme of its golden's integers."""
    seen = Observation()
    try:
        judge(seen)
    except Exception as error:  # noqa: BLE001  (an answer may be anything)
        fault = fault_of_golden(case.graph, scheme)
        seen.fail(*(("crash", f"judge: {describe(error)}") if fault is None else (SUITE, fault)))
    return _result(case, seen)


def failed(case: Case, check: str, message: str) -> CaseResult:
    """The result of a case that did not answer."""
    seen = Observation()
    seen.fail(check, message)
    return _result(case, seen)


def with_failures(result: CaseResult, found: Sequence[Failure]) -> CaseResult:
    """A result with what was noticed after it, each failure once."""
    known = set(result.failures)
    fresh = [failure for failure in dict.fromkeys(found) if failure not in known]
    return replace(result, failures=(*result.failures, *fresh), status="fail") if fresh else result


def _result(case: Case, seen: Observation) -> CaseResult:
    failures = tuple(seen.failures)
    return CaseResult(
        case=case.id,
        row=case.row,
        constraint=case.constraint,
        side=case.side,
        expect=case.expect,
        reason=case.reason,
        program=program_sha256(case.graph),
        verdict=seen.verdict,
        reasons=seen.reasons,
        status=status_of(case.expect, failures),
        failures=failures,
        metrics=seen.metrics,
        partitions=seen.partitions,
        blobs=tuple(seen.blobs),
        checks=seen.checks,
        elements=seen.elements,
        shapes=_shapes(case.graph) if failures else {},
        pattern=seen.pattern,
    )


def _shapes(graph: Graph) -> dict[str, tuple[tuple[int, ...], ...]]:
    """The shapes of each step's results, in order; nothing of a program that torch refuses."""
    try:
        nodes = build(graph).graph.nodes
    except Exception:  # noqa: BLE001  (a program that cannot be drawn is not another failure)
        return {}
    found = dict[str, tuple[tuple[int, ...], ...]]()
    for node in nodes:
        results = node.meta.get("val")
        if (step := node.meta.get("step")) is not None and node.target is not operator.getitem:
            tensors = results if isinstance(results, list | tuple) else [results]
            found[step] = tuple(tuple(map(_size, x.shape)) for x in tensors if isinstance(x, Tensor))
    return found


def _size(size: int | torch.SymInt) -> int:
    """A dimension; of an open one the size that the case runs with."""
    return size if isinstance(size, int) else int(size.node.hint)
