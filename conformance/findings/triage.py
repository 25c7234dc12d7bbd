"""The triage of one release: every case that drifts has one cause, and the causes add up to the run's totals.

`python -m npu_assay.conformance.findings.triage RESULTS.jsonl.xz BACKEND TABLE` prints it as Markdown.
"""

from __future__ import annotations

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
from npu_assay.conformance.record.results import ResultError, read_results
from npu_assay.conformance.table import TableError, load_table

FILE = Path(__file__).with_name("triage.toml")
KINDS: Mapping[str, str] = {
    "reached": "reached by a user",
    "edge": "edge program only, or not tried",
    "impossible": "impossible parameters",
    "table": "table and code differ, no fault",
}
"""The columns of the table: how far a user can meet a cause."""


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

    def line(self, cases: int) -> str:
        """The row of the table."""
        told = self.told
        title = self.title or (f"[{self.finding}]({told.page}.md)" if told else "")
        counts = [str(cases) if kind == self.kind else "" for kind in KINDS]
        severity, upstream = (told.severity, told.upstream) if told else (self.severity, self.upstream)
        return "| " + " | ".join([title, *counts, severity, upstream]) + " |"


def causes(file: Path = FILE) -> tuple[Cause, ...]:
    """The causes in the order in which they are asked."""
    return tuple(Cause(**entry) for entry in tomllib.loads(file.read_text(encoding="utf-8"))["cause"])


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


def markdown(sorted_out: Sorted, total: int) -> Iterator[str]:
    """The table with a last row of sums."""
    yield "| cause | " + " | ".join(KINDS.values()) + " | severity | upstream |"
    yield "|---" * (len(KINDS) + 3) + "|"
    for cause, cases in sorted_out:
        yield cause.line(len(cases))
    sums = [sum(len(cases) for cause, cases in sorted_out if cause.kind == kind) for kind in KINDS]
    yield "| **all " + str(total) + "** | " + " | ".join(str(one) for one in sums) + " | | |"


def main(arguments: Sequence[str]) -> int:
    """Exit code 2 for results that are not explained or cannot be read."""
    if len(arguments) != 3:
        print("usage: triage RESULTS.jsonl.xz BACKEND TABLE", file=sys.stderr)
        return 2
    try:
        found = read(Path(arguments[0]), arguments[1], arguments[2])
        print("\n".join(markdown(triage(found, causes()), len(found.found))))
    except (UsageError, ResultError, TableError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
