"""Derives the verdict of a run again from its files alone, and finds contradictions in them.

The list of cases comes from the table, each case's status from what its line records, the verdict from these. What
the certificate and the lines state is only compared with that. Digests show an edit that contradicts nothing else. They
do not show a run that was made up with fitting digests: only running its cases again does.
"""

from __future__ import annotations

import datetime
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path

from npu_assay.conformance.backend.environment import suite_sources
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.memory import many_records
from npu_assay.conformance.judge.known_limits import KnownLimits
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.certificate import (
    Certificate,
    Verdict,
    certificate_text,
    conclude,
    read_certificate,
)
from npu_assay.conformance.record.folder import sha256
from npu_assay.conformance.record.names import (
    CERTIFICATE,
    FUZZ,
    JOURNAL,
    REPORTS,
    RESULTS,
    TABLE,
    Contents,
    PackageError,
)
from npu_assay.conformance.record.read import read_contents
from npu_assay.conformance.record.results import CaseResult, ResultError, read_line
from npu_assay.conformance.record.table_file import table_of
from npu_assay.conformance.run.selection import all_cases, cases_near
from npu_assay.conformance.table import FOLDER, Table, TableBombError, TableError, table_bytes
from npu_assay.conformance.verify.metrics import limit_problem
from npu_assay.conformance.verify.result import result_problem

SHOWN = 10  # problems listed before the rest is only counted
UNSHIPPED = "the suite ships no table"  # how a note begins


@dataclass(frozen=True)
class Verification:
    """What a run proves. problems: reasons to distrust it. notes: anything else. verdict: None if none follows."""

    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    verdict: Verdict | None = None
    certificate: Certificate | None = None

    @property
    def certified(self) -> bool:
        return not self.problems and self.verdict is not None and self.verdict.certified


def verify(path: Path, today: datetime.date) -> Verification:
    """Derive the verdict of a folder, or of an archive of one, again.

    Raises PackageError when there is none, or when it is not of a run.
    """
    return verify_contents(read_contents(path), today)


@many_records()
def verify_contents(contents: Contents, today: datetime.date, table_name: str | None = None) -> Verification:
    """As `verify`, of files that were read. Raises PackageError for a table that is too large for any run.

    table_name: the table that the run must be of, by name or file; raises TableError if there is none.
    """
    wanted = None if table_name is None else hashlib.sha256(table_bytes(table_name)).hexdigest()
    problems = list(contents.problems)
    if CERTIFICATE not in contents.files:
        return Verification((*problems, _incomplete(contents)), contents.notes)
    try:
        certificate_file = contents.text(CERTIFICATE)
        certificate = read_certificate(certificate_file)
        table = table_of(contents, certificate)
        known = _known(table, certificate)
        cases = certificate.selection.of(table, known)
        text = contents.text(RESULTS)
    except TableBombError as error:
        raise PackageError(f"{contents.name}: not a table that a run writes: {error}") from error
    except (TableError, UsageError) as error:
        return Verification((*problems, str(error)), contents.notes)
    results, found = _results(text, cases, certificate, KnownLimits(table.rescale or None))
    problems += found
    problems += _programs(contents, certificate, table)
    if sha256(text) != certificate.results_sha256:
        problems.append(f"{RESULTS} is not the file that the certificate was made of (sha256 differs)")
    problems += _reports(contents, certificate)
    problems += _spelling(certificate_file, certificate)
    names = {case.id for case in known}

    def concluded(day: datetime.date) -> Verdict:
        return conclude(results, cases, certificate.selection, certificate.waivers, day, certificate.fuzz, names)

    problems += _contradictions(certificate, concluded, today)
    if wanted is not None and wanted != table.sha256:
        problems.append(
            f"{TABLE} is another table than {table_name}: found sha256 {table.sha256[:12]}, expected {wanted[:12]}"
        )
    verdict = concluded(today)
    changed = changed_sources(certificate, suite_sources())
    kept = () if certificate.kept is None else (f"kept: {certificate.kept}",)
    notes = [*contents.notes, *kept, *_notes(changed, None if wanted else table)]
    if not problems:
        (notes if changed else problems).extend(_rendered(contents, certificate, table, results, cases))
    return Verification(_shortened(problems), tuple(notes), verdict, certificate)


def _known(table: Table, certificate: Certificate) -> tuple[Case, ...]:
    """The cases from which the run selected: all of the table, or for a selection those that may match it."""
    expression = certificate.selection.expression
    if expression is None or certificate.waivers or certificate.fuzz is not None:
        return all_cases(table)
    return cases_near(table, expression)


def _incomplete(contents: Contents) -> str:
    partial = contents.files.get(JOURNAL)
    if partial is None:
        return f"incomplete: {contents.name} has no {CERTIFICATE}"
    finished = max(0, partial.count(b"\n") - 1)  # its first line is no case
    return f"incomplete: the run was interrupted after {finished} cases, so there is no {CERTIFICATE}"


# ------------------------------------------------------------------------------------ results


def _results(
    text: str, cases: Sequence[Case], certificate: Certificate, limits: KnownLimits
) -> tuple[list[CaseResult], list[str]]:
    """The results that can be read, and what is wrong with the file line by line."""
    results, problems = list[CaseResult](), list[str]()
    by_name = {case.id: case for case in cases}
    if text and not text.endswith("\n"):
        problems.append(f"{RESULTS} is truncated: its last line has no end")
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        try:
            result, edited = read_line(line)
        except ResultError as error:
            problems.append(f"{RESULTS} line {number}: {error}")
            continue
        case = by_name.get(result.case)
        contradiction = (
            "the table has no such case" if case is None else _contradiction(result, case, certificate, limits)
        )
        found = "; ".join(filter(None, (contradiction, edited)))
        if found:
            problems.append(f"{RESULTS} line {number}: {result.case}: {found}")
        results.append(result)
    return results, problems + list(_order(results, by_name))


def _contradiction(result: CaseResult, case: Case, certificate: Certificate, limits: KnownLimits) -> str | None:
    tools, level = certificate.backend["tools"], certificate.level
    return result_problem(result, case, tools, level) or limit_problem(result, case, limits)


def _order(results: Sequence[CaseResult], by_name: Mapping[str, Case]) -> Iterator[str]:
    names = [result.case for result in results]
    for name in sorted(set(by_name) - set(names)):
        yield f"{RESULTS}: {name}: the result is missing"
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{RESULTS}: {name}: found {count} results, expected one"
    later = next((b for a, b in pairwise(names) if a > b), None)
    if later is not None:
        yield f"{RESULTS}: {later}: from this line on, the lines are not sorted by case id"


def _programs(contents: Contents, certificate: Certificate, table: Table) -> list[str]:
    """The problems of the file of a run's random programs; each program is made again from its name."""
    fuzz = certificate.fuzz
    if fuzz is None:
        return [f"{FUZZ}: the certificate states no random programs"] if FUZZ in contents.files else []
    from npu_assay.conformance.fuzz.verify import problems  # loads torch

    return list(problems(contents.text(FUZZ), fuzz, all_cases(table), certificate.selection.stride))


# ------------------------------------------------------------------------------------ certificate


def _reports(contents: Contents, certificate: Certificate) -> Iterator[str]:
    """Problems with reports that are missing, changed, or not of a run."""
    for name in REPORTS:
        stated = certificate.reports.get(name)
        if name not in contents.files:
            yield f"incomplete: {name} is missing"
        elif hashlib.sha256(contents.files[name]).hexdigest() != stated:
            yield f"{name} is not the report that the run wrote (sha256 differs)"
    for name in sorted(set(certificate.reports) - set(REPORTS)):
        yield f"{CERTIFICATE} names a report {name!r:.40}, which no run writes"


def _rendered(
    contents: Contents,
    certificate: Certificate,
    table: Table,
    results: Sequence[CaseResult],
    cases: Sequence[Case],
) -> Iterator[str]:
    """Problems with reports that are not, byte for byte, what this suite makes of the results.

    The digests of reports alone prove nothing: they can be made to fit.
    """
    from npu_assay.conformance.report.recorded import recorded_report  # slow to load
    from npu_assay.conformance.report.render import reports

    report = recorded_report(contents, certificate, table, results, cases)
    for name, text in reports(report).items():
        if contents.files[name] != text.encode():
            yield f"{name} is not the report that the results give{_place(contents.files[name], text.encode())}"


def _place(found: bytes, expected: bytes) -> str:
    """Where two texts begin to differ."""
    pairs = zip_longest(found.split(b"\n"), expected.split(b"\n"))
    return next((f" (from line {line} on)" for line, (a, b) in enumerate(pairs, 1) if a != b), "")


def _spelling(text: str, certificate: Certificate) -> Iterator[str]:
    """The problem of a certificate that is not, byte for byte, what a run writes."""
    written = certificate_text(certificate)
    if text == written:
        return
    pairs = zip(text.split("\n"), written.split("\n"), strict=False)
    differing = [(number, found) for number, (found, expected) in enumerate(pairs, 1) if found != expected]
    if text.count("\n") == written.count("\n") and len(differing) == 1 and '"sha256": "' in differing[0][1]:
        yield f"{CERTIFICATE} was edited: its own sha256 (line {differing[0][0]}) does not fit the rest"
    else:
        line = differing[0][0] if differing else min(text.count("\n"), written.count("\n")) + 1
        yield f"{CERTIFICATE} line {line}: not written as a run writes it (keys, order or spacing differ)"


def _contradictions(
    certificate: Certificate, concluded: Callable[[datetime.date], Verdict], today: datetime.date
) -> Iterator[str]:
    """The differences between the certificate and what follows from the results on the day when it was made."""
    try:
        made = datetime.date.fromisoformat(certificate.made)
    except ValueError:
        yield f"{CERTIFICATE}: made: found {certificate.made!r:.40}, expected a date such as 2030-01-31"
        return
    if made > today:
        yield f"{CERTIFICATE}: made: found {made}, a day in the future"
    verdict = concluded(made)
    if certificate.certified != verdict.certified:
        stated, derived = (("not " * (not flag)) + "certified" for flag in (certificate.certified, verdict.certified))
        yield f"{CERTIFICATE} says {stated}, the results say {derived}"
    if dict(certificate.counts) != dict(verdict.counts):
        yield f"{CERTIFICATE} counts {dict(certificate.counts)}, the results give {dict(verdict.counts)}"
    for objection in sorted({*certificate.objections} ^ {*verdict.objections}):
        stated = "states" if objection in certificate.objections else "does not state"
        yield f"{CERTIFICATE} {stated} {objection!r:.120}, which the results {'do not ' * (stated == 'states')}give"


def _shortened(problems: Sequence[str]) -> tuple[str, ...]:
    rest = len(problems) - SHOWN
    return tuple(problems) if rest <= 0 else (*problems[:SHOWN], f"... and {rest} more problems")


def changed_sources(certificate: Certificate, suite: Mapping[str, str]) -> list[str]:
    """The suite's files that are not those that made the certificate. suite: those that are installed, by digest."""
    return sorted({name for name, _ in suite.items() ^ dict(certificate.suite["sources"]).items()})


def _notes(changed: Sequence[str], table: Table | None) -> tuple[str, ...]:
    """Differences between the suite that made the certificate and this one. table: None for one that was expected."""
    notes = []
    if changed:
        names = ", ".join(changed[:3])
        notes.append(f"the suite's sources differ from those that made the certificate ({names}, ...)")
    if table is None:
        return tuple(notes)
    shipped = next((path for path in FOLDER.glob("*.toml") if path.stem == table.title), None)
    if shipped is None:
        notes.append(f"{UNSHIPPED} {table.title}: --table FILE says which it must be")
    elif hashlib.sha256(shipped.read_bytes()).hexdigest() != table.sha256:
        notes.append(f"{TABLE} differs from the table {table.title} that ships with the suite")
    return tuple(notes)
