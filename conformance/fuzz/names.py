"""Names of random programs: all that a worker needs to make one.

`fuzz/SEED/NUMBER` is a program as it was drawn. `fuzz/SEED/NUMBER/3.0.7` is what is left of it after reductions: the
fourth of those that there are for it, then the first for what that gave, then the eighth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

FIRST = "fuzz"
_NAME = re.compile(rf"{FIRST}/(\d+)/(\d+)(?:/(\d+(?:\.\d+)*))?")


@dataclass(frozen=True)
class Name:
    """seed and number, and which reductions in turn."""

    seed: int
    number: int
    trail: tuple[int, ...] = ()

    def __str__(self) -> str:
        drawn = f"{FIRST}/{self.seed}/{self.number:06}"
        return f"{drawn}/{'.'.join(map(str, self.trail))}" if self.trail else drawn

    def reduced(self, choice: int) -> Name:
        """After one more reduction."""
        return Name(self.seed, self.number, (*self.trail, choice))


def is_program(name: str) -> bool:
    """Whether it is the name of a random program."""
    return _NAME.fullmatch(name) is not None


def parse(name: str) -> Name:
    """Read a name. Raises ValueError."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r}: expected {FIRST}/SEED/NUMBER, and perhaps /REDUCTIONS")
    seed, number, trail = found.groups()
    return Name(int(seed), int(number), tuple(map(int, trail.split("."))) if trail else ())
