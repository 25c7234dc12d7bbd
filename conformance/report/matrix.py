"""Operators against constraints: how many cases of each operator, precision and constraint ended how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.table import Table

COMMON_SHARE = 4
"""A constraint has a column of its own when at least one line in this many, of those with cases, is about it."""


@dataclass(frozen=True)
class Tally:
    """How many cases ended how; the suite is at fault in those that are undecided. Lines of reports waive none."""

    passed: int = 0
    unspecified: int = 0
    failed: int = 0
    waived: int = 0
    undecided: int = 0

    @property
    def cases(self) -> int:
        return self.right + self.failed + self.waived + self.undecided

    @property
    def right(self) -> int:
        return self.passed + self.unspecified

    @property
    def state(self) -> str:
        """One of "none", "fail", "unspecified" (nothing but unspecified) and "pass"."""
        if not self.cases:
            return "none"
        return "fail" if self.failed else "pass" if self.passed else "unspecified"


@dataclass(frozen=True)
class Line:
    """An operator in one precision ("" in a table without precisions): all its cases, and those by constraint."""

    row: str
    precision: str
    all: Tally
    cells: Mapping[str, Tally]


def tally(results: Iterable[CaseResult]) -> Tally:
    """Count results by status."""
    counts = Counter(result.status for result in results)
    return Tally(counts["pass"], counts["unspecified"], counts["fail"], undecided=counts["undecided"])


def lines(table: Table, results: Sequence[CaseResult], codes: Sequence[str]) -> tuple[Line, ...]:
    """A line per operator and precision, in the table's order; the cells of each in the order of `codes`."""
    groups: dict[tuple[str, str], dict[str, list[CaseResult]]] = {}
    for result in results:
        groups.setdefault((result.row, result.precision), {}).setdefault(result.constraint, []).append(result)
    return tuple(
        _line(row.name, precision, groups.get((row.name, precision), {}), codes)
        for row in table.asked_rows
        for precision in row.precisions or ("",)
    )


def _line(row: str, precision: str, groups: Mapping[str, list[CaseResult]], codes: Sequence[str]) -> Line:
    everything = tally(result for group in groups.values() for result in group)
    return Line(row, precision, everything, {code: tally(groups[code]) for code in codes if code in groups})


def common(codes: Iterable[str], matrix: Sequence[Line]) -> tuple[str, ...]:
    """The codes that many of the lines with cases are about."""
    counts = Counter(code for line in matrix for code in line.cells)
    ran = sum(line.all.cases > 0 for line in matrix)
    return tuple(code for code in codes if counts[code] * COMMON_SHARE >= ran)
