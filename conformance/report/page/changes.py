"""What is new in a run since an earlier one: a mark for each case that is not as it was, and how many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npu_assay.conformance.compare.difference import Difference
from npu_assay.conformance.record.results import NOT_PASSED

if TYPE_CHECKING:
    from npu_assay.conformance.record.results import CaseResult

MARKS = {
    "newly failing": "cases that passed before",
    "newly passing": "cases that failed before",
    "new": "cases that were not run before",
    "changed": "other cases with another tag, reason, failure, number or blob",
}
"""What can be new about a case, in the order of how much it matters."""


@dataclass(frozen=True)
class Since:
    """The earlier run, the marks of cases, those that are gone, and what both runs state and were made with."""

    earlier: str
    made: str
    marks: Mapping[str, str]
    gone: tuple[str, ...]
    stated: tuple[tuple[str, str, str], ...]
    made_with: tuple[tuple[str, str, str], ...]

    @property
    def counts(self) -> tuple[tuple[str, str, int], ...]:
        """Each mark, what it means, and how many cases have it."""
        counts = Counter(self.marks.values())
        return tuple((mark, means, counts[mark]) for mark, means in MARKS.items())


def since(found: Difference) -> Since:
    """What a comparison of an earlier run (a) with this one (b) says of this one."""
    before, after = found.a.results, found.b.results
    changed = {change.case for change in found.changes}
    marks = {case: _mark(before.get(case), result, case in changed) for case, result in after.items()}
    return Since(
        found.a.name,
        found.a.certificate.made,
        {case: mark for case, mark in marks.items() if mark},
        tuple(sorted(before.keys() - after.keys())),
        found.stated,
        found.made_with,
    )


def _mark(before: CaseResult | None, after: CaseResult, changed: bool) -> str:
    if before is None:
        return "new"
    failed, fails = before.status in NOT_PASSED, after.status in NOT_PASSED
    if failed != fails:
        return "newly failing" if fails else "newly passing"
    return "changed" if changed else ""
