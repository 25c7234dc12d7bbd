"""Tracks of runs: a track has all runs of one backend against one table at one level, in order."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from npu_assay.conformance.board.digest import OUTCOMES, WAIVED, Digest
from npu_assay.conformance.board.reading import Read, Runs
from npu_assay.conformance.common.grouping import grouped_by
from npu_assay.conformance.record.levels import named
from npu_assay.conformance.report.matrix import Tally

BAD, GOOD = ("fail", "undecided"), ("pass", "unspecified")
LISTED = 50  # cases of each kind of change


class Cell(Tally):
    """The counts of an operator in one run. state: how it is shown."""

    @property
    def bad(self) -> int:
        return self.failed + self.undecided

    @property
    def state(self) -> str:
        if not self.cases:
            return "none"
        return "fail" if self.bad else "mixed" if self.waived else "pass"


def cell(found: Digest, row: str) -> Cell:
    """The counts of an operator in a run, which need not have it: in the order of TALLY."""
    return Cell(*found.rows.get(row, ()))


@dataclass(frozen=True)
class Change:
    """The changes from one run of a track to the next: ids and numbers of cases by kind of change."""

    before: Read
    after: Read
    kinds: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def besides(self) -> tuple[str, ...]:
        """The differences of the two certificates besides their cases: verdict and waivers."""
        a, b = self.before.digest, self.after.digest
        verdict = (f"another verdict ({a.verdict}, then {b.verdict})",) if a.verdict != b.verdict else ()
        return (*verdict, *(("other waivers",) if a.waivers != b.waivers else ()))

    @property
    def brief(self) -> str:
        kinds = [f"{len(cases)} {kind}" for kind, cases in self.kinds]
        return ", ".join(kinds or self.besides) or "the same"

    @property
    def shown(self) -> tuple[tuple[str, int, tuple[str, ...]], ...]:
        """Each kind of change with the number of its cases, and the first of them."""
        return tuple((kind, len(cases), cases[:LISTED]) for kind, cases in self.kinds)


FAILS, MENDED, TAGS, NEW, GONE = "newly failing", "mended", "other tags", "new", "no longer there"
EXCUSED, BLAMED = "newly waived", "no longer waived"


@dataclass(frozen=True)
class Track:
    """runs: oldest first."""

    runs: tuple[Read, ...]
    cases: Mapping[str, tuple[str, ...]]

    @property
    def last(self) -> Read:
        return self.runs[-1]

    @property
    def title(self) -> str:
        """The title: backend, table, and selection or level if not the usual one."""
        found = self.last.digest
        part = f" ({found.selection})" if found.selection else ""
        return named(f"{found.backend} against {found.table}", found.level) + part

    @property
    def slug(self) -> str:
        return slug(self.title)

    @cached_property
    def rows(self) -> tuple[str, ...]:
        """Every operator of every run."""
        return tuple(sorted({row for one in self.runs for row in one.digest.rows}))

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """From each run to the next, the newest first."""
        pairs = zip(self.runs, self.runs[1:], strict=False)
        return tuple(change(before, after, self.cases) for before, after in pairs)[::-1]


def change(before: Read, after: Read, cases: Mapping[str, tuple[str, ...]]) -> Change:
    """Compare two runs case by case. If cases and outcomes are the same, ids are not compared."""
    a, b = before.digest, after.digest
    if a.cases == b.cases and a.letters == b.letters:
        return Change(before, after, ())
    if a.cases == b.cases:
        triples = [(case, x, y) for case, x, y in zip(cases[a.cases], a.letters, b.letters, strict=True) if x != y]
    else:
        one = dict(zip(cases[a.cases], a.letters, strict=True))
        other = dict(zip(cases[b.cases], b.letters, strict=True))
        triples = [(case, one.get(case, ""), other.get(case, "")) for case in sorted({*one, *other})]
    found: dict[str, list[str]] = {kind: [] for kind in (FAILS, BLAMED, EXCUSED, MENDED, TAGS, NEW, GONE)}
    for case, x, y in triples:
        for kind in _kinds(x, y):
            found[kind].append(case)
    return Change(before, after, tuple((kind, tuple(ids)) for kind, ids in found.items() if ids))


def _kinds(x: str, y: str) -> list[str]:
    """The changes of a case between two letters; a letter is "" if the run does not have the case."""
    if x == y:
        return []
    before, after = (OUTCOMES[letter][1] if letter else "" for letter in (x, y))
    kinds = list[str]()
    if after in BAD and before not in BAD:
        kinds = [BLAMED if before == WAIVED else FAILS]
    elif after == WAIVED != before:
        kinds = [EXCUSED]
    elif after in GOOD and before in (*BAD, WAIVED):
        kinds = [MENDED]
    if not x or not y:
        return [*kinds, GONE if x else NEW]
    return kinds + [TAGS] * (OUTCOMES[x][0] != OUTCOMES[y][0])


def tracks(found: Runs) -> tuple[Track, ...]:
    """The runs by backend, table, level and selection; each track by release, date and name."""
    kind = attrgetter("digest.backend", "digest.table", "digest.level", "digest.selection")
    groups: dict[tuple[str, ...], list[Read]] = grouped_by(found.runs, kind)
    ranked = sorted(groups.items(), key=lambda item: (bool(item[0][-1]), item[0]))  # runs of all cases first
    return tuple(Track(_in_order(group), found.cases) for _, group in ranked)


def whole(known: Sequence[Track]) -> tuple[Track, ...]:
    """The tracks of runs of all cases; every track where there is none."""
    return tuple(track for track in known if not track.last.digest.selection) or tuple(known)


def _in_order(runs: Sequence[Read]) -> tuple[Read, ...]:
    return tuple(sorted(runs, key=lambda one: (natural(one.release), one.digest.made, natural(one.name), one.name)))


BEFORE = {"dev": -6, "alpha": -5, "a": -5, "beta": -4, "b": -4, "pre": -3, "rc": -2}
"""The names of pre-releases, which stand after a digit, by their place in the order."""
_BEFORE = re.compile(rf"[-._+]?({'|'.join(BEFORE)})(?![a-z])[-._]*", re.IGNORECASE)


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """A sort key by which 1.10 comes after 1.9, and 1.0-rc before 1.0."""
    first, *parts = re.findall(r"\d{1,18}|\D+", text) or [""]
    return (_part(first), *(_part(part, _BEFORE.match(part)) for part in parts), (-1, ""))


def _part(part: str, before: re.Match[str] | None = None) -> tuple[int, str]:
    if before is not None:
        return BEFORE[before[1].lower()], part[before.end() :]
    return (int(part), "") if part.isdecimal() else (-1, part)


def slug(text: str) -> str:
    """The file name of a page for a text: readable, safe and unique."""
    readable = re.sub(r"[^A-Za-z0-9.-]+", "-", text).strip("-.")[:60]
    return f"{readable}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
