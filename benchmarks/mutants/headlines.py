"""What a report says first of a mutant, and whether that names the kind and the place of the change.

A run of `assay certify` on the changed vendor is cut short: cases that execute the line, in an order drawn by seed,
until enough of them have failed. The kind is right where it is that of the stage in which the change shows: tags,
compiled bytes, or what the device gives. The place is right where the operators named are those that execute the line.
"""

from __future__ import annotations

import ast
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from benchmarks.mutants.answers import COMPILE, PARTITION, RUN, first_difference
from benchmarks.mutants.lines import Lines
from benchmarks.mutants.sites import Site
from benchmarks.mutants.trials import SLACK, Judges, Mutated, Tried, in_a_process
from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.results import NOT_PASSED, CaseResult
from npu_assay.conformance.report import symptoms
from npu_assay.conformance.report.findings import Finding, find
from npu_assay.conformance.run.one_case import run_case

FAILING, OF_A_ROW = 24, 6
"""Failing cases after which a run is cut short: of all rows, and of the row that fails most."""
LOOKED_AT = 1500
"""Cases that are asked whether the changed vendor answers them in another way."""
SHARE = 1 / 4
"""How often the cases of the row that is named first execute the line, at least: as a share of how often those of the
row do that executes it most, of the rows that answer otherwise. A row has up to four precisions, and one of them
alone may execute the line.
"""
NONE = "no case of these fails"

ANOTHER_TIME = "Other tags, bytes or outputs"
DELEGATION = (
    "Delegated, but the rule",
    symptoms.REFUSED,
    "Rejected for",
    symptoms.ABSENT,
    "Tagged",
    "A partition that computes nothing",
    ANOTHER_TIME,
)
NUMBERS = (
    symptoms.WRONG,
    symptoms.ROUNDED,
    "Numbers that the float golden excludes",
    "Outputs of another",
    "The runtime changes",
    "No answer in time",
    "More memory",
    ANOTHER_TIME,
)
KINDS = {PARTITION: DELEGATION, COMPILE: (*NUMBERS, symptoms.REFUSED), RUN: NUMBERS}
"""By the stage in which a change shows: how a headline of it begins that tells of no error."""
STAGES: Mapping[int, tuple[str, ...]] = {
    PARTITION: ("passes", "partition", "partition again"),
    COMPILE: ("compile", "compile again", "load", "run"),
    RUN: ("load", "run"),
}
"""By the stage in which a change shows: the stages in which an error may be that comes of it."""


@dataclass(frozen=True)
class Headlines:
    """Asks for the headline of one mutant after the other. lines: the cases that execute each line."""

    judges: Judges
    cases: Sequence[Tried]
    lines: Lines
    stages: Mapping[str, Mapping[int, Set[int]]]
    seed: int

    def of(self, site: Site, tree: ast.Module) -> dict[str, Any]:
        """What stands first, of which rows, and what is known of the change; nothing but NONE where no case fails."""
        numbers = list(self.lines[site.file][site.line])
        random.Random(f"{self.seed} {site.id}").shuffle(numbers)
        stages = self.stages[site.file][site.line]

        def work() -> str:
            sys.meta_path.insert(0, Mutated(self.judges.root, site.file, tree))
            return f"0 0 {json.dumps(self._found([self.cases[number] for number in numbers[:LOOKED_AT]], stages))}"

        how = in_a_process(work, SLACK * self.judges.seconds).how
        told = json.loads(how) if how.startswith("{") else {"headline": NONE, "ended": how}
        return {**told, "executes": self._shares(numbers)}

    def _shares(self, numbers: Sequence[int]) -> dict[str, float]:
        """By row, the share of its cases that execute the line."""
        whole = Counter(each.case.row for each in self.cases)
        mine = Counter(self.cases[number].case.row for number in numbers)
        return {row: round(count / whole[row], 3) for row, count in mine.items()}

    def _found(self, cases: Sequence[Tried], stages: Set[int]) -> dict[str, Any]:
        try:
            backend = load_backend(self.judges.spec)
        except Exception as error:  # noqa: BLE001  (whatever a broken module raises)
            return {"headline": NONE, "ended": f"no backend: {type(error).__name__}"}
        results: list[CaseResult] = []
        shown: dict[str, int] = {}
        for each in cases:
            if time.process_time() > self.judges.seconds / 2 or _enough(results):
                break
            stage = first_difference(each.case, self.judges.table, backend, each.program, each.before)
            if stage is not None:
                shown[each.case.id] = stage
                results.append(run_case(each.case, backend, self.judges.table))
        if not _failing(results):
            return {"headline": NONE, "others": len(shown)}
        known = {each.case.id: each.case for each in cases}
        return _told(find(results, known, set(), self.judges.table), known, shown, stages)


def _failing(results: Sequence[CaseResult]) -> Counter[str]:
    """How many cases of each row fail."""
    return Counter(result.row for result in results if result.status in NOT_PASSED)


def _enough(results: Sequence[CaseResult]) -> bool:
    failing = _failing(results)
    return failing.total() >= FAILING and max(failing.values()) >= OF_A_ROW


def _told(
    findings: Sequence[Finding], cases: Mapping[str, Case], shown: Mapping[str, int], stages: Set[int]
) -> dict[str, Any]:
    first = findings[0]
    where = Counter(shown[name] for name in first.cases)
    return {
        "headline": first.symptom.what,
        "rule": first.symptom.rule,
        "rows": [[row, count] for row, count, _ in first.where],
        "case": first.first,
        "failing": [len(finding.cases) for finding in findings],
        "others": [finding.symptom.what for finding in findings[1:4]],
        "stages": sorted(stages),
        "shows": where.most_common(1)[0][0],
        "answers differ": sorted({cases[name].row for name in shown}),
    }


def told(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The records of mutants that have a headline."""
    return [record for record in records if record["headline"] != NONE]


def right_kind(record: Mapping[str, Any]) -> bool:
    """Whether the headline is of the stage in which the change shows."""
    what, shows = record["headline"], {record["shows"]}
    if shows == {PARTITION} and record["part"] != "rules":
        shows.add(COMPILE)  # a pass: it changes the program before any rule is asked
    if what.startswith(("An error", "The process died")):
        return any(f"in the stage {name!r}" in what for stage in shows for name in STAGES[stage])
    return any(what.startswith(KINDS[stage]) for stage in shows)


def right_place(record: Mapping[str, Any]) -> bool:
    """Whether all rows named have cases that the change answers, and the first is among those most in the line."""
    named, differ = [row for row, _ in record["rows"]], record["answers differ"]
    most = max(record["executes"][row] for row in differ)
    return set(named) <= set(differ) and record["executes"][named[0]] >= SHARE * most


def counted(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """How many headlines are right, and those that are not."""
    mine = told(records)
    right = [record for record in mine if right_kind(record) and right_place(record)]
    yield f"{len(records)} drawn, {len(mine)} shown by cases, {len(right)} headlines right"
    for record in mine:
        if record not in right:
            wrong = [name for name, test in (("kind", right_kind), ("place", right_place)) if not test(record)]
            yield f"{' and '.join(wrong)}: {record['id']}  {record['text']}: {record['headline']}: {record['rows'][:3]}"
