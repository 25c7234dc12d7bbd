"""Where a backend's code and its support table differ, from the recorded results of a run alone.

Each case gives one agreement, from what the table promises and what the partitioner did, and one outcome, from what
the model did then. Both are derived from a result's line, so the same file gives the same drift again.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from npu_assay.conformance.common.grouping import grouped_by
from npu_assay.conformance.compare.promise import BEYOND, DIFFER, DOCUMENTED, documented, source
from npu_assay.conformance.record.levels import NUMBERS
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.table import Table
from npu_assay.conformance.verify.result import FORM, GATES

FILE = "drift.json"
SCHEMA = 2

BOTH_ACCEPT, BOTH_REJECT = "both_accept", "both_reject"
TABLE_ACCEPTS, TABLE_REJECTS = "table_accepts", "table_rejects"
SILENT, NO_ANSWER = "silent", "no_answer"
AGREEMENTS: Mapping[str, str] = {
    BOTH_ACCEPT: "both accept",
    BOTH_REJECT: "both reject",
    TABLE_ACCEPTS: "table accepts, backend rejects",
    TABLE_REJECTS: "table rejects, backend accepts",
    SILENT: "table silent",
    NO_ANSWER: "no answer",
}
"""The four verdicts, and what has none: cases that the table says nothing about, and those without an answer."""

RIGHT, BREAKS, WRONG, NOT_RUN, NOT_JUDGED, OTHER = "right", "breaks", "wrong", "not_run", "not_judged", "other"
SUITE = ("build: ", "judge: ")
"""How the messages of errors begin that are the suite's own: it has no golden for what was accepted."""
_OUTCOMES: Mapping[str, frozenset[str]] = {
    BREAKS: frozenset({"crash", "hang", "memory", "tool"}),
    WRONG: frozenset({"outputs", *FORM, *GATES}),
    NOT_RUN: frozenset({"not_run"}),
    NOT_JUDGED: frozenset({"suite"}),
    OTHER: frozenset({"delegates", "determinism", "empty", "leak", "mutation", "noise", "state"}),
}
"""The checks that show each outcome; of several, the first one counts."""

_SUBJECTS: Mapping[str, str] = {"accepted": "accepted, but", "rejected": "rejected, but", "unanswered": "no answer:"}
_WORDS: Mapping[str, str] = {
    BREAKS: "breaks",
    WRONG: "wrong",
    NOT_RUN: "not run",
    NOT_JUDGED: "not judged",
    OTHER: "other faults",
}
FLAGS: Mapping[str, str] = {
    f"{subject}_{found}": f"{how} {word}" for subject, how in _SUBJECTS.items() for found, word in _WORDS.items()
}
"""What became of the model, by what became of its subject. Of a rejected subject, other parts may be delegated."""
COUNTED = (*AGREEMENTS, *FLAGS)


@dataclass(frozen=True)
class Entry:
    """One case. flag: a key of FLAGS, "" when the model ran as it must; document: a key of DOCUMENTED, or ""."""

    result: CaseResult
    precision: str
    agreement: str
    flag: str
    document: str = ""

    @property
    def drifts(self) -> bool:
        """Whether backend and table, or numbers and golden, differ."""
        return self.agreement in (TABLE_ACCEPTS, TABLE_REJECTS, NO_ANSWER) or bool(self.flag)


@dataclass(frozen=True)
class Line:
    """A constraint of an operator in one precision, and counts by COUNTED.

    precision: "" where there is only one, and of random programs. source: where the constraint comes from, "" for
    cases about none. documented: counts by DOCUMENTED.
    """

    row: str
    precision: str
    constraint: str
    counts: Mapping[str, int]
    source: str = ""
    documented: Mapping[str, int] = field(default_factory=dict)

    @property
    def drifts(self) -> bool:
        return any(self.counts[key] for key in (TABLE_ACCEPTS, TABLE_REJECTS, NO_ANSWER, *FLAGS))

    @property
    def differs(self) -> bool:
        """Whether document and backend differ in a case."""
        return any(self.documented[key] for key in DIFFER)


@dataclass(frozen=True)
class Drift:
    """The drift of one run: every case, in the order of the results.

    seed: of their random numbers. level: how far the run looked.
    """

    backend: str
    table: Table
    entries: tuple[Entry, ...]
    seed: int = 0
    level: str = NUMBERS

    @property
    def found(self) -> tuple[Entry, ...]:
        """The cases that drift."""
        return tuple(entry for entry in self.entries if entry.drifts)

    @property
    def counts(self) -> Mapping[str, int]:
        """The numbers of all cases."""
        return count(self.entries)

    @property
    def lines(self) -> tuple[Line, ...]:
        """By operator, precision and constraint, in the table's order of operators."""
        groups = grouped_by(self.entries, lambda entry: (entry.result.row, entry.precision, entry.result.constraint))
        rows = [row.name for row in self.table.asked_rows]
        kinds = defaultdict[str, list[str]](list)
        for row in self.table.asked_rows:
            kinds[row.name] += [*row.precisions, ""]
        order = sorted(groups, key=lambda key: (rows.index(key[0]), kinds[key[0]].index(key[1]), key[2]))
        return tuple(self._line(*key, groups[key]) for key in order)

    def _line(self, row: str, precision: str, code: str, entries: Sequence[Entry]) -> Line:
        origin = source(self.table, self.table.row(row), code)
        return Line(row, precision, code, count(entries), origin, count_documented(entries))

    @property
    def documented(self) -> Mapping[str, int]:
        """What document and backend say of all cases, by DOCUMENTED."""
        return count_documented(self.entries)

    @property
    def beyond(self) -> Mapping[tuple[str, str], int]:
        """Accepted cases by operator and precision that the document does not list."""
        counts = Counter((e.result.row, e.precision) for e in self.entries if e.document == BEYOND)
        order = {place: at for at, place in enumerate((line.row, line.precision) for line in self.lines)}
        return {place: counts[place] for place in sorted(counts, key=order.__getitem__)}

    def by(self, key: str) -> dict[str, Mapping[str, int]]:
        """Counts by "row" or by "constraint"."""
        groups = grouped_by(self.entries, lambda entry: str(getattr(entry.result, key)))
        return {name: count(groups[name]) for name in sorted(groups)}

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "schema": SCHEMA,
            "backend": self.backend,
            "table": self.table.title,
            **({} if self.level == NUMBERS else {"level": self.level}),
            "cases": len(self.entries),
            "counts": dict(self.counts),
            "documented": dict(self.documented),
            "refused": {row.name: row.constraints[0].code for row in self.table.refused},
            "rewritten": {x.name: list(x.operators) for x in self.table.rewritten},
            "lines": [dict(vars(line)) for line in self.lines],
            "drifting": [_plain(entry) for entry in self.found],
        }


def drift(backend: str, table: Table, results: Iterable[CaseResult], seed: int = 0, level: str = NUMBERS) -> Drift:
    """What the results of a run say about its backend and its table.

    seed: of the cases' random numbers. level: how far the run looked.
    """
    return Drift(backend, table, tuple(_entry(table, result) for result in results), seed, level)


def drift_text(found: Drift) -> str:
    """drift.json: keys sorted, a final newline."""
    return json.dumps(found.as_json(), indent=1, sort_keys=True) + "\n"


def count(entries: Sequence[Entry]) -> Mapping[str, int]:
    """How many cases have each agreement and each flag."""
    counts = Counter([entry.agreement for entry in entries] + [entry.flag for entry in entries])
    return {key: counts[key] for key in COUNTED}


def count_documented(entries: Sequence[Entry]) -> Mapping[str, int]:
    """How many cases document and backend say each of DOCUMENTED of."""
    counts = Counter(entry.document for entry in entries)
    return {key: counts[key] for key in DOCUMENTED}


def _entry(table: Table, result: CaseResult) -> Entry:
    second = result.case.removeprefix(f"{result.row}/").partition("/")[0]
    precision = second if second in table.row(result.row).precisions else ""
    return Entry(result, precision, agreement(result), flag(result), documented(table, result, precision))


def agreement(result: CaseResult) -> str:
    """A key of AGREEMENTS. A subject of which only some nodes are delegated is not what the table promises."""
    if result.verdict in ("error", "absent"):
        return NO_ANSWER
    if result.expect == "unspecified":
        return SILENT
    if result.expect == "accept":
        return BOTH_ACCEPT if result.verdict == "accept" else TABLE_ACCEPTS
    return BOTH_REJECT if result.verdict == "reject" else TABLE_REJECTS


def outcome(result: CaseResult) -> str:
    """What the model did; tags and reasons are left to `agreement`."""
    if result.status == "undecided":
        return NOT_JUDGED
    checks = {"suite" if failure.message.startswith(SUITE) else failure.check for failure in result.failures}
    return next((name for name, known in _OUTCOMES.items() if checks & known), RIGHT)


def flag(result: CaseResult) -> str:
    """A key of FLAGS, or ""."""
    found = outcome(result)
    subject = {"accept": "accepted", "partial": "accepted", "reject": "rejected"}.get(result.verdict, "unanswered")
    return "" if found == RIGHT else f"{subject}_{found}"


def _plain(entry: Entry) -> dict[str, Any]:
    result = entry.result
    return {
        "case": result.case,
        "agreement": entry.agreement,
        "flag": entry.flag,
        "document": entry.document,
        "expect": result.expect,
        "reason": result.reason,
        "verdict": result.verdict,
        "failures": [f"{failure.check}: {failure.message}" for failure in result.failures],
    }
