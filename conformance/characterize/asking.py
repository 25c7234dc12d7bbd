"""Runs the probes of many operators at once, in the processes that cases run in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Protocol

from npu_assay.conformance.backend.loading import check_level
from npu_assay.conformance.backend.outside import check_apart
from npu_assay.conformance.characterize.exact import NoProbeError, reals
from npu_assay.conformance.characterize.plan import Answers, Finding, Outcome, Plan, characterized
from npu_assay.conformance.characterize.probes import PLAIN, Probe, Probes, quant_of
from npu_assay.conformance.characterize.samples import sample
from npu_assay.conformance.characterize.sheets import Sheets
from npu_assay.conformance.devices.place import HERE, Place
from npu_assay.conformance.isolation.forkserver import Subject
from npu_assay.conformance.isolation.judge import Look
from npu_assay.conformance.isolation.limits import LIMITS, Limits
from npu_assay.conformance.isolation.pool import ProcessPool
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.programs.seeds import is_first
from npu_assay.conformance.record.levels import NUMBERS, RUNS
from npu_assay.conformance.record.results import CaseResult, because
from npu_assay.conformance.run.selection import cases_of_run, none_selected, select
from npu_assay.conformance.run.session import beforehand, check_unchanged
from npu_assay.conformance.table import Table, load_table

AT_ONCE = 8
"""Operators that are asked at a time: so many programs keep all processes busy."""
SLOTS = 128 * AT_ONCE
Kind = tuple[str, str]
"""An operator and a precision."""


class Runs(Protocol):
    """Runs cases by name, and shows each answer."""

    def run_named(
        self, names: Sequence[str], case: Callable[[str], Case], workers: int, level: str, look: Look
    ) -> Iterator[CaseResult]: ...


Told = Callable[[Finding, int, int], None]
"""Is told of each finding, how many there are by now, and how many there will be."""


@dataclass(frozen=True)
class Request:
    """What `assay characterize` was asked for. table: name or path, None for the backend's own.

    place: where programs run, if not where the backend says.
    """

    backend: str
    table: str | None = None
    expression: str | None = None
    seed: int = 0
    workers: int = 1
    limits: Limits = LIMITS
    place: Place = HERE


@dataclass(frozen=True)
class Characterization:
    """What was found of a backend, by operator and precision."""

    request: Request
    backend: str
    table: str
    findings: tuple[Finding, ...]


def characterize(request: Request, told: Told) -> Characterization:
    """Measure how a backend rounds. Raises UsageError, TableError or SelectionError before any program runs."""
    with ExitStack() as stack:
        suite = beforehand(request.backend, request.table, stack)
        subject = Subject(request.backend, (), request.limits, request.place)
        processes = stack.enter_context(ProcessPool(subject))
        known = processes.about
        check_level(request.backend, known.level, NUMBERS)
        check_apart(known.sources)
        table = load_table(request.table or known.table)
        processes.judge_by(request.table or known.table)
        plain = plain_cases(table, request.expression)
        made = Rounds(processes, Probes(plain, request.seed), request.workers)
        findings = []
        for finding in made.findings():
            findings.append(finding)
            told(finding, len(findings), len(plain))
    check_unchanged(suite)
    findings.sort(key=lambda one: (one.row, one.precision))
    return Characterization(request, known.name, table.title, tuple(findings))


def plain_cases(table: Table, expression: str | None) -> dict[tuple[str, str], Case]:
    """The plain case of each operator and precision that an expression selects. Raises SelectionError."""
    cases = cases_of_run(table)
    chosen = cases if expression is None else select(cases, expression)
    rows = {(case.row, case.precision) for case in chosen}
    plain = [case for case in cases if is_first(case.id, case.side) and (case.row, case.precision) in rows]
    if not plain:
        raise none_selected(f"-k {expression!r}", cases, expression)
    return {(case.row, case.precision or ""): case for case in plain}


@dataclass
class Rounds:
    """The probes that run together. processes: a pool of them, or what runs cases as it does."""

    processes: Runs
    probes: Probes
    workers: int

    def __post_init__(self) -> None:
        self.sheets = Sheets(SLOTS)

    def findings(self) -> Iterator[Finding]:
        """The findings of all plain cases, as they are ready."""
        waiting = deque(self.probes.plain)
        running = dict[Kind, tuple[Plan, list[Probe]]]()
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                place = waiting.popleft()
                if reason := self._unable(place):
                    yield Finding(*place, why={PLAIN: reason})
                else:
                    plan = characterized(*place)
                    running[place] = plan, next(plan)
            given = self.answers([probe for _, probes in running.values() for probe in probes])
            for place, (plan, probes) in list(running.items()):
                try:
                    running[place] = plan, plan.send({probe: given[probe] for probe in probes})
                except StopIteration as end:
                    del running[place]
                    yield end.value

    def _unable(self, place: Kind) -> str:
        """Why the plain program of an operator says nothing of rounding; "" where it does."""
        plain = self.probes.plain[place]
        if plain.expect == "reject":
            return f"the table refuses it: {plain.reason}"
        found = self._results(Probe(*place, PLAIN))
        return found if isinstance(found, str) else ""

    def _results(self, probe: Probe) -> int | str:
        """The number of a probe's results, or why there is no such program."""
        try:
            graph = self.probes.graph(probe)
            quant_of(graph)
            found = reals(graph)
        except NoProbeError as error:
            return str(error)
        fine = found.numel() and bool(found.isfinite().all())
        return found.numel() if fine else "its results are not all finite numbers"

    def answers(self, probes: Sequence[Probe]) -> Answers:
        """What probes gave, each once; why there is nothing, for others."""
        made = {probe: self._results(probe) for probe in probes}
        counts = {probe: count for probe, count in made.items() if isinstance(count, int)}
        placed = {replace(probe, slot=slot): probe for slot, probe in enumerate(counts)}
        names = [probe.name for probe in placed]
        self.sheets.clear()
        found = {probe: Outcome(None, reason) for probe, reason in made.items() if isinstance(reason, str)}
        look, workers = self.sheets.look, self.workers
        for result in self.processes.run_named(names, self.probes.case, workers, RUNS, look) if names else ():
            placed_as = Probe.named(result.case)
            probe = placed[placed_as]
            found[probe] = replace(self._outcome(result, placed_as), results=counts[probe])
        return found

    def _outcome(self, result: CaseResult, probe: Probe) -> Outcome:
        if result.failures:
            return Outcome(None, str(result.failures[0]))
        if result.verdict != "accept":
            return Outcome(None, f"{result.verdict}{because(result.reasons or ())}")
        numbers, quant = self.sheets.read(probe.slot), quant_of(self.probes.graph(probe))
        if numbers is None:
            return Outcome(None, "its results have another shape than expected")
        zero = quant.zero_point
        return Outcome(sample(*numbers, quant.qmin - zero, quant.qmax - zero, zero))
