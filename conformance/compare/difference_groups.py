"""A difference as readers need it: what happened to how many cases, and equal changes together.

A case whose tag changed is told once: what else changed about it (its reasons, numbers, delegates and bytes) follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from npu_assay.conformance.common.grouping import grouped_by
from npu_assay.conformance.compare.difference import (
    WAIVER,
    Change,
    Difference,
    Run,
    by_row_and_kind,
    failures_text,
    seen_at,
    waivers_text,
)
from npu_assay.conformance.record.results import NOT_PASSED, CaseResult, status_of
from npu_assay.conformance.record.waivers import Waiver
from npu_assay.conformance.verify.result import OF_TAGS

OUTCOMES: Mapping[str, str] = {
    "newly failing": "before: passed",
    "newly passing": "before: failed",
    "newly accepted": "before: in part or not at all",
    "no longer accepted": "now: in part or not at all",
    "new": "before: no such case",
    "gone": "now: no such case",
    "changed otherwise": "with another promise, reason, failure, number or blob",
}
"""What can have happened to a case, in the order of how much it matters; some of these can happen to one case."""
SOURCES = ("suite ", "backend ")
FOLLOW = frozenset({"reasons", "delegates", "bytes"})
"""Kinds of changes that say nothing more of a case whose tag changed."""


@dataclass(frozen=True)
class Group:
    """Equal changes of one kind. before, after: the two sides; what: the metric or the constraint where sides vary."""

    what: str
    before: str
    after: str
    changes: tuple[Change, ...]

    @property
    def cases(self) -> int:
        return len({change.case for change in self.changes})


def outcomes(found: Difference) -> dict[str, int]:
    """How many cases each thing happened to, of those that happened; cases that one run did not select are no case."""
    counts = Counter(outcome for case in found.differing for outcome in _outcomes(found, case))
    return {outcome: counts[outcome] for outcome in OUTCOMES if counts[outcome]}


def _outcomes(found: Difference, case: str) -> list[str]:
    before, after = _seen(found, found.a, case), _seen(found, found.b, case)
    if before is None or after is None:
        return ["new" if before is None else "gone"]
    failed, fails = _failing(before), _failing(after)
    taken, takes = before.verdict == "accept", after.verdict == "accept"
    known = {
        "newly failing": fails and not failed,
        "newly passing": failed and not fails,
        "newly accepted": takes and not taken,
        "no longer accepted": taken and not takes,
    }
    return [outcome for outcome, happened in known.items() if happened] or ["changed otherwise"]


def happened(found: Difference) -> list[tuple[str, int, str]]:
    """What happened, to how many cases, and what that means."""
    rows = [(outcome, cases, OUTCOMES[outcome]) for outcome, cases in outcomes(found).items()]
    skipped = found.unselected.items()
    return rows + [(f"not run in {name}, a selection", len(cases), "not compared") for name, cases in skipped]


def stated(found: Difference) -> list[tuple[str, str, str]]:
    """What the certificates state otherwise; waivers of the same reason, owner and last day in one row."""
    a, b = ({f"{WAIVER}{waiver.case}": waiver for waiver in run.certificate.waivers} for run in (found.a, found.b))

    def ground(row: tuple[str, str, str]) -> tuple[object, ...]:
        grounds = tuple(side[row[0]].ground if row[0] in side else None for side in (a, b))
        return grounds if any(grounds) else row

    alike = grouped_by(found.stated, ground).values()
    return [rows[0] if len(rows) == 1 else _waivers(a, b, [row[0] for row in rows]) for rows in alike]


def _waivers(a: Mapping[str, Waiver], b: Mapping[str, Waiver], names: Sequence[str]) -> tuple[str, str, str]:
    before, after = (waivers_text([side[name] for name in names if name in side]) for side in (a, b))
    return f"{len(names)} waivers", before, after


def sources(found: Difference) -> list[tuple[str, list[str]]]:
    """The source files that differ, of the suite and of the backend, where there are some."""
    names = {
        prefix.strip(): [what.removeprefix(prefix) for what, _, _ in found.made_with if what.startswith(prefix)]
        for prefix in SOURCES
    }
    return [(part, of) for part, of in names.items() if of]


def made_with(found: Difference) -> list[tuple[str, str, str]]:
    """What the runs were made with, apart from source files."""
    return [entry for entry in found.made_with if not entry[0].startswith(SOURCES)]


def groups_by_row(found: Difference) -> Iterator[tuple[str, list[tuple[str, tuple[Group, ...]]]]]:
    """The changes that say something of their own, of each row and kind, equal ones together."""
    told = (_worded(found, change) for change in _telling(found))
    for row, kinds in by_row_and_kind(told):
        yield row, [(kind, groups(changes)) for kind, changes in kinds]


def groups(changes: Sequence[Change]) -> tuple[Group, ...]:
    """Changes of one kind, equal ones together, those of most cases first; numbers by their metric."""

    def sides(change: Change) -> tuple[str, str, str]:
        return (change.what, "", "") if change.what else ("", side_text(change.before), side_text(change.after))

    ranked = sorted(
        grouped_by(changes, sides).items(), key=lambda item: (-len({change.case for change in item[1]}), item[0])
    )
    return tuple(Group(*key, tuple(group)) for key, group in ranked)


def cases_of(kinds: Sequence[tuple[str, Sequence[Group]]]) -> int:
    """How many cases the groups of a row are about."""
    return len({change.case for _, found in kinds for group in found for change in group.changes})


def _telling(found: Difference) -> Iterator[Change]:
    """The changes but those that follow from another tag or from a selection, and metrics beside others."""
    tags = {change.case for change in found.changes if change.kind == "tags"}
    told = {each.case for each in found.changes if each.kind != "numbers" or "none" not in (each.before, each.after)}
    differing = found.differing
    for change in found.changes:
        others = told if change.kind == "numbers" else tags
        if change.case in differing and not (change.case in others and _follows(found, change)):
            yield change


def _follows(found: Difference, change: Change) -> bool:
    """Whether a change says nothing more of a case whose tag changed, too; of numbers, if one side lacks the metric."""
    if change.kind == "numbers":
        return "none" in (change.before, change.after)
    if change.kind == "failures":
        sides = (_seen(found, run, change.case) for run in (found.a, found.b))
        return all(failure.check in OF_TAGS for result in sides if result for failure in result.failures)
    return change.kind in FOLLOW


def _worded(found: Difference, change: Change) -> Change:
    """A change of tags with the constraints and whether it fails; one of the same constraints' texts by their names."""
    before, after = _seen(found, found.a, change.case), _seen(found, found.b, change.case)
    if before is None or after is None:
        return change
    if change.kind == "tags":
        return replace(change, before=_tag(before), after=_tag(after))
    if change.kind == "failures" and before.verdict != after.verdict:
        return replace(change, before=_beyond_tags(before), after=_beyond_tags(after))
    if change.kind == "reasons" and before.reasons and _codes(before) == _codes(after):
        return replace(change, before=_found(before), after=_found(after), what=_codes(before))
    return change


def _tag(result: CaseResult) -> str:
    codes = f" ({_codes(result)})" if result.reasons else ""
    return f"{result.verdict}{codes}{', which fails' * _failing(result)}"


def _beyond_tags(result: CaseResult) -> str:
    """The failures that a change of tags does not tell."""
    return failures_text(replace(result, failures=tuple(each for each in result.failures if each.check not in OF_TAGS)))


def _codes(result: CaseResult) -> str:
    return ", ".join(dict.fromkeys(reason.code for reason in result.reasons or ()))


def _found(result: CaseResult) -> str:
    return "; ".join(reason.found for reason in result.reasons or ())


def _failing(result: CaseResult) -> bool:
    return status_of(result.expect, result.failures) in NOT_PASSED


def _seen(found: Difference, run: Run, case: str) -> CaseResult | None:
    """The result of a case as both levels would have recorded it."""
    result = run.results.get(case)
    return None if result is None else seen_at(result, found.level)


def side_text(text: str | None) -> str:
    """One side of a change in words."""
    return "no such case" if text is None else text
