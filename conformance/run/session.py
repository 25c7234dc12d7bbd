"""One whole run: choose cases, run them, keep a journal, conclude, write the folder."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from npu_assay import __version__
from npu_assay.conformance.backend.environment import environment, suite_sources
from npu_assay.conformance.backend.info import About
from npu_assay.conformance.backend.loading import check_level
from npu_assay.conformance.backend.outside import check_apart
from npu_assay.conformance.backend.stated_table import stated_table
from npu_assay.conformance.ci.junit import write_junit
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.devices.place import HERE, Place
from npu_assay.conformance.fuzz.programs import Known
from npu_assay.conformance.fuzz.record import Record
from npu_assay.conformance.fuzz.shrink import Run
from npu_assay.conformance.fuzz.stream import fuzz
from npu_assay.conformance.isolation.forkserver import Subject
from npu_assay.conformance.isolation.judge import load_judges
from npu_assay.conformance.isolation.limits import LIMITS, Limits
from npu_assay.conformance.isolation.pool import ProcessPool
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.certificate import PATH, SCHEMA, Certificate, Fuzz, Kept, Selection, conclude
from npu_assay.conformance.record.folder import check_target, results_text, sha256, write_package
from npu_assay.conformance.record.journal import Identity, journal
from npu_assay.conformance.record.levels import COMPILES, NUMBERS, reaches
from npu_assay.conformance.record.names import RESULTS, TABLE
from npu_assay.conformance.record.provenance import Statement, statement
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.record.waivers import Waiver
from npu_assay.conformance.report.data import Report, make_report
from npu_assay.conformance.report.render import reports
from npu_assay.conformance.run.beyond_table import offers
from npu_assay.conformance.run.execution import Job, Pool, Progress, known_cases, run_on
from npu_assay.conformance.run.kept import keep, read_earlier
from npu_assay.conformance.run.selection import SelectionError, cases_of_run, none_selected
from npu_assay.conformance.table import Table, held, load_table
from npu_assay.conformance.table.non_decomposed import check_preserved

DISTRIBUTION = "npu-assay"


@dataclass(frozen=True)
class Request:
    """What `assay certify` was asked for. table: name or path, None for the backend's own. tools: its blob checks.

    pool: where cases run; None for isolated processes of this machine. resume: go on with an interrupted run.
    fuzz: how many random programs besides, of the seed that the selection has for random numbers. level: how far to
    look (`record.levels`).
    place: where programs run, if not where the backend says. offer: instead of the table, everything that it does not
    list. junit: a file for each case's time, see `ci.junit`. since: the record of an earlier run, see `run.kept`.
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
    fuzz: int = 0
    offer: bool = False
    level: str = NUMBERS
    junit: Path | None = None
    place: Place = HERE
    since: Path | None = None

    @property
    def numbers(self) -> range:
        """The random programs that run here: all that were asked for, or the shard's."""
        start, step = self.selection.stride
        return range(start, self.fuzz, step)


def assay(request: Request, progress: Progress, today: Callable[[], datetime.date]) -> Report:
    """Run the cases and write the folder; returns what the reports show.

    Raises BackendSpecError, TableError, SelectionError or PackageError before any case runs.
    """
    _check_asked(request)
    started = datetime.datetime.now(datetime.UTC)
    earlier = None if request.since is None else read_earlier(request.since)
    with ExitStack() as stack:
        suite, versions = beforehand(request.backend, request.table, stack, request.offer), environment()
        subject = Subject(request.backend, request.tools, request.limits, request.place)
        processes = stack.enter_context(ProcessPool(subject))
        known = processes.about
        check_level(request.backend, known.level, request.level)
        check_apart(known.sources)
        path = request.table or known.table
        if request.offer:
            path = stack.enter_context(offers(load_table(path)))
        processes.judge_by(path)
        table_file = stack.enter_context(held(path))
        table = load_table(path)
        check_preserved(table)
        cases = _cases(request.selection, table)
        made = _Made(request, known, table, suite, versions)
        run = _runner(processes, made, path, cases, stack)
        written = stack.enter_context(journal(request.folder, made.identity, cases, request.resume, request.level))
        results, since = list(written.finished), None
        if earlier is not None:
            known_before, since = keep(earlier, made.certificate((), (), today()), table, cases, run)
            for result in known_before.values():
                written.add(result)
                results.append(result)
        rest = _without(cases, results)
        record = (
            Record(request.folder, made.identity, request.numbers, request.selection.seed) if request.fuzz else None
        )
        progress.started(len(rest) + (record.left() if record else 0))
        for result in run([case.id for case in rest]):
            written.add(result)
            results.append(result)
            progress.finished(result)
        fuzzed = None
        if record is not None:
            asked = len(request.numbers), request.selection.seed
            fuzzed = fuzz(record, asked, request.folder, _known(request, path).programs, run, progress.finished)
    check_unchanged(suite)
    results.sort(key=lambda result: result.case)
    certificate = made.certificate(cases, results, today(), fuzzed.fuzz if fuzzed else None, since)
    report = make_report(certificate, table, results, cases, fuzzed.failures if fuzzed else ())
    texts = {RESULTS: results_text(results), TABLE: table_file.decode(), **reports(report)}
    write_package(request.folder, texts, certificate)
    if request.junit is not None:
        write_junit(request.junit, report, processes.seconds, started)
    return report


def beforehand(backend: str, table: str | None, stack: ExitStack, offer: bool = False) -> dict[str, str]:
    """The suite's sources, after what judges was loaded, the table read and its cases made.

    All that comes before a process of the backend exists, which could write these files. The table of a backend that
    does not state it in plain words is known only when it is loaded.
    """
    check_apart([backend.partition(":")[0].partition(".")[0]])  # what it brings would be loaded below
    suite = suite_sources()
    load_judges()
    cases_of_run.cache_clear()  # what is installed beside the suite may be another than in the run before
    named = table or stated_table(backend)
    if named is not None:
        stack.enter_context(held(named))
        if not offer:
            cases_of_run(load_table(named))
    return suite


def check_unchanged(suite: Mapping[str, str]) -> None:
    """Raise UsageError when files of the suite are others than they were: what the run made is not the suite's."""
    now = suite_sources()
    changed = sorted(name for name in suite.keys() | now.keys() if suite.get(name) != now.get(name))
    if changed:
        rest = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise UsageError(
            f"{changed[0]}{rest}: found another file than before the run, expected that nothing writes to the suite"
        )


def _check_asked(request: Request) -> None:
    """Raise UsageError for what the level or the shard leaves nothing to judge of, and for files in the way."""
    if request.since is not None and request.resume:
        raise UsageError("--since: found --resume, expected one of both")
    if request.since is not None and request.since.resolve() == request.folder.resolve():
        raise UsageError(f"--since {request.since}: found the folder of this run, expected --out DIR elsewhere")
    if request.junit is not None:
        check_target(request.folder, request.junit)
    if request.selection.shard is not None and request.selection.is_program:
        raise UsageError(f"{request.selection.expression}: found --shard {request.selection.shard}, expected none")
    if request.tools and not reaches(request.level, COMPILES):
        tools = ", ".join(f"--with-{tool}" for tool in request.tools)
        raise UsageError(
            f"{tools}: found --level {request.level}, expected {COMPILES} or a higher one, where blobs are made"
        )
    if request.level != NUMBERS and (request.fuzz or request.selection.is_program):
        raise UsageError(
            f"random programs: found --level {request.level}, expected {NUMBERS}: what they show is numbers"
        )


def _runner(processes: ProcessPool, made: _Made, table: str, cases: Sequence[Case], stack: ExitStack) -> Run:
    """What runs cases: the processes of this machine, or workers elsewhere that are made with the same."""
    request, pool = made.request, made.request.pool
    if pool is None:
        known, asked = _known(request, table), {case.id: case for case in cases}

        def case(name: str) -> Case:
            return asked[name] if name in asked else known.case(name)

        return lambda names: processes.run_named(names, case, request.workers, request.level)
    processes.close()
    expected = tuple(sorted(made.statement.items()))
    run, seed = secrets.token_hex(8), request.selection.seed
    job = Job(request.backend, table, request.tools, request.limits, expected, run, seed, request.level)
    executor = stack.enter_context(pool.open(job))
    return lambda names: run_on(executor, pool, job, names)


def _known(request: Request, table: str) -> Known:
    return known_cases(table, request.selection.seed)


def _cases(selection: Selection, table: Table) -> tuple[Case, ...]:
    """The selected cases. Raises SelectionError when there is none."""
    known = cases_of_run(table)
    cases = selection.of(table, known)
    if not cases and selection.shard is not None and (whole := selection.whole.of(table, known)):
        raise SelectionError(
            f"--shard {selection.shard}: found {len(whole)} cases, expected as many shards as cases at most"
        )
    if not cases:
        raise none_selected(str(selection), known, selection.expression)
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
        request = self.request
        return {
            "backend": self.request.backend,
            **self.statement,
            "selection": str(self.request.selection) or "all cases",
            "further compilers": ", ".join(self.request.tools) or "none",
            "limits": str(self.request.limits),
            "seed": str(request.selection.seed),
            "level": request.level,
            **request.place.told,
            **({"random programs": str(request.fuzz)} if request.fuzz else {}),
        }

    @property
    def statement(self) -> Statement:
        """What the results are made with, wherever that is."""
        return statement(self.backend, self.table, self.suite, self.environment)

    @property
    def _environment(self) -> dict[str, str]:
        """Versions, limits and the path, if the backend needs one, in the order in which a reader finds them."""
        path = {PATH: self.backend.path} if self.backend.path else {}
        found = {**self.environment, **self.backend.tools, "limits": str(self.request.limits), **path}
        return dict(sorted(found.items()))

    def certificate(
        self,
        cases: Sequence[Case],
        results: Sequence[CaseResult],
        today: datetime.date,
        fuzz: Fuzz | None = None,
        kept: Kept | None = None,
    ) -> Certificate:
        """The certificate of the finished run."""
        request, table = self.request, self.table
        known = {case.id for case in cases_of_run(table)} if request.waivers else ()
        verdict = conclude(results, cases, request.selection, request.waivers, today, fuzz, known)
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
            environment=self._environment,
            made=today.isoformat(),
            selection=request.selection,
            waivers=request.waivers,
            results_sha256=sha256(results_text(results)),
            certified=verdict.certified,
            counts=verdict.counts,
            objections=verdict.objections,
            fuzz=fuzz,
            level=request.level,
            kept=kept,
        )
