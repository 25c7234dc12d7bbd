"""Runs whose reports are tested: of a backend that drifts, and of one whose texts would break careless markup."""

from __future__ import annotations

import datetime
import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.results import CaseResult, Failure, Reason
from npu_assay.conformance.report.console import PlainProgress
from npu_assay.conformance.report.data import Report, make_report
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.run.session import Request, assay

NEG = "aten.neg.default/operator/accept/baseline"
BREAK = "document.title = 'broken'"
HOSTILE = f'</script><script>{BREAK}</script><img src=x onerror="{BREAK}">\x00\x1b[31m'


def run(folder: Path, name: str, expression: str | None) -> Report:
    """The report of a run of a `fake_backend`, whose files are left in the folder."""
    console = Console(file=io.StringIO())
    request = Request(f"fake_backend:{name}", None, Selection(expression), 1, folder)
    return assay(request, PlainProgress(console), lambda: datetime.date(2026, 6, 1))


def with_results(report: Report, results: list[CaseResult]) -> Report:
    """A report of the same run with other results."""
    return make_report(report.certificate, report.table, results, all_cases(report.table))


def spoiled(report: Report) -> Report:
    """The same run with texts that a backend may have made to break the page, in every place that it can reach."""
    bad = {
        "failures": (
            Failure("crash", f"run: {HOSTILE}", (HOSTILE, "npu.py:3 in run: x")),
            Failure("gate1", HOSTILE),
        ),
        "reasons": (Reason(HOSTILE, HOSTILE, HOSTILE),),
        "status": "fail",
    }
    return with_results(report, [replace(r, **bad) if r.case == NEG else r for r in report.results])  # type: ignore[arg-type]  # as named
