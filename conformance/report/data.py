"""What every report shows, computed once from the results: operators, constraints, failures."""

from __future__ import annotations

import datetime
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from npu_assay.conformance.common.grouping import grouped_by, most_first
from npu_assay.conformance.compare.drift import Drift, drift
from npu_assay.conformance.covering.counts import Counts
from npu_assay.conformance.covering.shipped import shipped
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.programs.variation_names import SIDE
from npu_assay.conformance.record.certificate import PATH, Certificate, outcome_text
from npu_assay.conformance.record.levels import NUMBERS
from npu_assay.conformance.record.results import CHECKS as CHECKS
from npu_assay.conformance.record.results import NOT_PASSED, CaseResult
from npu_assay.conformance.record.waivers import waived_cases
from npu_assay.conformance.report.bounds import WideBounds, wide_bounds
from npu_assay.conformance.report.findings import Finding, find
from npu_assay.conformance.report.matrix import Line, Tally, common, lines, tally
from npu_assay.conformance.table import Table

if TYPE_CHECKING:
    from npu_assay.conformance.fuzz.stream import Small

SIDES = {
    "accept": "inside the limits",
    "at_limit": "at the limit",
    "outside": "one step past the limit",
    "context": "in a larger model",
    "value": "with special numbers",
    SIDE: "a variation of a plain program",
}


@dataclass(frozen=True)
class FailedCase:
    """A failing case for a reader: what was asked, the rule in words, how to see it again."""

    result: CaseResult
    asked: str
    sentence: str
    command: str
    waived: bool


@dataclass(frozen=True)
class Report:
    """One run. `lines` are the operators in each precision; `codes` the constraints that many of them have.

    wide: the operators whose results may be off by much before gate 3 notices. cases: by id, what was asked.
    """

    certificate: Certificate
    table: Table
    results: tuple[CaseResult, ...]
    rows: tuple[tuple[str, Tally], ...]
    lines: tuple[Line, ...]
    codes: tuple[str, ...]
    failures: tuple[FailedCase, ...]
    findings: tuple[Finding, ...]
    drift: Drift
    wide: tuple[WideBounds, ...] = ()
    programs: tuple[Small, ...] = ()
    path: str = ""
    cases: Mapping[str, Case] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Which backend was run, as the command named it, against which table."""
        return f"{self.certificate.backend['spec']} against {self.table.title}"

    @property
    def coverage(self) -> Counts | None:
        """How well the suite's cases show the limits of a shipped table; None of another table."""
        return shipped().get(self.table.sha256)

    @property
    def verdict(self) -> str:
        """The verdict in words, or what came of a part of the cases."""
        return outcome_text(self.certificate, selection=False)

    @property
    def failures_by_row(self) -> tuple[tuple[str, tuple[FailedCase, ...]], ...]:
        """The failing cases of each operator that has some, in the table's order."""
        found = grouped_by(self.failures, lambda failure: failure.result.row)
        return tuple((row, tuple(found[row])) for row, _ in self.rows if row in found)

    def rule(self, finding: Finding) -> str:
        """The constraint that a finding is about, in words; "" for one about none, or about none of the row's."""
        rule, row = finding.symptom.rule, self.first(finding).result.row
        return self.table.sentence_of(row, rule)

    def first(self, finding: Finding) -> FailedCase:
        """The case that stands for a finding."""
        return next(failure for failure in self.failures if failure.result.case == finding.first)

    @property
    def failed_checks(self) -> tuple[tuple[str, int], ...]:
        """How many failing cases each check noticed, most first."""
        return most_first(Counter(check for f in self.failures for check in {x.check for x in f.result.failures}))


def make_report(
    certificate: Certificate,
    table: Table,
    results: Sequence[CaseResult],
    cases: Iterable[Case],
    programs: Sequence[Small] = (),
) -> Report:
    """Group a run's results: whoever has its files makes the same report again."""
    path = certificate.environment.get(PATH, "")
    by_name = {case.id: case for case in cases}
    names = dict.fromkeys(row.name for row in table.asked_rows)
    used = {result.constraint for result in results}
    known = [code for code, _ in table.meanings]
    codes = (*sorted(used - set(known)), *(code for code in known if code in used))
    matrix = lines(table, results, codes)
    waived = waived_cases(certificate.waivers, results, datetime.date.fromisoformat(certificate.made))
    return Report(
        certificate,
        table,
        tuple(results),
        tuple((name, tally(r for r in results if r.row == name)) for name in names),
        matrix,
        common(codes, matrix),
        tuple(_failed(certificate, table, r, r.case in waived, path) for r in results if r.status in NOT_PASSED),
        find(results, by_name, waived, table),
        drift(str(certificate.backend["spec"]), table, results, certificate.selection.seed, certificate.level),
        wide_bounds(table, results),
        tuple(programs),
        path,
        by_name,
    )


def command(certificate: Certificate, case: str, path: str = "") -> str:
    """The shell command that runs one case again."""
    words = ["assay", "certify", str(certificate.backend["spec"]), "-k", case, "-n", "1"]
    words += ["--seed", str(certificate.selection.seed)] if certificate.selection.seed else []
    words += ["--level", certificate.level] if certificate.level != NUMBERS else []
    words += [f"--with-{tool}" for tool in certificate.backend["tools"]]
    table = certificate.table.get("path")
    line = shlex.join([*words, "--table", str(table)] if table else words)
    return f"PYTHONPATH={shlex.quote(path)} {line}" if path else line


def promised(case: Case | CaseResult) -> str:
    """What the table promises of a case, short."""
    return f"{case.expect} ({case.reason})" if case.reason else case.expect


def _failed(certificate: Certificate, table: Table, result: CaseResult, waived: bool, path: str) -> FailedCase:
    asked = f"{SIDES.get(result.side, result.side)}; the table promises: {promised(result)}"
    again = command(certificate, result.case, path)
    return FailedCase(result, asked, table.sentence_of(result.row, result.constraint), again, waived)
