"""What a run says on the terminal: progress while it goes, and a summary that ends with the verdict."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table as Grid

from conformance.report.data import CHECKS, Report
from conformance.results import CaseResult

SHOWN = 5  # failures printed in full; the report has all
PLAIN_STEPS = 10  # lines of progress where there is no terminal


class PlainProgress:
    """A line every tenth of the way, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._start = 0.0
        self._cases = self._done = self._failed = 0

    def started(self, cases: int) -> None:
        self._cases = cases
        self._print(f"{cases} cases")

    def finished(self, result: CaseResult) -> None:
        self._count(result)
        if self._done * PLAIN_STEPS // self._cases > (self._done - 1) * PLAIN_STEPS // self._cases:
            self._print(f"{self._done}/{self._cases} cases, {self.rate():.0f}/s, {self._failed} failures")

    def rate(self) -> float:
        """Cases per second since the first one ended: starting the workers does not count."""
        return (self._done - 1) / max(1e-9, time.monotonic() - self._start)

    def _count(self, result: CaseResult) -> None:
        if not self._done:
            self._start = time.monotonic()
        self._done += 1
        self._failed += result.status == "fail"

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False)


class BarProgress(PlainProgress):
    """A bar with rate and failures, for a terminal."""

    def __init__(self, console: Console, bar: Progress) -> None:
        super().__init__(console)
        self._bar = bar
        self._task = bar.add_task("starting", total=None, rate="", failures=0)

    def started(self, cases: int) -> None:
        self._cases = cases
        self._bar.update(self._task, total=cases, description="cases")

    def finished(self, result: CaseResult) -> None:
        self._count(result)
        self._bar.update(self._task, completed=self._done, rate=f"{self.rate():.0f}/s", failures=self._failed)


@contextmanager
def progress(console: Console) -> Iterator[PlainProgress]:
    """A bar on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield PlainProgress(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    failures = TextColumn("{task.fields[failures]} failures")
    with Progress(*columns, failures, TimeRemainingColumn(), console=console) as bar:
        yield BarProgress(console, bar)


def summary(console: Console, report: Report, folder: Path) -> None:
    """Operators that fail, the first failures, the verdict, and where to read on."""
    if report.failures:
        console.print(_operators(report))
        _print_failures(console, report)
    certificate = report.certificate
    name = f"{certificate.backend['name']} against {report.table.name}@{report.table.version}"
    counts = certificate.counts
    console.print(
        f"{sum(t.cases > 0 for _, t in report.rows)} operators, {counts['cases']} cases: {counts['pass']} pass, "
        f"{counts['fail']} fail, {counts['waived']} waived, {counts['unspecified']} where the table is silent",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"report: {folder / 'report.html'}", highlight=False, soft_wrap=True)
    if certificate.certified:
        console.print(f"[bold green]CERTIFIED[/]: {escape(name)}", highlight=False)
        return
    console.print(f"[bold red]NOT CERTIFIED[/]: {escape(name)}", highlight=False)
    for objection in certificate.objections:
        console.print(f"  because {escape(objection)}", highlight=False, soft_wrap=True)


def _operators(report: Report) -> Grid:
    grid = Grid(box=None, pad_edge=False)
    grid.add_column("operators that fail", no_wrap=True)
    for name in ("cases", "pass", "silent", "fail"):
        grid.add_column(name, justify="right")
    for name, tally in report.rows:
        if tally.failed:
            grid.add_row(name, *map(str, (tally.cases, tally.passed, tally.unspecified, tally.failed)))
    return grid


def _print_failures(console: Console, report: Report) -> None:
    for check, count in report.failed_checks:
        console.print(f"{count} cases fail the check [bold]{check}[/] ({CHECKS.get(check, '')})", highlight=False)
    for failure in report.failures[:SHOWN]:
        lines = [f"  [{f.check}] {f.message}" for f in failure.result.failures]
        rule = [f"  rule: {failure.sentence}"] if failure.sentence else []
        text = "\n".join([failure.result.case, *lines, *rule, f"  again: {failure.command}"])
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    if len(report.failures) > SHOWN:
        console.print(f"... and {len(report.failures) - SHOWN} more, see the report", highlight=False)
