"""One whole run: choose cases, run them, keep a journal, conclude, write the folder."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from conformance import __version__
from conformance.backends import installed_tools, load_backend, needed_path, source_files, target
from conformance.certificate import SCHEMA, Certificate, Selection, conclude
from conformance.environment import digest_files, environment, suite_sources
from conformance.execution import Job, Pool, run_all
from conformance.graph import Case
from conformance.package import RESULTS, TABLE, journal, results_text, sha256, write_package
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
    """What `assay certify` was asked for. table: name or path, None for the backend's own. tools: its blob checks."""

    backend: str
    table: str | None
    selection: Selection
    workers: int
    folder: Path
    waivers: tuple[Waiver, ...] = ()
    pool: Pool | None = None
    tools: tuple[str, ...] = ()


def assay(request: Request, progress: Progress, today: Callable[[], datetime.date]) -> Report:
    """Run the cases and write the folder; returns what the reports show.

    Raises BackendSpecError, TableError, SelectionError or PackageError before any case runs.
    """
    backend = load_backend(request.backend)
    tools = installed_tools(backend, request.tools)
    job = Job(request.backend, request.table or backend.table, request.tools)
    table = load_table(job.table)
    cases = _cases(request.selection, table)
    with journal(request.folder) as written:
        progress.started(len(cases))
        results = []
        for result in run_all(job, tuple(case.id for case in cases), request.workers, request.pool):
            written.add(result)
            results.append(result)
            progress.finished(result)
    results.sort(key=lambda result: result.case)
    certificate = _certificate(request, backend.name, tools, table, cases, results, today())
    report = make_report(certificate, table, results, cases, needed_path(request.backend))
    texts = {RESULTS: results_text(results), TABLE: table_path(job.table).read_bytes().decode(), **reports(report)}
    write_package(request.folder, texts, certificate)
    return report


def _cases(selection: Selection, table: Table) -> tuple[Case, ...]:
    """The selected cases. Raises SelectionError when there is none."""
    known = all_cases(table)
    cases = selection.of(known)
    if not cases:
        raise SelectionError(f"{selection}: matches none of {len(known)} case ids, which look like {known[0].id}")
    return cases


def _certificate(
    request: Request,
    name: str,
    tools: Mapping[str, str],
    table: Table,
    cases: Sequence[Case],
    results: Sequence[CaseResult],
    today: datetime.date,
) -> Certificate:
    verdict = conclude(results, cases, request.selection, request.waivers, today)
    return Certificate(
        schema=SCHEMA,
        suite={"name": DISTRIBUTION, "version": __version__, "sources": suite_sources()},
        backend={
            "name": name,
            "spec": request.backend,
            "sources": backend_sources(request.backend),
            "tools": list(request.tools),
        },
        table={"name": table.name, "version": table.version, "path": request.table, "sha256": table.sha256},
        environment={**environment(), **tools},
        made=today.isoformat(),
        selection=request.selection,
        waivers=request.waivers,
        results_sha256=sha256(results_text(results)),
        certified=verdict.certified,
        counts=verdict.counts,
        objections=verdict.objections,
    )


def backend_sources(spec: str) -> dict[str, str]:
    """sha256 of the backend's source files, by their path from its package's parent."""
    files = source_files(spec)
    folder = min((file.parent for file in files), key=lambda parent: len(parent.parts))
    module = target(spec).partition(":")[0]
    prefix = module.replace(".", "/") if len(files) > 1 else ""
    return {name.lstrip("/"): digest for name, digest in digest_files(files, folder, prefix).items()}
