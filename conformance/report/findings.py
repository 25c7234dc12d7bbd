"""Failures grouped into findings: one paragraph per fault, with the simplest case that shows it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from npu_assay.conformance.common.grouping import grouped_by, most_first
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.results import NOT_PASSED, CaseResult
from npu_assay.conformance.report.other_names import is_renamed, other_names, symptom_of
from npu_assay.conformance.report.symptoms import ABSENT, Symptom, refined, symptom, undelegated
from npu_assay.conformance.report.traits import Trait, common_traits, traits
from npu_assay.conformance.table import Table

_NUMBERS = re.compile(r"\[[\d, -]*\]|(?<![\w.])-?\d+(\.\d+)?(?!\w)")
Counts = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Finding:
    """Failing cases with one symptom.

    first: the simplest of them. where: failing cases and all cases by row, most failures first. errors: messages
    of crashes, one for those that differ in numbers alone, most frequent first. common: what sets the cases apart
    from passing ones.
    """

    symptom: Symptom
    cases: tuple[str, ...]
    first: str
    where: tuple[tuple[str, int, int], ...]
    errors: Counts
    common: tuple[Trait, ...]

    @property
    def variants(self) -> tuple[str, ...]:
        """The last parts of the cases' ids, each once."""
        return tuple(dict.fromkeys(name.rpartition("/")[2] for name in self.cases))


def find(
    results: Sequence[CaseResult], cases: Mapping[str, Case], waived: set[str], table: Table
) -> tuple[Finding, ...]:
    """Group the results that fail, are not waived, or are undecided by symptom, most cases first."""
    absent = undelegated(results, lambda row: {each.code for each in (*table.row(row).constraints, *table.common)})
    names = other_names(results, {code for row in table.rows for code in table.codes(row)})

    def kind_of(result: CaseResult) -> Symptom:
        return symptom_of(names) if is_renamed(result, names) else symptom(result, table.rescale, absent)

    failing = (result for result in results if result.status in NOT_PASSED and result.case not in waived)
    found = [_finding(kind, group, results, cases) for kind, group in grouped_by(failing, kind_of).items()]
    return tuple(sorted(found, key=lambda finding: (-len(finding.cases), finding.symptom.what)))


def _finding(
    kind: Symptom, group: Sequence[CaseResult], results: Sequence[CaseResult], cases: Mapping[str, Case]
) -> Finding:
    where = _where(group, results)
    passing = [cases[r.case] for r in results if r.status not in NOT_PASSED and r.verdict == group[0].verdict]
    failing = [cases[r.case] for r in group]
    shown = [r for r in group if r.row == where[0][0]]
    if kind.what.startswith(ABSENT):  # a case that must be taken shows it best, if not waived
        shown = [r for r in shown if r.expect == "accept"] or shown
    common = common_traits(failing, passing) if kind.traits else ()
    return Finding(
        refined(kind, group),
        tuple(case.id for case in failing),
        _simplest([cases[r.case] for r in shown], common).id,
        where,
        _errors(group),
        common,
    )


def _simplest(cases: Sequence[Case], common: Sequence[Trait]) -> Case:
    """The case that shows what is common with the fewest steps, then with the fewest numbers."""

    def size(case: Case) -> tuple[int, int, int, str]:
        lacking = len({trait.text for trait in common} - set(traits(case)))
        return lacking, len(case.graph.steps), sum(math.prod(v.shape) for v in case.graph.values), case.id

    return min(cases, key=size)


def _where(group: Sequence[CaseResult], results: Sequence[CaseResult]) -> tuple[tuple[str, int, int], ...]:
    total = Counter(result.row for result in results)
    failing = Counter(result.row for result in group)
    return tuple((row, count, total[row]) for row, count in most_first(failing))


def _errors(group: Sequence[CaseResult]) -> Counts:
    messages = (f.message for result in group for f in result.failures if f.check == "crash")
    alike = grouped_by(messages, lambda message: _NUMBERS.sub("#", message)).values()
    return most_first({_example(messages): len(messages) for messages in alike})


def _example(messages: Sequence[str]) -> str:
    """The first of messages that differ in numbers at most, and whether they do."""
    return messages[0] if len(set(messages)) == 1 else f"{messages[0]} (others differ in numbers)"
