"""The folder that a run leaves behind, and checking such a folder again.

While a run goes on there is only a journal. The final files appear at its end, `certificate.json`
last: a folder without it is incomplete, whatever else is in it.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from conformance.certificate import (
    Certificate,
    CertificateError,
    Verdict,
    certificate_text,
    conclude,
    read_certificate,
    result_problem,
)
from conformance.environment import suite_sources
from conformance.errors import UsageError
from conformance.graph import Case
from conformance.results import CaseResult, ResultError, from_line, to_line
from conformance.selection import all_cases
from conformance.table import Table, TableError, parse_table, table_path

JOURNAL = "results.partial.jsonl"
RESULTS = "results.jsonl"
CERTIFICATE = "certificate.json"
TABLE = "table.toml"
REPORTS = ("junit.xml", "report.md", "report.html")
FILES = (CERTIFICATE, RESULTS, TABLE, *REPORTS, JOURNAL)  # in the order in which a new run removes them
SHOWN = 10  # problems listed before the rest is only counted


class PackageError(UsageError):
    """A folder that cannot be written or read at all."""


class Journal:
    """Writes each result down as it comes, so that an interrupted run shows how far it got."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = (folder / JOURNAL).open("w", encoding="utf-8", newline="\n")

    def add(self, result: CaseResult) -> None:
        """Write one result. Raises PackageError when the disk takes no more."""
        with _writing(self._folder):
            self._file.write(to_line(result) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file. Raises PackageError when the disk takes no more."""
        with _writing(self._folder):
            self._file.close()


@contextmanager
def journal(folder: Path) -> Iterator[Journal]:
    """Make the folder, remove the files of an earlier run (its certificate first), open the journal.

    Raises PackageError when the folder cannot be used, or holds files and is not the folder of a run.
    """
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _refuse_foreign(folder)
        opened = Journal(folder)
        for name in FILES[:-1]:
            (folder / name).unlink(missing_ok=True)
            (folder / f"{name}.tmp").unlink(missing_ok=True)
    try:
        yield opened
    finally:
        opened.close()


def _refuse_foreign(folder: Path) -> None:
    """What stands in a folder is removed only if a run wrote it."""
    names = sorted(path.name for path in folder.iterdir())
    if names and not {CERTIFICATE, JOURNAL} & set(names):
        raise PackageError(
            f"{folder}: holds other files ({names[0]}{', ...' if names[1:] else ''}); "
            "expected a new or empty folder, or one that 'assay certify' wrote"
        )


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """What the system says against writing, as one error that names the folder."""
    try:
        yield
    except OSError as error:
        raise PackageError(f"{folder}: cannot be written: {error.strerror}") from error


def results_text(results: Sequence[CaseResult]) -> str:
    """results.jsonl: one line per case, sorted by case id."""
    return "".join(to_line(result) + "\n" for result in sorted(results, key=lambda result: result.case))


def sha256(text: str) -> str:
    """Digest of a text file's bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def write_package(folder: Path, texts: Mapping[str, str], certificate: Certificate) -> None:
    """Write the final files under temporary names, move them into place, the certificate last.

    Raises PackageError when the disk takes no more; the journal stays then.
    """
    everything = {**texts, CERTIFICATE: certificate_text(certificate)}
    with _writing(folder):
        for name, text in everything.items():
            with (folder / f"{name}.tmp").open("w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        for name in everything:
            (folder / f"{name}.tmp").replace(folder / name)
        (folder / JOURNAL).unlink(missing_ok=True)


# ------------------------------------------------------------------------------------ verify


@dataclass(frozen=True)
class Verification:
    """What a folder proves. `problems` speak against it; `notes` do not. verdict is None if there is none."""

    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    verdict: Verdict | None = None
    certificate: Certificate | None = None

    @property
    def certified(self) -> bool:
        return not self.problems and self.verdict is not None and self.verdict.certified


def verify(folder: Path, today: datetime.date) -> Verification:
    """Derive the verdict of a folder again, from its results and its table alone.

    Raises PackageError when there is no such folder, or when it is not the folder of a run.
    """
    if not folder.is_dir():
        raise PackageError(f"{folder}: {'a file, expected a folder' if folder.exists() else 'no such folder'}")
    if not any((folder / name).is_file() for name in FILES):
        raise PackageError(f"{folder}: no run has written here, expected a folder of 'assay certify' ({CERTIFICATE})")
    if not (folder / CERTIFICATE).is_file():
        return Verification((_incomplete(folder),))
    try:
        certificate = read_certificate(_read(folder, CERTIFICATE))
        table = _table(folder, certificate)
        cases = certificate.selection.of(all_cases(table))
        text = _read(folder, RESULTS)
    except (CertificateError, TableError, UsageError) as error:
        return Verification((str(error),))
    results, problems = _results(text, cases)
    if sha256(text) != certificate.results_sha256:
        problems = [f"{RESULTS} is not the file that the certificate was made of (sha256 differs)", *problems]
    verdict = conclude(results, cases, certificate.selection, certificate.waivers, today)
    problems += _contradictions(certificate, verdict)
    return Verification(_shortened(problems), _notes(certificate, table), verdict, certificate)


def _incomplete(folder: Path) -> str:
    partial = folder / JOURNAL
    if not partial.is_file():
        return f"incomplete: {folder} has no {CERTIFICATE}"
    finished = partial.read_bytes().count(b"\n")
    return f"incomplete: the run was interrupted after {finished} cases, so there is no {CERTIFICATE}"


def _read(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_bytes().decode()
    except OSError as error:
        raise PackageError(f"incomplete: {name} is missing or unreadable ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise PackageError(f"{name} is not UTF-8 text at byte {error.start}") from error


def _table(folder: Path, certificate: Certificate) -> Table:
    """The table in the folder, which must be the one that the certificate names."""
    text = _read(folder, TABLE)
    digest = sha256(text)
    if digest != certificate.table["sha256"]:
        raise PackageError(f"{TABLE} is not the table that the certificate names (sha256 differs)")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PackageError(f"{TABLE}: {error}") from error
    return parse_table(data, TABLE, digest)


def _results(text: str, cases: Sequence[Case]) -> tuple[list[CaseResult], list[str]]:
    """The results that can be read, and what is wrong with the file line by line."""
    results, problems = list[CaseResult](), list[str]()
    by_name = {case.id: case for case in cases}
    if text and not text.endswith("\n"):
        problems.append(f"{RESULTS} is truncated: its last line does not end")
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        try:
            result = from_line(line)
        except ResultError as error:
            problems.append(f"{RESULTS} line {number}: {error}")
            continue
        case = by_name.get(result.case)
        problem = "the table has no such case" if case is None else result_problem(result, case)
        if problem is not None:
            problems.append(f"{RESULTS} line {number}: {result.case}: {problem}")
        results.append(result)
    return results, problems + _order(results, by_name)


def _order(results: Sequence[CaseResult], by_name: Mapping[str, Case]) -> list[str]:
    names = [result.case for result in results]
    missing = sorted(set(by_name) - set(names))
    problems = [f"{RESULTS}: {name}: the result is missing" for name in missing]
    if len(set(names)) != len(names):
        problems.append(f"{RESULTS}: {len(names) - len(set(names))} cases stand twice")
    if names != sorted(names):
        problems.append(f"{RESULTS}: the lines are not in the order of the case ids")
    return problems


def _contradictions(certificate: Certificate, verdict: Verdict) -> list[str]:
    """Where the certificate states something else than what follows from the results today."""
    problems = []
    if certificate.certified != verdict.certified:
        stated, derived = (("not " * (not flag)) + "certified" for flag in (certificate.certified, verdict.certified))
        problems.append(f"{CERTIFICATE} says {stated}, the results say {derived}")
    if dict(certificate.counts) != dict(verdict.counts):
        problems.append(f"{CERTIFICATE} counts {dict(certificate.counts)}, the results give {dict(verdict.counts)}")
    return problems


def _shortened(problems: Sequence[str]) -> tuple[str, ...]:
    rest = len(problems) - SHOWN
    return tuple(problems) if rest <= 0 else (*problems[:SHOWN], f"... and {rest} more problems")


def _notes(certificate: Certificate, table: Table) -> tuple[str, ...]:
    """Differences between the suite that made the certificate and this one."""
    notes = []
    here = suite_sources()
    changed = sorted(name for name, _ in here.items() ^ dict(certificate.suite["sources"]).items())
    if changed:
        names = ", ".join(sorted(set(changed))[:3])
        notes.append(f"the suite's sources differ from those that made the certificate ({names}, ...)")
    try:
        shipped = hashlib.sha256(table_path(f"{table.name}@{table.version}").read_bytes()).hexdigest()
    except (OSError, TableError):
        notes.append(f"the suite ships no table {table.name}@{table.version}: check where {TABLE} comes from")
    else:
        if shipped != table.sha256:
            notes.append(f"{TABLE} differs from the table {table.name}@{table.version} that ships with the suite")
    return tuple(notes)
