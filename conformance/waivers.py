"""Known failures that someone answers for, until a date."""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from npu_assay.conformance.constraints import nearest
from npu_assay.conformance.errors import UsageError
from npu_assay.conformance.results import CaseResult


class WaiverError(UsageError):
    """A file of waivers that cannot be read; the message names file, entry and key."""


@dataclass(frozen=True)
class Waiver:
    """One case that may fail: why, who answers for it, and the last day on which it counts."""

    case: str
    reason: str
    owner: str
    expires: datetime.date


def load_waivers(path: Path) -> tuple[Waiver, ...]:
    """Read `[[waiver]]` entries with case, reason, owner and expires (a date). Raises WaiverError."""
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise WaiverError(f"{path}: cannot read the waivers: {error}") from error
    except RecursionError:
        raise WaiverError(f"{path}: cannot read the waivers: values are nested too deeply") from None
    entries = data.pop("waiver", [])
    if data or not isinstance(entries, list):
        raise WaiverError(f"{path}: expected [[waiver]] entries only, found {sorted(data) or 'another value'}")
    return tuple(waiver_of(entry, f"{path}: waiver {number}") for number, entry in enumerate(entries, 1))


def waiver_of(entry: Any, where: str) -> Waiver:
    """Check one entry. Raises WaiverError."""
    known = {field.name for field in fields(Waiver)}
    if not isinstance(entry, Mapping) or set(entry) != known:
        found = sorted(entry) if isinstance(entry, Mapping) else entry
        raise WaiverError(f"{where}: expected the keys {sorted(known)}, found {found}")
    if type(entry["expires"]) is not datetime.date:
        raise WaiverError(f"{where}: expires: expected a date such as 2030-01-31, found {entry['expires']!r}")
    for key in known - {"expires"}:
        if not isinstance(entry[key], str) or not entry[key].strip():
            raise WaiverError(f"{where}: {key}: expected some text, found {entry[key]!r}")
    return Waiver(**entry)


def waiver_problems(
    waivers: Iterable[Waiver], results: Mapping[str, CaseResult], today: datetime.date
) -> tuple[str, ...]:
    """What is wrong with waivers: expired, for a case that does not exist, or for one that does not fail."""
    return tuple(filter(None, (_problem(waiver, results, today) for waiver in waivers)))


def _problem(waiver: Waiver, results: Mapping[str, CaseResult], today: datetime.date) -> str | None:
    where = f"the waiver of {waiver.owner} for {waiver.case}"
    if waiver.case not in results:
        return f"{where} matches no case{nearest(waiver.case, results) if len(results) < 50 else ''}"
    if results[waiver.case].status != "fail":
        return f"{where} is not needed: the case does not fail"
    if waiver.expires < today:
        return f"{where} expired on {waiver.expires}"
    return None
