"""Known failures that someone answers for until a date. A waiver names one case and the checks that it fails."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from npu_assay.conformance.common.errors import UsageError, failing, nearest
from npu_assay.conformance.common.grouping import grouped_by
from npu_assay.conformance.common.toml import LARGEST, TomlError, read_toml
from npu_assay.conformance.record.results import CHECKS, OF_SUITE, CaseResult
from npu_assay.files import read_regular

OPTIONAL = frozenset({"max_lsb"})
EXAMPLE = 'such as checks = ["gate1", "gate3"], the names before the failures of the case'


class WaiverError(UsageError):
    """A file of waivers that cannot be read; the message names file, entry and key."""


@dataclass(frozen=True)
class Waiver:
    """Checks that one case may fail: why, who answers for it, and the last day on which it counts.

    max_lsb: how far codes may be off, in LSB; None for no limit.
    """

    case: str
    checks: tuple[str, ...]
    reason: str
    owner: str
    expires: datetime.date
    max_lsb: int | None = None

    @property
    def name(self) -> str:
        """How what is wrong with it begins."""
        return f"the waiver of {self.owner} for {self.case}"

    @property
    def ground(self) -> tuple[datetime.date, str, str]:
        """Its last day, who answers for it, and why: what waivers have in common that are told together."""
        return self.expires, self.owner, self.reason

    def not_covered(self, result: CaseResult) -> str:
        """What fails in the case and is not waived; "" if all is waived."""
        failed = dict.fromkeys(failure.check for failure in result.failures)
        others = [check for check in failed if check not in self.checks]
        if others:
            return f"the case also fails {', '.join(others)}"
        lsb = result.metrics["max_lsb"]
        if self.max_lsb is not None and not (isinstance(lsb, int | float) and lsb <= self.max_lsb):
            return f"max_lsb is {lsb}, expected at most {self.max_lsb}"
        return ""


def load_waivers(path: Path) -> tuple[Waiver, ...]:
    """Read `[[waiver]]` entries with case, checks, reason, owner, expires (a date) and perhaps max_lsb.

    Raises WaiverError.
    """
    try:
        with failing(path, "cannot read the waivers", WaiverError):
            data = read_toml(read_regular(path, LARGEST).decode())
    except UnicodeDecodeError as error:
        raise WaiverError(f"{path}: cannot read the waivers: not UTF-8 text at byte {error.start}") from error
    except TomlError as error:
        raise WaiverError(f"{path}: cannot read the waivers: {error}") from error
    entries = data.pop("waiver", [])
    if isinstance(entries, dict):
        raise WaiverError(f"{path}: found [waiver], expected [[waiver]], with two brackets, for each entry")
    if data or not isinstance(entries, list):
        raise WaiverError(f"{path}: expected [[waiver]] entries only, found {sorted(data) or 'another value'}")
    return tuple(waiver_of(entry, f"{path}: waiver {number}") for number, entry in enumerate(entries, 1))


def waiver_of(entry: Any, where: str) -> Waiver:
    """Check one entry. Raises WaiverError."""
    known = {field.name for field in fields(Waiver)}
    if isinstance(entry, Mapping) and set(entry) | OPTIONAL == known - {"checks"} | OPTIONAL:
        raise WaiverError(f"{where}: key 'checks' is missing: a waiver names the checks that may fail, {EXAMPLE}")
    if not isinstance(entry, Mapping) or set(entry) | OPTIONAL != known:
        found = sorted(entry) if isinstance(entry, Mapping) else entry
        raise WaiverError(f"{where}: expected the keys {sorted(known - OPTIONAL)} and perhaps max_lsb, found {found}")
    if type(entry["expires"]) is not datetime.date:
        raise WaiverError(f"{where}: expires: expected a date such as 2030-01-31, found {entry['expires']!r}")
    for key in ("case", "reason", "owner"):
        if not isinstance(entry[key], str) or not entry[key].strip():
            raise WaiverError(f"{where}: {key}: expected some text, found {entry[key]!r}")
    most = entry.get("max_lsb")
    if most is not None and (type(most) is not int or most < 1):
        raise WaiverError(f"{where}: max_lsb: expected a whole number from 1, found {most!r}")
    return Waiver(**{**entry, "checks": _checks(entry["checks"], where)})


def _checks(names: Any, where: str) -> tuple[str, ...]:
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise WaiverError(f"{where}: checks: expected a list of names, {EXAMPLE}, found {names!r}")
    for name in names:
        if name in OF_SUITE:
            raise WaiverError(
                f"{where}: checks: {name!r} is a fault of the suite, which cannot be waived for a backend"
            )
        if name not in CHECKS:
            raise WaiverError(f"{where}: checks: unknown check {name!r}{nearest(name, CHECKS)}")
    if len(set(names)) != len(names):
        raise WaiverError(f"{where}: checks: found a name twice in {names!r}, expected each once")
    return tuple(names)


def waived_cases(waivers: Iterable[Waiver], results: Iterable[CaseResult], today: datetime.date) -> set[str]:
    """The failing cases whose failures are all waived on that day."""
    valid = {waiver.case: waiver for waiver in waivers if waiver.expires >= today}
    failing = (result for result in results if result.status == "fail" and result.case in valid)
    return {result.case for result in failing if not valid[result.case].not_covered(result)}


def grouped(waivers: Iterable[Waiver]) -> tuple[tuple[Waiver, ...], ...]:
    """The waivers of each last day, owner and reason together, in this order."""
    groups = grouped_by(waivers, lambda waiver: waiver.ground)
    return tuple(tuple(groups[ground]) for ground in sorted(groups))


def waiver_problems(
    waivers: Sequence[Waiver], results: Mapping[str, CaseResult], known: Collection[str], today: datetime.date
) -> tuple[str, ...]:
    """What is wrong with waivers: expired, needless, for an unknown case, or fewer than the case needs.

    known: every case of the table. Waivers of cases that did not run are not judged.
    """
    found = (_problem(waiver, results, known, today) for waiver in waivers)
    return (*_twice(waivers), *filter(None, found))


def _twice(waivers: Iterable[Waiver]) -> Iterator[str]:
    seen = set[str]()
    for waiver in waivers:
        if waiver.case in seen:
            yield f"{waiver.name} is not the first: expected one waiver per case"
        seen.add(waiver.case)


def _problem(
    waiver: Waiver, results: Mapping[str, CaseResult], known: Collection[str], today: datetime.date
) -> str | None:
    where = waiver.name
    if waiver.case not in results:
        return None if waiver.case in known else f"{where} matches no case{nearest(waiver.case, known, most=0)}"
    result = results[waiver.case]
    if result.status == "undecided":
        return None
    if result.status != "fail":
        return f"{where} is not needed: the case does not fail"
    if waiver.expires < today:
        return f"{where} expired on {waiver.expires}"
    stale = [check for check in waiver.checks if check not in {failure.check for failure in result.failures}]
    if stale:
        return f"{where} names {', '.join(stale)}, which does not fail"
    rest = waiver.not_covered(result)
    return f"{where} is not enough: {rest}" if rest else None
