"""Programs that reach several limits at once: a backend may take each alone, and not two of them together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from npu_assay.conformance.cases.boundaries.search import Look, Search

Differences = Mapping[int, object]
"""Knobs by number, and where they stand other than in the row's plain program."""


def together(search: Search, base: Look, rights: Sequence[Look]) -> Iterator[Look]:
    """Few programs, in which every two of `rights` are together that can be in one.

    rights: programs for which every limit holds, each with some knobs turned. Two of them can be together where they
    turn no knob to different places, and every limit holds with both turned.
    """
    parts = _distinct([search.differences(base, look) for look in rights])
    covered = set[tuple[int, int]]()
    for pair in itertools.combinations(range(len(parts)), 2):
        look = None if pair in covered else _merged(search, base, [parts[i] for i in pair])
        if look is None:
            continue
        members = list(pair)
        for other in range(len(parts)):
            more = [tuple(sorted((other, member))) for member in members]
            if other not in members and not covered.issuperset(more):
                larger = _merged(search, base, [parts[i] for i in (*members, other)])
                if larger is not None:
                    look, members = larger, [*members, other]
        covered |= set(itertools.combinations(sorted(members), 2))
        yield look


def _distinct(parts: Sequence[Differences]) -> list[Differences]:
    found = list[Differences]()
    for part in parts:
        if part and part not in found:
            found.append(part)
    return found


def _merged(search: Search, base: Look, parts: Sequence[Differences]) -> Look | None:
    """The program with all of them, None where they contradict each other, or a limit is broken."""
    every = dict[int, object]()
    for part in parts:
        if any(every.get(number, place) != place for number, place in part.items()):
            return None
        every |= part
    look = search.with_turns({**dict(base.turns), **every})
    return look if look is not None and look.right else None
