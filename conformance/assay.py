"""One whole run: choose cases, run them, keep a journal, conclude, write the folder."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from conformance import __version__
from conformance.about import About, about
from conformance.certificate import SCHEMA, Certificate, Selection, conclude
from conformance.environment import digest_of, environment, suite_sources
from conformance.execution import Job, Pool, run_all
from conformance.graph import Case
from conformance.isolation import LIMITS, Crew, Limits, Subject
from conformance.journal import Identity, journal
from conformance.package import RESULTS, TABLE, results_text, sha256, write_package
from conformance.report.data import Report, make_report
from conformance.report.render import reports
from conformance.results import CaseResult
from conformance.selection import SelectionError, all_cases
from conformance.table import Table, load_table, table_path
from conformance.waivers import Waiver

DISTRIBUTION = "npu-assay"


class Progress(Protocol):
    """Is told about the run as it goes."""

    def started(self, cases: int) -> None: ...

    def finished(self, result: CaseResult) -> None: ...


@dataclass(frozen=True)
class Request:
    """What `assay certify` was asked for. table: name or path, None for the backend's own. tools: its blob checks.

    pool: where cases run; None for isolated processes of this machine. resume: go on with an interrupted run.
    """

    backend: str
    table: str | None
    selection: Selection
    workers: int
    folder: Path
    waivers: tuple[Waiver, ...] = ()
    pool: Pool | None = None
    tools: tuple[str, ...] = ()
    limits: Limits = LIMITS
    resume: bool = False


def assay(request: Request, progress: Progress, today: Callable[[], datetime.date]) -> Report:
    """Run the cases and write the folder; returns what the reports show.

    Raises BackendSpecError, TableError, SelectionError or PackageError before any case runs.
    """
    with ExitStack() as stack:
        crew = None if request.pool else stack.enter_context(Crew(_subject(request)))
        known = about(request.backend, request.tools) if crew is None else crew.about
        job = Job(request.backend, request.table or known.table, request.tools, request.limits)
        table = load_table(job.table)
        cases = _cases(request.selection, table)
        made = _Made(request, known, table, suite_sources(), environment())
        written = stack.enter_context(journal(request.folder, made.identity, cases, request.resume))
        results = list(written.finished)
        rest = _without(cases, results)
        progress.started(len(rest))
        for result in _results(crew, job, rest, request):
            written.add(result)
            results.append(result)
            progress.finished(result)
    results.sort(key=lambda result: result.case)
    certificate = made.certificate(cases, results, today())
    report = make_report(certificate, table, results, cases, known.path)
    texts = {RESULTS: results_text(results), TABLE: table_path(job.table).read_bytes().decode(), **reports(report)}
    write_package(request.folder, texts, certificate)
    return report


def _subject(request: Request) -> Subject:
    return Subject(request.backend, request.table, request.tools, request.limits)


def _results(crew: Crew | None, job: Job, cases: Sequence[Case], request: Request) -> Iterator[CaseResult]:
    if crew is not None:
        return crew.run(cases, request.workers)
    return run_all(job, tuple(case.id for case in cases), request.workers, request.pool)


def _cases(selection: Selection, table: Table) -> tuple[Case, ...]:
    """The selected cases. Raises SelectionError when there is none."""
    known = all_cases(table)
    cases = selection.of(known)
    if not cases:
        raise SelectionError(f"{selection}: matches none of {len(known)} case ids, which look like {known[0].id}")
    return cases


def _without(cases: Sequence[Case], results: Sequence[CaseResult]) -> tuple[Case, ...]:
    finished = {result.case for result in results}
    return tuple(case for case in cases if case.id not in finished)


@dataclass(frozen=True)
class _Made:
    """What a run is of and made with."""

    request: Request
    backend: About
    table: Table
    suite: dict[str, str]
    environment: dict[str, str]

    @property
    def identity(self) -> Identity:
        """What makes two runs the same run, but for when they ran and on how many processes."""
        return {
            "backend": self.request.backend,
            "sources of the backend": digest_of(self.backend.sources),
            "sources of the suite": digest_of(self.suite),
            "table": f"{self.table.name}@{self.table.version} {self.table.sha256}",
            "selection": str(self.request.selection) or "all cases",
            "further compilers": ", ".join(self.request.tools) or "none",
            "limits": str(self.request.limits),
            **{f"version of {name}": found for name, found in {**self.environment, **self.backend.tools}.items()},
        }

    def certificate(self, cases: Sequence[Case], results: Sequence[CaseResult], today: datetime.date) -> Certificate:
        """The certificate of the finished run."""
        request, table = self.request, self.table
        verdict = conclude(results, cases, request.selection, request.waivers, today)
        return Certificate(
            schema=SCHEMA,
            suite={"name": DISTRIBUTION, "version": __version__, "sources": self.suite},
            backend={
                "name": self.backend.name,
                "spec": request.backend,
                "sources": self.backend.sources,
                "tools": list(request.tools),
            },
            table={"name": table.name, "version": table.version, "path": request.table, "sha256": table.sha256},
            environment={**self.environment, **self.backend.tools, "limits": str(request.limits)},
            made=today.isoformat(),
            selection=request.selection,
            waivers=request.waivers,
            results_sha256=sha256(results_text(results)),
            certified=verdict.certified,
            counts=verdict.counts,
            objections=verdict.objections,
        )
