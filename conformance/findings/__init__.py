"""Faults that were found in releases of other projects, from one file: their cases, severity and origin."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from npu_assay.conformance.common.errors import UsageError, nearest
from npu_assay.conformance.common.memory import once

WORD = "regression"
"""A word of `-k`: the cases of every finding; `regression/NAME`: those of one finding."""
FILE = Path(__file__).with_name("shipped.toml")
CPU = Path("/proc/cpuinfo")
SEVERITIES: Mapping[str, str] = {
    "wrong numbers": "silent: nothing is raised, and results differ from the model's",
    "crash": "an internal error ends the quantizer, the partitioner or the compiler, or the process dies",
    "refusal": "what was lowered, or a valid model, is refused with an error when it is loaded or run",
    "missed delegation": "results are right, but what is documented to be delegated stays on the CPU",
    "side effect": "results are right, but something outside the model is changed, or work is done for nothing",
}
"""The severities of findings, and what each means."""


@dataclass(frozen=True)
class Finding:
    """One fault of a release.

    page: of docs/reports, without its ending. releases: the backends that show it, by spec, with the release.
    severity: a key of SEVERITIES. reach: the shortest way on which a user meets it. upstream: issue and pull request
    numbers, or that none was found as of a date. cases: ids of cases; where no table has one, `without` says why.
    processor: features of which the processor must have one, and flags: what they are called in /proc/cpuinfo; the
    cases pass on others.
    """

    name: str
    page: str
    releases: Mapping[str, str]
    severity: str
    cause: str
    reach: str
    upstream: str
    cases: tuple[str, ...]
    without: str = ""
    processor: str = ""
    flags: tuple[str, ...] = ()

    def shown_by(self, backend: str, version: str) -> bool:
        """Whether a release of the backend's project shows the finding; version: as `releases` spells it, "1.5.1"."""
        return version in self.releases.get(backend, "").split()

    @property
    def head(self) -> str:
        """The table at the top of the finding's page, in Markdown."""
        asked = f"`-k {WORD}/{self.name}`" if self.cases else f"none: {self.without}"
        rows = {
            "root cause": self.cause,
            "severity": self.severity,
            "reachable by": self.reach,
            "upstream": self.upstream,
            "cases": asked + (f", on processors with {self.processor}" if self.processor else ""),
        }
        return "\n".join(["| finding | |", "|---|---|", *(f"| {key} | {text} |" for key, text in rows.items())])


@once
def findings() -> Mapping[str, Finding]:
    """Every finding, by name."""
    data = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {
        name: Finding(name, **{**entry, **{key: tuple(entry.get(key, ())) for key in ("cases", "flags")}})
        for name, entry in data.items()
    }


@once
def processor_flags() -> frozenset[str]:
    """The features of this machine's processor, among other words; empty where the system does not list them."""
    return frozenset(CPU.read_text(encoding="utf-8").split() if CPU.exists() else ())


THERE, GONE, NOT_JUDGED, UNASKED = "still there", "not there", "not judged", "cannot be asked"
"""What a run says of a finding: one of its cases fails; all pass; none was decided here; none was run."""


def statuses(backend: str, expression: str | None, results: Mapping[str, str]) -> Iterator[tuple[Finding, str, str]]:
    """Each finding in a backend that an expression of `-k` asks for, its status, and why it has no other.

    results: the status of every case that was run. Without a word for findings in the expression, those alone whose
    cases passed as this machine's processor cannot show them.
    """
    words = set((expression or "").lower().replace("(", " ").replace(")", " ").split())
    for one in findings().values():
        if backend not in one.releases:
            continue
        status, why = _status(one, results)
        if words & {WORD, f"{WORD}/{one.name}"} or (one.flags and status == NOT_JUDGED):
            yield one, status, why


def _status(finding: Finding, results: Mapping[str, str]) -> tuple[str, str]:
    found = {results[case] for case in finding.cases if case in results}
    if not found:
        return UNASKED, finding.without or "its cases were not run"
    if "fail" in found:
        return THERE, ""
    if finding.flags and not processor_flags() & set(finding.flags):
        return NOT_JUDGED, f"a processor with {finding.processor} shows it"
    return (
        (GONE, "") if found == {"pass"} else (NOT_JUDGED, f"the cases that ask for it are {', '.join(sorted(found))}")
    )


def regression(word: str) -> frozenset[str] | None:
    """The ids of cases that a word of a `-k` expression stands for; None for any other word.

    Raises UsageError for the name of no finding.
    """
    if word.lower() == WORD:
        return frozenset(case for finding in findings().values() for case in finding.cases)
    name = word.lower().removeprefix(f"{WORD}/")
    if name == word.lower():
        return None
    if name not in findings():
        raise UsageError(f"-k {word!r}: no finding {name!r}{nearest(name, findings())}")
    return frozenset(findings()[name].cases)
