"""The triage of one release: every case that drifts has one cause, and the causes add up to the run's totals.

`python -m npu_assay.conformance.findings.triage RESULTS.jsonl.xz BACKEND TABLE [MET.jsonl.xz]` prints it as Markdown.
MET is what `assay reach` found of the same cases: how many of them fail from an nn.Module, too.
"""

from __future__ import annotations

import json
import lzma
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.compare.drift import Drift, Entry, drift
from npu_assay.conformance.findings import Finding, findings
from npu_assay.conformance.reach.walk import FAULTS
from npu_assay.conformance.record.results import ResultError, read_results
from npu_assay.conformance.table import TableError, load_table

CAUSES = Path(__file__).with_name("causes")
"""A file for each family of backends: the causes in the order in which they are asked, and whose they are."""
KINDS: Mapping[str, str] = {
    "reached": "reached by a user",
    "edge": "edge program only",
    "impossible": "impossible parameters",
    "table": "table and code differ, no fault",
}
"""The columns of the table: how far a user can meet a cause."""


FROM_MODULES = "of these, fail from an `nn.Module`, too"
Failing = Mapping[str, bool]
"""Whether a case fails from an nn.Module, by its id."""


class TriageError(UsageError):
    """Results that no cause explains, or that are none."""


@dataclass(frozen=True)
class Cause:
    """Why cases fail. ids: patterns of case ids, of which one fits; says, flag and agreement narrow them."""

    kind: str
    ids: Sequence[str]
    finding: str = ""
    title: str = ""
    severity: str = ""
    upstream: str = ""
    says: str = ""
    flag: str = ""
    agreement: str = ""

    def explains(self, entry: Entry) -> bool:
        result = entry.result
        return (
            any(fnmatchcase(result.case, pattern) for pattern in self.ids)
            and self.flag in ("", entry.flag)
            and self.agreement in ("", entry.agreement)
            and any(self.says in failure.message for failure in result.failures)
        )

    @property
    def told(self) -> Finding | None:
        return findings()[self.finding] if self.finding else None

    def line(self, cases: Sequence[str], met: Failing | None = None) -> str:
        """The row of the table. met: whether a case fails from an nn.Module, where that was asked."""
        told = self.told
        title = self.title or (f"[{self.finding}]({told.page}.md)" if told else "")
        counts = [str(len(cases)) if kind == self.kind else "" for kind in KINDS]
        counts += [] if met is None else [str(sum(met[case] for case in cases) or "")]
        severity, upstream = (told.severity, told.upstream) if told else (self.severity, self.upstream)
        return "| " + " | ".join([title, *counts, severity, upstream]) + " |"


def causes(backend: str) -> tuple[Cause, ...]:
    """The causes of a backend, in the order in which they are asked. Raises TriageError where none are written."""
    for file in sorted(CAUSES.glob("*.toml")):
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        if backend in data["backends"]:
            return tuple(Cause(**entry) for entry in data["cause"])
    raise TriageError(f"{backend}: found no causes of its cases, expected a file of {CAUSES.name} that names it")


Sorted = Sequence[tuple[Cause, list[str]]]


def triage(found: Drift, known: Sequence[Cause]) -> Sorted:
    """Ids of the drifting cases by their cause, in the order of the causes. Raises TriageError where there is none."""
    sorted_out: Sorted = [(cause, []) for cause in known]
    for entry in found.found:
        cases = next((cases for cause, cases in sorted_out if cause.explains(entry)), None)
        if cases is None:
            raise TriageError(f"{entry.result.case}: found no cause ({entry.flag or entry.agreement}), expected one")
        cases.append(entry.result.case)
    return sorted_out


def read(path: Path, backend: str, table: str) -> Drift:
    """The drift of raw results, compressed with xz."""
    try:
        text = lzma.decompress(path.read_bytes()).decode()
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise TriageError(f"{path}: {error}, expected results compressed with xz") from error
    return drift(backend, load_table(table), read_results(text, path.name).values())


def fails_from_modules(path: Path, cases: Iterable[str]) -> Failing:
    """Which of the cases fail from an nn.Module. Raises TriageError where one of them was not asked."""
    try:
        lines = lzma.decompress(path.read_bytes()).decode().splitlines()
        found = {line["case"]: line["end"] in FAULTS for line in map(json.loads, lines)}
    except (OSError, lzma.LZMAError, ValueError, TypeError, KeyError) as error:
        raise TriageError(f"{path}: {error}, expected what assay reach writes, compressed with xz") from error
    missing = sorted(set(cases) - set(found))
    if missing:
        raise TriageError(
            f"{path}: {missing[0]} is not in it, and {len(missing) - 1} more; expected every case that fails"
        )
    return found


def markdown(sorted_out: Sorted, total: int, met: Failing | None = None) -> Iterator[str]:
    """The table with a last row of sums."""
    columns = [*KINDS.values(), *([] if met is None else [FROM_MODULES])]
    yield "| cause | " + " | ".join(columns) + " | severity | upstream |"
    yield "|---" * (len(columns) + 3) + "|"
    yield from (cause.line(cases, met) for cause, cases in sorted_out if cases)
    sums = [sum(len(cases) for cause, cases in sorted_out if cause.kind == kind) for kind in KINDS]
    sums += [] if met is None else [sum(met[case] for _, cases in sorted_out for case in cases)]
    yield "| **all " + str(total) + "** | " + " | ".join(str(one) for one in sums) + " | | |"


def main(arguments: Sequence[str]) -> int:
    """Exit code 2 for results that are not explained or cannot be read."""
    if len(arguments) not in (3, 4):
        print("usage: triage RESULTS.jsonl.xz BACKEND TABLE [MET.jsonl.xz]", file=sys.stderr)
        return 2
    try:
        found = read(Path(arguments[0]), arguments[1], arguments[2])
        cases = [entry.result.case for entry in found.found]
        met = fails_from_modules(Path(arguments[3]), cases) if len(arguments) == 4 else None
        print("\n".join(markdown(triage(found, causes(arguments[1])), len(cases), met)))
    except (UsageError, ResultError, TableError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
