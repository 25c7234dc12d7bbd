"""What a run says on the terminal: progress while it goes, and a summary that ends with the verdict."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from npu_assay.conformance.common.escaped import counted, listed, plain
from npu_assay.conformance.findings import NOT_JUDGED, WORD, statuses
from npu_assay.conformance.programs.variation_names import SIDE
from npu_assay.conformance.record.certificate import UNDECIDED, Certificate, verdict_text
from npu_assay.conformance.record.levels import NUMBERS, named, unjudged
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.report.bounds import free_cases
from npu_assay.conformance.report.data import Report, command
from npu_assay.conformance.report.findings import Finding
from npu_assay.conformance.report.words import LISTED, TRUST_MEANS, trait_text

if TYPE_CHECKING:
    from npu_assay.conformance.fuzz.stream import Small

SHOWN = 4  # findings printed; the report has all
PLAIN_STEPS = 10  # lines of progress where there is no terminal


class PlainProgress:
    """A line every tenth of the way, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._start = 0.0
        self._cases = self._done = self._failed = 0

    def started(self, cases: int) -> None:
        self._cases = cases
        self._print(counted(cases, "case"))

    def finished(self, result: CaseResult) -> None:
        self._count(result)
        if self._done * PLAIN_STEPS // self._cases > (self._done - 1) * PLAIN_STEPS // self._cases:
            self._print(f"{self._done}/{self._cases} cases, {self.rate():.0f}/s, {counted(self._failed, 'failure')}")

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


def _say(console: Console, text: str, markup: bool = True) -> None:
    """Print a text as it is, which a terminal may break where it likes."""
    console.print(text, highlight=False, markup=markup, soft_wrap=True)


def summary(console: Console, report: Report, folder: Path) -> None:
    """What is wrong, the verdict, and where to read on."""
    _print_findings(console, report)
    for program in report.programs[:SHOWN]:
        _say(console, program_text(report, program), markup=False)
    certificate = report.certificate
    name = plain(report.title)
    counts = certificate.counts
    _say(
        console,
        f"{counted(sum(t.cases > 0 for _, t in report.rows), 'operator')}, {counted(counts['cases'], 'case')}: "
        f"{counts['pass']} pass, "
        f"{counts['fail']} fail, {counts['waived']} waived, {counts['unspecified']} where the table is silent"
        + (f", {counts[UNDECIDED]} undecided" if UNDECIDED in counts else ""),
    )
    if varied := sum(result.side == SIDE for result in report.results):
        _say(console, f"{varied} of these cases are variations of plain programs")
    if certificate.selection.seed:
        _say(console, f"random numbers of seed {certificate.selection.seed}")
    if certificate.fuzz is not None:
        fuzz = certificate.fuzz
        _say(console, f"{counted(fuzz.programs, 'random program')} of seed {fuzz.seed}: {fuzz.fail} fail")
    if certificate.kept is not None:
        _say(console, str(certificate.kept))
    if free := free_cases(report.wide):
        text = f"{counted(free, 'case')} may be off by more than 2 LSB or 1 % of the range unnoticed"
        _say(console, f"{text}: 'Wide bounds' in the report")
    _say(console, plain(f"report: {folder / 'report.html'}"), markup=False)
    _say(console, f"trust: {certificate.trust}: {TRUST_MEANS}", markup=False)
    level = certificate.level
    is_judged = _print_statuses(console, certificate, report.results)
    if certificate.certified:
        _print_certified(console, name, certificate)
        return
    if certificate.passed:
        headline = named("[bold green]PASSED[/]" if is_judged else "[bold yellow]NOT JUDGED[/]", level)
        _say(console, f"{headline}: {escape(name)}{unjudged(level)}")
        _say(console, f"  no certificate: {escape(plain(certificate.objections[0]))}")
        return
    _print_not_passed(console, name, certificate)


def _print_statuses(console: Console, certificate: Certificate, results: Sequence[CaseResult]) -> bool:
    """The findings that were asked for, each with its status; whether anything else was asked or was judged."""
    backend, asked = certificate.backend["spec"], certificate.selection.expression
    found = list(statuses(backend, asked, {result.case: result.status for result in results}))
    for one, status, why in found:
        told = f"{status}: {WORD}/{one.name}{why and f' ({why})'}; docs/reports/{one.page}.md"
        _say(console, told, markup=False)
    hidden = {case for one, status, _ in found if status == NOT_JUDGED for case in one.cases}
    return not hidden or any(result.case not in hidden for result in results)


def _print_not_passed(console: Console, name: str, certificate: Certificate) -> None:
    """The headline and the reasons. That a part of the cases was run is why there is no certificate, and no fault."""
    selection, level = certificate.selection, certificate.level
    failed = "NOT CERTIFIED" if selection.everything else "NOT PASSED"
    headline = named("[bold yellow]UNDECIDED[/]" if certificate.undecided else f"[bold red]{failed}[/]", level)
    _say(console, f"{headline}: {escape(name)}{unjudged(level)}")
    for objection in sorted(certificate.objections, key=lambda text: text == selection.objection):
        part = not selection.everything and objection == selection.objection
        _say(console, f"  {'no certificate:' if part else 'because'} {escape(plain(objection))}")


def _print_certified(console: Console, name: str, certificate: Certificate) -> None:
    """The last line, which says what was not judged, and how many cases are waived, the louder the more they are."""
    counts, level = certificate.counts, certificate.level
    waived = verdict_text(True, counts, NUMBERS).removeprefix("certified")
    color = "green" if not waived else "yellow" if counts["waived"] < counts["pass"] else "red"
    headline = f"{named(f'[bold {color}]CERTIFIED', level)}{waived.upper()}[/]"
    _say(console, f"{headline}: {escape(name)}{unjudged(level)}")


def _print_findings(console: Console, report: Report) -> None:
    for finding in report.findings[:SHOWN]:
        _say(console, f"\n{finding_text(report, finding)}", markup=False)
    if report.findings:
        rest = len(report.findings) - SHOWN
        console.print(f"\n... and {rest} more findings, see the report\n" if rest > 0 else "")


def program_text(report: Report, program: Small) -> str:
    """A failing random program in its smallest form, and its command."""
    lines = [
        *map(str, program.small.failures),
        *program.text.splitlines(),
        f"again    {again(report, program)}",
    ]
    head = f"Random programs that fail like {program.drawn.case}: {program.alike}; the smallest is {program.small.case}"
    return "\n  ".join(["\n" + plain(head), *map(plain, lines), ""])


def again(report: Report, program: Small) -> str:
    """The command that runs a random program again."""
    return command(report.certificate, program.small.case, report.path)


def finding_text(report: Report, finding: Finding) -> str:
    """One finding as plain text: headline, where, what its cases share, the simplest case and its command."""
    first = report.first(finding)
    places = [f"{row} ({failing} of {cases})" for row, failing, cases in finding.where]
    lines = [
        *([f"rule     {finding.symptom.rule}: {report.rule(finding)}"] if report.rule(finding) else []),
        f"where    {listed(places)}",
        *(f"errors   {count} times {message}" for message, count in finding.errors[:LISTED]),
        *([f"cases    {listed(finding.variants)}"] if finding.symptom.rule else []),
        *(f"common   {trait_text(finding, trait)}" for trait in finding.common),
        f"look at  {finding.symptom.look}",
        f"example  {first.result.case}",
        *(f"         {failure}" for failure in first.result.failures),
        f"again    {first.command}",
    ]
    return "\n  ".join([plain(f"{finding.symptom.what}: {counted(len(finding.cases), 'case')}"), *map(plain, lines)])
