"""What is new in a run since an earlier one: a mark for each case that is not as it was, and how many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from npu_assay.conformance.compare.difference import Difference
from npu_assay.conformance.record.results import NOT_PASSED, CaseResult

MARKS = {
    "newly failing": "cases that passed before",
    "newly passing": "cases that failed before",
    "new": "cases that were not run before",
    "changed": "other cases with another tag, reason, failure, number or blob",
}
"""What can be new about a case, in the order of how much it matters."""


@dataclass(frozen=True)
class Since:
    """The earlier run (a) beside this one (b), and the marks of cases."""

    found: Difference
    marks: Mapping[str, str]

    @property
    def gone(self) -> list[str]:
        """The cases that were run before, and not now."""
        return sorted(self.found.a.results.keys() - self.found.b.results.keys())

    @property
    def counts(self) -> tuple[tuple[str, str, int], ...]:
        """Each mark, what it means, and how many cases have it."""
        counts = Counter(self.marks.values())
        return tuple((mark, means, counts[mark]) for mark, means in MARKS.items())


def since(found: Difference) -> Since:
    """What a comparison of an earlier run (a) with this one (b) says of this one."""
    before, changed = found.a.results, {change.case for change in found.changes}
    marks = {case: _mark(before.get(case), result, case in changed) for case, result in found.b.results.items()}
    return Since(found, {case: mark for case, mark in marks.items() if mark})


def _mark(before: CaseResult | None, after: CaseResult, changed: bool) -> str:
    if before is None:
        return "new"
    failed, fails = before.status in NOT_PASSED, after.status in NOT_PASSED
    if failed != fails:
        return "newly failing" if fails else "newly passing"
    return "changed" if changed else ""
