"""A comparison of two releases as one HTML page, one Markdown page and one JSON file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from npu_assay.conformance.common.escaped import Lines, beginning
from npu_assay.conformance.common.grouping import grouped_by
from npu_assay.conformance.common.markup import code, markdown_table
from npu_assay.conformance.common.templating import rendered
from npu_assay.conformance.compare.difference import Difference
from npu_assay.conformance.compare.difference_groups import groups_by_row, happened
from npu_assay.conformance.compare.difference_pages import CASES, TEXT, markdown, side
from npu_assay.conformance.findings import findings
from npu_assay.conformance.record.results import NOT_PASSED
from npu_assay.conformance.release.known import Known
from npu_assay.conformance.release.packages import Release
from npu_assay.conformance.table.changes import Change

MARKDOWN, PAGE, JSON = "release.md", "release.html", "release.json"
CHANGE = ("where", "what", "before", "now")
CANDIDATE = ("backend", "row", "check", "shortest case", "cases", "what it says")
KNOWN = ("finding", "severity", "before", "now", "status", "why it cannot be asked")


@dataclass(frozen=True)
class Candidate:
    """Cases of one row that newly fail one check, and that no known finding has. case: the shortest name of them."""

    backend: str
    row: str
    check: str
    case: str
    cases: int
    says: str


@dataclass
class Found:
    """All that is known of two releases. not_asked: why, by backend; sizes: bytes that each installs."""

    old: Release
    new: Release
    sizes: tuple[int, int] = (0, 0)
    documents: Sequence[Change] | None = None
    differences: dict[str, Difference] = field(default_factory=dict)
    not_asked: dict[str, str] = field(default_factory=dict)
    known: list[Known] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether documents, answers and statuses of findings are alike in both releases."""
        statuses = {each.status for each in self.known}
        changed = any(found.changes for found in self.differences.values()) or bool(self.documents)
        return not changed and not statuses & {"gone", "came"}

    @property
    def statuses(self) -> Mapping[str, int]:
        return Counter(each.status for each in self.known)

    @property
    def candidates(self) -> list[Candidate]:
        """What newly fails, by backend, row and check, most cases first."""
        told = {case for finding in findings().values() for case in finding.cases}
        return [each for backend, found in self.differences.items() for each in _candidates(backend, found, told)]

    def files(self) -> dict[str, str]:
        """The files by name."""
        return {
            MARKDOWN: self._rendered(MARKDOWN),
            PAGE: self._rendered(PAGE),
            JSON: json.dumps(self.as_json(), indent=1, sort_keys=True) + "\n",
        }

    def _rendered(self, name: str) -> str:
        return rendered(
            "release",
            name,
            found=self,
            rows={backend: list(groups_by_row(each)) for backend, each in self.differences.items()},
            tables=self._tables(),
            happened=happened,
            markdown=lambda each: Lines(markdown(each)),
            side=side,
            code=code,
            most=CASES,
            table_of=lambda heads, rows: markdown_table(heads, ([code(str(cell)) for cell in row] for row in rows)),
        )

    def _tables(self) -> list[tuple[str, str, Sequence[str], list[tuple[object, ...]]]]:
        """What stands before the backends: title, explanation, headings and rows."""
        known = [(each.name, each.severity, each.old, each.new, each.status, side(each.why)) for each in self.known]
        candidates = list(map(astuple, self.candidates))
        return [
            (
                "Documents",
                "rows, precisions and sentences as printed",
                CHANGE,
                list(map(astuple, self.documents or ())),
            ),
            ("Newly failing", "passed before, and no case of a known finding", CANDIDATE, candidates),
            ("Known findings", "what the script on each page shows", KNOWN, list(known)),
        ]

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "old": str(self.old),
            "new": str(self.new),
            "bytes": list(self.sizes),
            "documents": None if self.documents is None else [vars(change) for change in self.documents],
            "backends": {backend: found.as_json() for backend, found in self.differences.items()},
            "not asked": self.not_asked,
            "findings": [vars(each) | {"status": each.status} for each in self.known],
            "candidates": [vars(each) for each in self.candidates],
        }


def _candidates(backend: str, found: Difference, told: set[str]) -> list[Candidate]:
    failing = [
        (result, result.failures[0])
        for name, result in found.b.results.items()
        if name not in told and result.status in NOT_PASSED and result.failures
        if name in found.a.results and found.a.results[name].status not in NOT_PASSED
    ]
    groups = grouped_by(failing, key=lambda each: (each[0].row, each[1].check))
    made = []
    for (row, check), each in groups.items():
        result, failure = min(each, key=lambda pair: (len(pair[0].case), pair[0].case))
        made.append(Candidate(backend, row, check, result.case, len(each), beginning(failure.message, TEXT)))
    return sorted(made, key=lambda each: -each.cases)
