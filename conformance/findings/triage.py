"""The triage of one release: every case that drifts has one cause, and the causes add up to the run's totals.

`python -m npu_assay.conformance.findings.triage RESULTS.jsonl.xz BACKEND TABLE [MET.jsonl.xz]` prints it as Markdown.
MET is the output of `assay reach` for these cases, or for some of every cause: how many fail from an nn.Module.
"""

from __future__ import annotations

import json
import lzma
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.compare.drift import Drift, Entry, drift
from npu_assay.conformance.findings import Finding, findings
from npu_assay.conformance.reach.walk import LEFT, PARTLY, Met
from npu_assay.conformance.record.results import read_results
from npu_assay.conformance.table import TableError, load_table

CAUSES = Path(__file__).with_name("causes")
"""One file per family of backends: its causes, in the order in which they are tried."""
KINDS: Mapping[str, str] = {
    "reached": "reached by a user",
    "edge": "edge program only",
    "impossible": "impossible parameters",
    "table": "table and backend differ, no fault",
}
"""The columns of the table: from where a user can reach a cause."""


FROM_MODULES = "of these, fail from an `nn.Module`, too"
Ends = Mapping[str, Met]
"""The outcomes of cases from an nn.Module, by case id."""


ASKED = 10
"""How many cases of a cause are run from an nn.Module if not all are; all, if it has fewer."""


class TriageError(UsageError):
    """Results that no cause explains, or a file that does not hold results."""


@dataclass(frozen=True)
class Cause:
    """Why cases fail. ids: patterns of case ids, one of which must match; says, flag and agreement narrow them."""

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

    def shows(self, met: Met) -> bool:
        """Whether the case fails from an nn.Module, too; a missed delegation: whether its operator is not delegated."""
        missed = self.severity_told == "missed delegation" and self.kind != "table"
        operator = met.case.split("/")[0].rpartition(".")[0]  # of max_pool2d max_pool2d_with_indices is left
        left = met.end in (LEFT, PARTLY) and any(target.startswith(operator) for target in met.targets)
        return met.is_fault or (missed and left)

    @property
    def severity_told(self) -> str:
        return self.told.severity if self.told else self.severity

    def line(self, cases: Sequence[str], met: Ends | None = None) -> str:
        """The row of the table. met: outcomes of cases from an nn.Module, if these were run."""
        told = self.told
        title = self.title or (f"[{self.finding}]({told.page}.md)" if told else "")
        counts = [str(len(cases)) if kind == self.kind else "" for kind in KINDS]
        counts += [] if met is None else [_of([self.shows(met[case]) for case in cases if case in met], len(cases))]
        upstream = told.upstream if told else self.upstream
        return "| " + " | ".join([title, *counts, self.severity_told, upstream]) + " |"


def _of(shown: Sequence[bool], cases: int) -> str:
    """How many cases fail; of how many, if not all were run."""
    return str(sum(shown) or "") if len(shown) == cases else f"{sum(shown)} of {len(shown)} asked"


def causes(backend: str, table: str) -> tuple[Cause, ...]:
    """The causes of a backend, in the order in which they are tried. Raises TriageError if no file has them.

    table: NAME@VERSION. Releases of a backend that are asked for different tables have different causes: a file that
    names `tables` has those of these tables alone.
    """
    for file in sorted(CAUSES.glob("*.toml")):
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        if backend in data["backends"] and table in data.get("tables", [table]):
            return tuple(Cause(**entry) for entry in data["cause"])
    raise TriageError(
        f"{backend}: found no causes of its cases in {table}, expected a file of {CAUSES.name} that names both"
    )


def causes_of(found: Drift) -> tuple[Cause, ...]:
    """The causes of the backend and table of a run."""
    return causes(found.backend, found.table.title)


Sorted = Sequence[tuple[Cause, list[str]]]


def triage(found: Drift, known: Sequence[Cause]) -> Sorted:
    """Ids of drifting cases by cause, in the order of the causes. Raises TriageError for a case without a cause."""
    sorted_out: Sorted = [(cause, []) for cause in known]
    for entry in found.found:
        cases = next((cases for cause, cases in sorted_out if cause.explains(entry)), None)
        if cases is None:
            raise TriageError(f"{entry.result.case}: found no cause ({entry.flag or entry.agreement}), expected one")
        cases.append(entry.result.case)
    return sorted_out


def read(path: Path, backend: str, table: str) -> Drift:
    """The drift in a file of results that is compressed with xz."""
    try:
        text = lzma.decompress(path.read_bytes()).decode()
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise TriageError(f"{path}: {error}, expected results compressed with xz") from error
    return drift(backend, load_table(table), read_results(text, path.name).values())


def from_modules(path: Path) -> Ends:
    """The outcomes that `assay reach` wrote, compressed with xz. Raises TriageError for any other file."""
    try:
        lines = lzma.decompress(path.read_bytes()).decode().splitlines()
        found = [Met.from_data(json.loads(line)) for line in lines]
    except (OSError, lzma.LZMAError, ValueError, TypeError, KeyError) as error:
        raise TriageError(f"{path}: {error}, expected the output of 'assay reach', compressed with xz") from error
    return {met.case: met for met in found}


def check_asked(sorted_out: Sorted, met: Ends) -> None:
    """Raise TriageError unless the cases that `spread` chooses were run for every cause."""
    for cause, cases in sorted_out:
        asked = sum(case in met for case in cases)
        if asked < min(ASKED, len(cases)):
            missing = next(case for case in cases if case not in met)
            wanted = min(ASKED, len(cases))
            raise TriageError(
                f"{cause.title or cause.finding}: found {asked} cases, expected {wanted}: {missing} is missing"
            )


def spread(cases: Sequence[str], count: int) -> Sequence[str]:
    """`count` of the cases, spread evenly over their order; all, if there are fewer."""
    return cases if len(cases) <= count else [cases[place * len(cases) // count] for place in range(count)]


def markdown(sorted_out: Sorted, total: int, met: Ends | None = None) -> Iterator[str]:
    """The table with a last row of sums."""
    columns = [*KINDS.values(), *([] if met is None else [FROM_MODULES])]
    yield "| cause | " + " | ".join(columns) + " | severity | upstream |"
    yield "|---" * (len(columns) + 3) + "|"
    yield from (cause.line(cases, met) for cause, cases in sorted_out if cases)
    sums = [str(sum(len(cases) for cause, cases in sorted_out if cause.kind == kind)) for kind in KINDS]
    shown = [cause.shows(met[case]) for cause, cases in sorted_out for case in cases if case in met] if met else []
    sums += [] if met is None else [_of(shown, total)]
    yield "| **all " + str(total) + "** | " + " | ".join(sums) + " | | |"


def main(arguments: Sequence[str]) -> int:
    """Print the triage; exit code 2 for results that no cause explains or that cannot be read."""
    if len(arguments) not in (3, 4):
        print("usage: triage RESULTS.jsonl.xz BACKEND TABLE [MET.jsonl.xz]", file=sys.stderr)
        return 2
    try:
        found = read(Path(arguments[0]), arguments[1], arguments[2])
        sorted_out = triage(found, causes_of(found))
        met = from_modules(Path(arguments[3])) if len(arguments) == 4 else None
        if met is not None:
            check_asked(sorted_out, met)
        print("\n".join(markdown(sorted_out, len(found.found), met)))
    except (UsageError, TableError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
