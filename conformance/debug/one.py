"""One case in this process: nothing is isolated, so a debugger reaches everything, and nothing is certified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from npu_assay.conformance.backend.loading import check_level, highest_level, load_backend
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.answering import answer
from npu_assay.conformance.run.drawing import Drawing
from npu_assay.conformance.run.one_case import asked, judged
from npu_assay.conformance.run.question import Answer
from npu_assay.conformance.run.selection import SelectionError, all_cases, cases_near, none_selected
from npu_assay.conformance.table import Table, load_table
from npu_assay.partitioners.exir import Backend

SHOWN = 3  # ids of too many cases


@dataclass(frozen=True)
class Debugged:
    """A case, what the backend answered, and the result that a run would record."""

    case: Case
    table: Table
    answer: Answer
    result: CaseResult


@dataclass(frozen=True)
class Watching:
    """Follows the work: is told each stage as it begins, and each error where it was caught, before it is judged."""

    stage: Callable[[str], None]
    error: Callable[[BaseException], None]

    def entered(self, stage: str) -> None:
        self.stage(stage)

    def changes(self, numeric: bool) -> list[str]:
        """Settings of this process, which others share, are left alone."""
        return []

    def refused(self, error: BaseException) -> str | None:
        """There is no limit of memory here; the error is told."""
        self.error(error)
        return None


def debug(
    spec: str, table_name: str | None, selection: Selection, level: str | None, tools: tuple[str, ...], watch: Watching
) -> Debugged:
    """Ask a backend one case and judge its answer, both in this process.

    level: how far to look, None for as far as the backend goes. Raises UsageError for a backend or a table that cannot
    be loaded, and for a selection of several cases or none.
    """
    torch.set_num_threads(1)
    backend = load_backend(spec)
    level = highest_level(backend) if level is None else level
    check_level(spec, highest_level(backend), level)
    table = load_table(table_name if table_name is not None else backend.table)
    case = _one(table, selection)
    return _asked(backend, table, case, level, tools, watch)


def _one(table: Table, selection: Selection) -> Case:
    known = cases_near(table, selection.expression)
    cases = selection.of(table, known)
    if len(cases) == 1:
        return cases[0]
    if not cases:
        raise none_selected(str(selection) or "all cases", all_cases(table), selection.expression)
    names = ", ".join(case.id for case in cases[:SHOWN])
    rest = ", ..." if len(cases) > SHOWN else ""
    asked = str(selection) or "all cases"
    raise SelectionError(f"{asked}: found {len(cases)} cases ({names}{rest}), expected one: give its whole id with -k")


def _asked(backend: Backend, table: Table, case: Case, level: str, tools: tuple[str, ...], watch: Watching) -> Debugged:
    drawing = Drawing(case.graph)
    given = answer(asked(case, table, tools, level=level), backend, drawing, watch)
    watch.stage("judge")
    return Debugged(case, table, given, judged(case, table, given, drawing, tools, level=level))
