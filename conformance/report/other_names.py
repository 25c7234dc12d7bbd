"""Constraints that a backend calls by other names than the table: its rejections are right, the names alone differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.report.symptoms import Symptom

SHOWN = 8  # pairs of names
RENAMED = "Rejected as the table says, by rules with other names than its constraints"
Names = Mapping[tuple[str, str], str]
"""By row and constraint, what the backend calls it."""


def other_names(results: Iterable[CaseResult], known: Collection[str]) -> Names:
    """The constraints that a backend always rejects by one name, which no constraint of the table (`known`) has.

    A name that stands for several constraints of a row, as a reason that is always given, is none of them.
    """
    given: dict[tuple[str, str], set[str]] = {}
    for result in results:
        if (result.verdict, result.expect) == ("reject", "reject") and result.reason is not None:
            codes = {reason.code for reason in result.reasons or ()}
            place = result.row, result.reason
            given[place] = given[place] & codes if place in given else codes
    single = {place: next(iter(codes)) for place, codes in given.items() if len(codes) == 1}
    meant: dict[tuple[str, str], set[str]] = {}
    for (row, constraint), name in single.items():
        meant.setdefault((row, name), set()).add(constraint)
    return {place: name for place, name in single.items() if name not in known and len(meant[place[0], name]) == 1}


def is_renamed(result: CaseResult, names: Names) -> bool:
    """Whether nothing is wrong with a case but the name of the reason."""
    return {each.check for each in result.failures} == {"reason"} and (result.row, result.reason or "") in names


def symptom_of(names: Names) -> Symptom:
    """One symptom for all of them."""
    pairs = list(dict.fromkeys((name, constraint) for (_, constraint), name in names.items()))
    return Symptom(RENAMED, f"the names alone, which one side has to take from the other: {_listed(pairs)}")


def _listed(pairs: Sequence[tuple[str, str]]) -> str:
    more = f", and {len(pairs) - SHOWN} more" if len(pairs) > SHOWN else ""
    return ", ".join(f"{name!r} is the table's {constraint!r}" for name, constraint in pairs[:SHOWN]) + more
