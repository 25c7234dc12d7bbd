"""The summary of a run for a board: counts by operator, findings, and one letter per case, small enough for a cache.

The digest in the certificate covers every line of the results file, so passing lines are matched by a pattern, and only
the others are parsed.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from npu_assay.conformance.cases.drafts import OPERATOR
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.grouping import grouped_by, most_first
from npu_assay.conformance.record.certificate import (
    COUNTS,
    UNDECIDED,
    Certificate,
    certificate_text,
    outcome_text,
)
from npu_assay.conformance.record.folder import own_results
from npu_assay.conformance.record.names import CERTIFICATE, RESULTS
from npu_assay.conformance.record.read import read_contents, read_folder
from npu_assay.conformance.record.results import NOT_PASSED, STATUSES, VERDICTS, CaseResult, ResultError, from_line
from npu_assay.conformance.record.waivers import waived_cases
from npu_assay.conformance.report.symptoms import ABSENT, TAKEN, refined, symptom, undelegated

READ = (CERTIFICATE, RESULTS)
TALLY = (*COUNTS[1:], UNDECIDED)  # of each operator: pass, unspecified, fail, waived, undecided
WAIVED = "waived"
MOST = 20  # findings
LISTED = 200  # failing cases
LETTERS = {
    (verdict, status): chr(ord("A") + len(STATUSES) * v + s)
    for v, verdict in enumerate(VERDICTS)
    for s, status in enumerate(STATUSES)
}
"""One letter for each verdict and status of a case."""
OUTCOMES = {letter: outcome for outcome, letter in LETTERS.items()} | {
    LETTERS[verdict, "fail"].lower(): (verdict, WAIVED) for verdict in VERDICTS
}
_LINE = re.compile(
    r'\{"blobs":\[[^\]]*\],"case":"([^"\\]*)",.*'
    r'"row":"([^"\\]*)","sha256":"[0-9a-f]{16}",(?:.*,)?"side":"[a-z_]*","status":"([a-z]+)","verdict":"([a-z]+)"\}'
)


@dataclass(frozen=True)
class Found:
    """The failing cases with one symptom: their number, the operators with most of them, and an example."""

    what: str
    cases: int
    rows: tuple[tuple[str, int], ...]
    example: str
    message: str


@dataclass(frozen=True)
class Excused:
    """Waivers of one reason, owner and last day: the checks they name, their number, and how many cases they waive."""

    reason: str
    owner: str
    until: str
    checks: str
    given: int
    cases: int


@dataclass(frozen=True)
class Digest:
    """One run. rows: counts by operator, in the order of TALLY. letters: of the cases in the order of their ids.

    cases: the digest of these ids, which many runs share. failing: the first failing ids. facts: versions and digests.
    certificate: the digest of its bytes.
    """

    backend: str
    table: str
    version: str
    level: str
    selection: str
    made: str
    certified: bool
    verdict: str
    counts: Mapping[str, int]
    objections: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    rows: Mapping[str, tuple[int, ...]]
    findings: tuple[Found, ...]
    waivers: tuple[Excused, ...]
    failing: tuple[str, ...]
    cases: str
    letters: str
    certificate: str

    @property
    def tone(self) -> str:
        """The verdict for display: a selection of cases that all pass is neither certified nor failing."""
        if self.certified:
            return "yes"
        return "faint" if self.selection and not self.counts["fail"] and not self.counts.get(UNDECIDED) else "no"


def digest(path: Path) -> tuple[Digest, tuple[str, ...]]:
    """The summary of a folder or archive, and its cases' ids. Raises UsageError for an incomplete or invalid record."""
    contents = read_folder(path, READ) if path.is_dir() else read_contents(path)
    for problem in contents.problems:
        raise UsageError(problem)
    certificate, text = own_results(contents)
    found, ids = _digest(certificate, hashlib.sha256(contents.files[CERTIFICATE]).hexdigest(), text)
    _check(certificate, contents.text(CERTIFICATE), found)
    return found, ids


def _digest(certificate: Certificate, sha256: str, text: str) -> tuple[Digest, tuple[str, ...]]:
    names, rows, letters, failing, taken = _read(text)
    day = datetime.date.fromisoformat(certificate.made)
    waived = waived_cases(certificate.waivers, failing, day)
    for result in failing:
        if result.case in waived:
            rows[result.row][TALLY.index("fail")] -= 1
            rows[result.row][TALLY.index(WAIVED)] += 1
    ids = "\n".join(names)
    table = certificate.table
    found = Digest(
        backend=str(certificate.backend["spec"]),
        table=str(table["name"]),
        version=str(table["version"]),
        level=certificate.level,
        selection=str(certificate.selection),
        made=certificate.made,
        certified=certificate.certified,
        verdict=outcome_text(certificate, selection=False),
        counts=dict(certificate.counts),
        objections=certificate.objections,
        facts=_facts(certificate),
        rows={row: tuple(counts) for row, counts in rows.items()},
        findings=_findings([result for result in failing if result.case not in waived], _absent(failing, taken, names)),
        waivers=_excused(certificate, waived),
        failing=tuple(result.case for result in failing if result.case not in waived)[:LISTED],
        cases=hashlib.sha256(ids.encode()).hexdigest(),
        letters="".join(x.lower() if name in waived else x for name, x in zip(names, letters, strict=True)),
        certificate=sha256,
    )
    return found, tuple(names)


def _excused(certificate: Certificate, waived: Set[str]) -> tuple[Excused, ...]:
    found = []
    for (expires, owner, reason), group in grouped_by(certificate.waivers, lambda one: one.ground).items():
        until = expires.isoformat()
        checks = [[*one.checks, *([] if one.max_lsb is None else [f"up to {one.max_lsb} LSB"])] for one in group]
        named = ", ".join(dict.fromkeys(check for each in checks for check in each))
        cases = 0 if until < certificate.made else sum(one.case in waived for one in group)
        found.append(Excused(reason, owner, until, named, len(group), cases))
    return tuple(found)


def _check(certificate: Certificate, text: str, found: Digest) -> None:
    """Raise UsageError for a certificate that was edited, or whose counts are not those of its results."""
    if certificate_text(certificate) != text:
        raise UsageError(f"{CERTIFICATE} was edited, or not written by a run; see 'assay verify'")
    columns = [sum(counts[place] for counts in found.rows.values()) for place in range(len(TALLY))]
    counted = dict(zip(TALLY, columns, strict=True)) | {"cases": sum(columns)}
    stated = {kind: certificate.counts.get(kind, 0) for kind in counted}
    if stated != counted:
        raise UsageError(f"{CERTIFICATE} counts {stated}, its results give {counted}; see 'assay verify'")
    if certificate.certified and (counted["fail"] or counted[UNDECIDED] or not certificate.selection.everything):
        raise UsageError(f"{CERTIFICATE} says certified, its results do not; see 'assay verify'")


def _facts(certificate: Certificate) -> tuple[tuple[str, str], ...]:
    sources = hashlib.sha256(repr(sorted(certificate.backend["sources"].items())).encode()).hexdigest()
    return (
        ("suite", f"{certificate.suite['name']} {certificate.suite['version']}"),
        ("backend's files", f"{len(certificate.backend['sources'])}, digest {sources[:12]}"),
        ("table's digest", str(certificate.table["sha256"])[:12]),
        ("seed", str(certificate.selection.seed)),
        ("trust", certificate.trust),
        *((name, str(value)) for name, value in certificate.environment.items()),
    )


def _read(text: str) -> tuple[list[str], dict[str, list[int]], list[str], list[CaseResult], set[str]]:
    """Ids, counts by operator, letters, the results that did not pass, and the operators that were delegated."""
    names, letters, failing, taken = list[str](), list[str](), list[CaseResult](), set[str]()
    rows: dict[str, list[int]] = {}
    places = {"pass": 0, "unspecified": 1, "fail": 2, UNDECIDED: 4}
    match = _LINE.fullmatch
    for line in text.splitlines():
        found = match(line)
        case, row, status, verdict = found.groups() if found is not None else _taken_apart(line)
        letter = LETTERS.get((verdict, status))
        if letter is None:
            raise ResultError(f"verdict {verdict!r:.40} or status {status!r:.40} does not exist")
        names.append(case)
        letters.append(letter)
        counts = rows.get(row)
        if counts is None:
            counts = rows[row] = [0] * len(TALLY)
        counts[places[status]] += 1
        if verdict in TAKEN:
            taken.add(row)
        if status in NOT_PASSED:
            failing.append(from_line(line))
    return names, rows, letters, failing, taken


def _taken_apart(line: str) -> tuple[str, str, str, str]:
    """The fields of a line that does not match the pattern, such as one with a quoted id. Raises ResultError."""
    result = from_line(line)
    return result.case, result.row, result.status, result.verdict


def _absent(failing: Sequence[CaseResult], taken: Set[str], names: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Operators without any delegated case, each with the reasons that failing cases give. names: every case's id."""

    def constraints(row: str) -> set[str]:
        inside = [name.split("/")[-3:-2] for name in names if name.startswith(f"{row}/")]
        return {code for each in inside for code in each if code != OPERATOR}

    return undelegated([result for result in failing if result.row not in taken], constraints)


def _findings(failing: Sequence[CaseResult], absent: Mapping[str, Sequence[str]]) -> tuple[Found, ...]:
    """Failing cases by their symptom, most cases first. absent: operators that are not delegated at all."""
    groups = grouped_by(failing, lambda result: symptom(result, "", absent))
    found = [_found(refined(kind, group).what, group) for kind, group in groups.items()]
    return tuple(sorted(found, key=lambda one: (-one.cases, one.what))[:MOST])


def _found(what: str, group: Sequence[CaseResult]) -> Found:
    most = most_first(Counter(result.row for result in group))
    shown = [result for result in group if result.row == most[0][0]]
    first = min(shown, key=lambda result: what.startswith(ABSENT) and result.expect != "accept")
    return Found(what, len(group), most[:MOST], first.case, "; ".join(map(str, first.failures))[:500])


# ------------------------------------------------------------------------------------ plain data


def as_data(found: Digest) -> dict[str, Any]:
    """As plain data, which `of_data` reads."""
    return asdict(found)


def of_data(data: Mapping[str, Any]) -> Digest:
    """Read what `as_data` gave. Raises TypeError, KeyError or ValueError for anything else."""
    return Digest(
        **{
            **data,
            "objections": tuple(data["objections"]),
            "facts": tuple((str(name), str(value)) for name, value in data["facts"]),
            "rows": {row: tuple(counts) for row, counts in data["rows"].items()},
            "findings": tuple(
                Found(**{**found, "rows": tuple((row, int(count)) for row, count in found["rows"])})
                for found in data["findings"]
            ),
            "waivers": tuple(Excused(**each) for each in data["waivers"]),
            "failing": tuple(data["failing"]),
        }
    )
