"""One fault: cases are run on the broken backend, likely ones first, until the suite notices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import Table
from npu_assay.faults import Fault

Right = Callable[[Case], CaseResult]
"""The result of a case on the right backend."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one fault.

    checks: those that noticed it, each with the first failing case. expected: those that the catalogue says must
    notice it. alone: the check that was the only one to notice it. cases: how many were run. message: of the first
    failure.
    """

    id: str
    stage: str
    kind: str
    name: str
    expected: tuple[str, ...] = ()
    checks: dict[str, str] = field(default_factory=dict)
    cases: int = 0
    message: str = ""

    @property
    def killed(self) -> bool:
        """Whether any check noticed the fault."""
        return bool(self.checks)

    @property
    def missed(self) -> tuple[str, ...]:
        """The checks that should have noticed it and did not."""
        return tuple(check for check in self.expected if check not in self.checks)


def trial(fault: Fault, table: Table, cases: Sequence[Case], right: Right, limit: int) -> Outcome:
    """Run cases until every expected check has noticed the fault.

    After the cases that the catalogue names, at most `limit` further ones are run, until any check notices the fault.
    A failure that the right backend has, too, does not count.
    """
    checks: dict[str, str] = {}
    message, count = "", 0
    for case, is_named in ordered(fault, cases, limit):
        if checks and (not is_named or fault.checks <= checks.keys()):
            break
        count += 1
        for check, text in _new_failures(run_case(case, fault.backend, table), case, right):
            checks.setdefault(check, case.id)
            message = message or f"{text} [{case.id}]"
    return Outcome(fault.id, fault.stage, fault.kind, fault.name, tuple(sorted(fault.checks)), checks, count, message)


def _new_failures(result: CaseResult, case: Case, right: Right) -> Iterator[tuple[str, str]]:
    if result.failures:
        known = {failure.check for failure in right(case).failures}
        yield from ((one.check, one.message) for one in result.failures if one.check not in known)


def ordered(fault: Fault, cases: Sequence[Case], limit: int) -> Iterator[tuple[Case, bool]]:
    """The cases that the fault names, in its order, then up to `limit` others: those of the same rows first."""
    patterns = [pattern.split("*") for pattern in fault.cases]
    named = {case.id: case for parts in patterns for case in cases if _fits(case.id, parts)}.values()
    yield from ((case, True) for case in named)
    taken, rows = {case.id for case in named}, {case.row for case in named}
    others = sorted((case for case in cases if case.id not in taken), key=lambda case: case.row not in rows)
    yield from ((case, False) for case in others[:limit])


def _fits(name: str, parts: Sequence[str]) -> bool:
    """Whether the name begins with the first part and contains the others after it, in this order."""
    if not name.startswith(parts[0]):
        return False
    place = len(parts[0])
    for part in parts[1:]:
        found = name.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return True
