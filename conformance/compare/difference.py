"""What changed between two runs: the verdicts, what they were made with, and each case's tags, reasons and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.escaped import counted
from npu_assay.conformance.record.certificate import Certificate, Fuzz, outcome_text
from npu_assay.conformance.record.folder import own_results
from npu_assay.conformance.record.levels import LEVELS, NUMBERS, TAGS
from npu_assay.conformance.record.names import RESULTS, Contents
from npu_assay.conformance.record.read import read_contents
from npu_assay.conformance.record.results import CaseResult, Number, promise, read_results
from npu_assay.conformance.record.waivers import Waiver
from npu_assay.conformance.verify.result import beyond

KINDS = ("cases", "promises", "tags", "reasons", "failures", "numbers", "delegates", "bytes")
WAIVER = "waiver of "
Side = str | None  # what one run has, in words; None: no such case


@dataclass(frozen=True)
class Run:
    """One side of the comparison: where it was read, what it states, its results by case."""

    name: str
    certificate: Certificate
    results: Mapping[str, CaseResult]


@dataclass(frozen=True)
class Change:
    """One thing that differs of one case. what: the metric of a change of numbers, else ""."""

    row: str
    kind: str
    case: str
    before: Side
    after: Side
    what: str = ""


@dataclass(frozen=True)
class Difference:
    """stated: what the certificates say, made_with: versions and sources, each as (what, before, after).

    changes: of the cases, by row and kind. What the runs were made with does not make them different.
    """

    a: Run
    b: Run
    stated: tuple[tuple[str, str, str], ...]
    made_with: tuple[tuple[str, str, str], ...]
    changes: tuple[Change, ...]

    @property
    def level(self) -> str:
        """The lower level of the two runs: what both of them judged."""
        return _lower(self.a, self.b)

    @property
    def same(self) -> bool:
        return not self.stated and not self.changes

    @property
    def conclusion(self) -> str:
        """The last line: the same, how many cases differ, or what else does where none of them differs."""
        if self.same:
            return "the same"
        skipped = sum(map(len, self.unselected.values()))
        known = len({*self.a.results, *self.b.results}) - skipped
        cases = f"{len(self.differing)} of {counted(known, 'case')}"
        compared = f"{cases}, and {skipped} not compared" if skipped else cases
        if self.differing:
            return f"different: {compared}"
        names = [what for what, _, _ in self.stated]
        others = [what for what in names if not what.startswith(WAIVER)]
        waivers = [counted(len(names) - len(others), "waiver")] if others != names else []
        return f"different: {', '.join(dict.fromkeys([*others, *waivers]))}; {compared}"

    @property
    def differing(self) -> frozenset[str]:
        """The cases that differ. One that a run did not select is not compared."""
        return frozenset(change.case for change in self.changes).difference(*self.unselected.values())

    @property
    def unselected(self) -> Mapping[str, frozenset[str]]:
        """By the run ("a", "b"), the cases that it lacks because it is of another selection of them."""
        if self.a.certificate.selection == self.b.certificate.selection:
            return {}
        pairs = {"a": (self.a, self.b), "b": (self.b, self.a)}
        lacking = {
            name: frozenset(other.results.keys() - run.results.keys())
            for name, (run, other) in pairs.items()
            if not run.certificate.selection.everything
        }
        return {name: cases for name, cases in lacking.items() if cases}

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data; what a certificate states that is long is left to the certificates."""
        rows: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for row, kinds in by_row_and_kind(self.changes):
            rows[row] = {kind: [_plain(change) for change in changes] for kind, changes in kinds}
        return {
            "same": self.same,
            "a": _summary(self.a),
            "b": _summary(self.b),
            "stated": [dict(zip(("what", "a", "b"), entry, strict=True)) for entry in self.stated],
            "made_with": [dict(zip(("what", "a", "b"), entry, strict=True)) for entry in self.made_with],
            "rows": rows,
        }


def by_row_and_kind(changes: Iterable[Change]) -> Iterator[tuple[str, list[tuple[str, list[Change]]]]]:
    """The changes, in their order by row and kind, of each row, of each kind."""
    for row, of_row in groupby(changes, key=lambda change: change.row):
        yield row, [(kind, list(of_kind)) for kind, of_kind in groupby(of_row, key=lambda change: change.kind)]


def _plain(change: Change) -> dict[str, Any]:
    data = asdict(change)
    return {"case": data["case"], "a": data["before"], "b": data["after"]} | (
        {"metric": change.what} if change.what else {}
    )


def _summary(run: Run) -> dict[str, Any]:
    certificate = run.certificate
    return {
        "name": run.name,
        "certified": certificate.certified,
        "passed": certificate.passed,
        "selection": str(certificate.selection) or None,
        "level": certificate.level,
        "counts": dict(certificate.counts),
        "made": certificate.made,
        "backend": certificate.backend["name"],
        "table": f"{certificate.table['name']}@{certificate.table['version']}",
    }


def read_run(path: Path) -> Run:
    """Read a folder or an archive. Raises UsageError for one without a certificate, or whose files do not fit it."""
    return run_of(read_contents(path))


def run_of(contents: Contents) -> Run:
    """The run whose files were read. Raises UsageError as `read_run` does."""
    path = contents.name
    for problem in contents.problems:
        raise UsageError(f"{path}: {problem}")
    try:
        certificate, text = own_results(contents)
        return Run(path, certificate, read_results(text, RESULTS))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def compare(a: Run, b: Run) -> Difference:
    """Everything that differs, rows and cases in order of their names.

    Of runs of two levels, what both of them judged.
    """
    level = _lower(a, b)
    changes = [change for case in sorted({*a.results, *b.results}) for change in _changes(case, a, b, level)]
    ranked = sorted(changes, key=lambda change: (change.row, KINDS.index(change.kind), change.case, change.what))
    stated = _pairs(_stated(a.certificate), _stated(b.certificate))
    return Difference(a, b, stated, _pairs(_made_with(a.certificate), _made_with(b.certificate)), tuple(ranked))


def _lower(a: Run, b: Run) -> str:
    return min(a.certificate.level, b.certificate.level, key=LEVELS.index)


def _changes(case: str, a: Run, b: Run, level: str) -> Iterator[Change]:
    before, after = a.results.get(case), b.results.get(case)
    known = before or after
    assert known is not None
    if before is None or after is None:
        yield Change(known.row, "cases", case, _status(before), _status(after))
        return
    before, after = seen_at(before, level), seen_at(after, level)
    for kind, words in WORDS.items():
        one, other = words(before), words(after)
        if one != other:
            yield Change(known.row, kind, case, one, other)
    for metric in sorted({*before.metrics, *after.metrics}):
        x, y = before.metrics.get(metric), after.metrics.get(metric)
        if x != y:
            yield Change(known.row, "numbers", case, number(x), number(y), metric)


def seen_at(result: CaseResult, level: str) -> CaseResult:
    """What a run of a lower level would have recorded of the same case: no failed gates, numbers or blobs."""
    if level == NUMBERS:
        return result
    kept = tuple(failure for failure in result.failures if failure.check not in beyond(level))
    blobs = () if level == TAGS else result.blobs
    return replace(result, failures=kept, metrics=dict.fromkeys(result.metrics), blobs=blobs)


def number(value: Number) -> str:
    """A metric as text; "none" for one that was not measured."""
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _status(result: CaseResult | None) -> Side:
    return None if result is None else f"{result.verdict}, {result.status}"


def _promise(result: CaseResult) -> str:
    return f"{promise(result)}, program {result.program[:12]}"


def _reasons(result: CaseResult) -> str:
    reasons: Sequence[str] = [f"{reason.code} ({reason.found})" for reason in result.reasons or ()]
    return "not given" if result.reasons is None else "; ".join(reasons) or "none"


def failures_text(result: CaseResult) -> str:
    """The failures of a case in one line."""
    return "; ".join(map(str, result.failures)) or "none"


WORDS: Mapping[str, Callable[[CaseResult], str]] = {
    "promises": _promise,
    "tags": lambda result: result.verdict,
    "reasons": _reasons,
    "failures": failures_text,
    "delegates": lambda result: str(result.partitions),
    "bytes": lambda result: ", ".join(blob[:12] for blob in result.blobs) or "none",
}


# ------------------------------------------------------------------------------------ certificates


def _stated(certificate: Certificate) -> dict[str, str]:
    waivers = {f"{WAIVER}{waiver.case}": waivers_text([waiver]) for waiver in certificate.waivers}
    counts = ", ".join(f"{count} {name}" for name, count in certificate.counts.items())
    return {
        "verdict": outcome_text(certificate, selection=False),
        "level": certificate.level,
        "counts": counts,
        "table": f"{certificate.table['name']}@{certificate.table['version']} {certificate.table['sha256'][:12]}",
        "selection": str(certificate.selection) or "all cases",
        "seed": str(certificate.selection.seed),
        "random programs": _programs(certificate.fuzz),
        **waivers,
    }


def waivers_text(waivers: Sequence[Waiver]) -> str:
    """Waivers of one reason, owner and last day, with all their checks; "none" for none."""
    if not waivers:
        return "none"
    checks = ", ".join(dict.fromkeys(check for waiver in waivers for check in waiver.checks))
    limits = [waiver.max_lsb for waiver in waivers if waiver.max_lsb is not None]
    most = f" up to {max(limits)} LSB" if len(limits) == len(waivers) else ""
    return f"{checks}{most} until {waivers[0].expires}, {waivers[0].owner}: {waivers[0].reason}"


def _programs(fuzz: Fuzz | None) -> str:
    """What the certificates say of them; equal digests are equal results."""
    return "none" if fuzz is None else f"{fuzz.programs}, {fuzz.fail} fail, {fuzz.sha256[:12]}"


def _made_with(certificate: Certificate) -> dict[str, str]:
    sources = {
        f"{name} {path}": digest[:12]
        for name, part in (("suite", certificate.suite), ("backend", certificate.backend))
        for path, digest in part["sources"].items()
    }
    return {
        "made on": certificate.made,
        "suite": str(certificate.suite["version"]),
        "backend": f"{certificate.backend['name']} ({certificate.backend['spec']})",
        "further compilers": ", ".join(certificate.backend["tools"]) or "none",
        **certificate.environment,
        **sources,
    }


def _pairs(a: Mapping[str, str], b: Mapping[str, str]) -> tuple[tuple[str, str, str], ...]:
    names = dict.fromkeys([*a, *b])
    pairs = ((name, a.get(name, "none"), b.get(name, "none")) for name in names)
    return tuple(entry for entry in pairs if entry[1] != entry[2])
