"""The counts at the head of the page: how many cases of each operator, precision and constraint fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from npu_assay.conformance.record.results import NOT_PASSED, CaseResult

SHOWN = 6
"""Lines of each list: all three fit on one screen."""


@dataclass(frozen=True)
class Count:
    """Counts of one operator, precision or constraint: cases that fail or are undecided, not waived, and all cases."""

    name: str
    failing: int
    cases: int


@dataclass(frozen=True)
class Counts:
    """Counts by one property of cases, most failing first. key: the page's filter for it."""

    title: str
    key: str
    all: tuple[Count, ...]

    @property
    def shown(self) -> tuple[Count, ...]:
        return self.all[:SHOWN]

    @property
    def rest(self) -> str:
        """What is not shown, in words."""
        hidden = self.all[SHOWN:]
        failing = sum(count.failing > 0 for count in hidden)
        if not hidden:
            return ""
        return f"and {len(hidden)} more, {f'{failing} with failures' if failing else 'none with failures'}"


def summary(results: Sequence[CaseResult], waived: set[str]) -> tuple[Counts, ...]:
    """Counts by operator, by precision where there are some, and by constraint."""
    found = (
        Counts("By operator", "operator", _counts(results, waived, lambda result: result.row)),
        Counts("By precision", "precision", _counts(results, waived, lambda result: result.precision)),
        Counts("By constraint", "constraint", _counts(results, waived, lambda result: result.constraint)),
    )
    return tuple(counts for counts in found if any(count.name for count in counts.all))


def _counts(results: Iterable[CaseResult], waived: set[str], key: Callable[[CaseResult], str]) -> tuple[Count, ...]:
    cases, failing = Counter[str](), Counter[str]()
    for result in results:
        cases[key(result)] += 1
        failing[key(result)] += result.status in NOT_PASSED and result.case not in waived
    found = (Count(name, failing[name], count) for name, count in cases.items())
    return tuple(sorted(found, key=lambda count: (-count.failing, -count.cases, count.name)))


def cases_link(**filters: str | int) -> str:
    """A link that shows the cases that these filters leave: `#cases?operator=aten.abs.default&status=fail`."""
    return f"#cases?{urlencode({key: value for key, value in filters.items() if value != ''})}"
