"""The levels of a run: what of a backend is judged, and so what a certificate claims; its shards: how much of a table.

Commands read both before anything that judges may be loaded, so this imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")

TAGS, COMPILES, RUNS, NUMBERS = LEVELS = ("tags", "compiles", "runs", "numbers")
"""From the lowest to the highest; each judges all that those before it judge."""
JUDGED: Mapping[str, str] = {
    TAGS: "nothing was compiled or run, numbers were not judged",
    COMPILES: "nothing was run, numbers were not judged",
    RUNS: "numbers were not judged",
    NUMBERS: "tags, blobs, runs and numbers were judged",
}
"""What a verdict at each level does not cover; at the highest, what it covers."""


def reaches(level: str, wanted: str) -> bool:
    """Whether `level` judges all that `wanted` judges."""
    return LEVELS.index(level) >= LEVELS.index(wanted)


def named(text: str, level: str) -> str:
    """A verdict with its level, unless that is the highest: "certified (tags)"."""
    return text if level == NUMBERS else f"{text} ({level})"


def unjudged(level: str) -> str:
    """What the level leaves unjudged, as a suffix to a verdict; "" at the highest."""
    return "" if level == NUMBERS else f"; {JUDGED[level]}"


@dataclass(frozen=True)
class Shard:
    """Part `number` (from 1) of the `of` parts of a run: every `of`-th case in the order of the ids.

    The parts differ by one case at most. They take about as long: each has its share of every operator's cases.
    """

    number: int
    of: int

    def part(self, cases: Sequence[_T]) -> tuple[_T, ...]:
        """The shard's share of cases that are in the order of their ids."""
        return tuple(cases[self.number - 1 :: self.of])

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"
