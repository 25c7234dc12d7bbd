"""The parts of a run on several machines.

Commands read this before anything that judges may be loaded, so it imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")


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
