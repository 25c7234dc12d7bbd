"""The outcomes as text and as lines of JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from npu_assay.conformance.common.escaped import counted
from npu_assay.conformance.reach.walk import DELEGATED, ERROR, LEFT, NO_WAY, PARTLY, WRONG, Met

ENDS = {
    DELEGATED: "delegated",
    PARTLY: "partly delegated",
    LEFT: "left to the CPU",
    ERROR: "end with an error",
    WRONG: "give wrong numbers",
    NO_WAY: "have no documented way",
}
SHOWN = 40
"""The number of first characters by which two messages count as the same."""


def lines(found: Sequence[Met]) -> Iterator[str]:
    """Each distinct fault with one of its cases and the number of others, then the counts."""
    for (stage, said), cases in _alike(found).items():
        more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
        yield f"  {stage}: {said}"
        yield f"    {cases[0].case}{more}"
    for why, count in Counter(met.said for met in found if met.end == NO_WAY).items():
        yield f"  no documented way: {why}: {counted(count, 'case')}"
    counts = Counter(met.end for met in found)
    told = ", ".join(f"{counts[end]} {text}" for end, text in ENDS.items() if counts[end])
    yield f"{len(found)} case{'' if len(found) == 1 else 's'}: {told}"


def _alike(found: Iterable[Met]) -> dict[tuple[str, str], list[Met]]:
    """Faults with the same first characters, by stage and the first one's message."""
    alike: dict[tuple[str, str], list[Met]] = {}
    told: dict[tuple[str, str], tuple[str, str]] = {}
    for met in found:
        if met.is_fault:
            kind = (met.stage, met.said[:SHOWN] if met.end == ERROR else met.end)
            first = told.setdefault(kind, (met.stage, met.said.split("\n")[0]))
            alike.setdefault(first, []).append(met)
    return alike


def as_lines(found: Iterable[Met]) -> str:
    """One line of JSON for each case, keys in the order of `Met`."""
    return "".join(f"{json.dumps(met.as_data())}\n" for met in found)
