"""Names of random programs, from which any process can make them.

`fuzz/SEED/NUMBER` is a program as it was drawn. `fuzz/SEED/NUMBER/3.0.7` is that program
after three reductions: the fourth possible one of the program, the first one of the result, and the eighth one of that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

FIRST = "fuzz"
_NAME = re.compile(rf"{FIRST}/(\d+)/(\d+)(?:/(\d+(?:\.\d+)*))?")


@dataclass(frozen=True)
class Name:
    """Seed, number, and the numbers of the reductions in order."""

    seed: int
    number: int
    trail: tuple[int, ...] = ()

    def __str__(self) -> str:
        drawn = f"{FIRST}/{self.seed}/{self.number:06}"
        return f"{drawn}/{'.'.join(map(str, self.trail))}" if self.trail else drawn

    def reduced(self, choice: int) -> Name:
        """The name of the program after one more reduction."""
        return Name(self.seed, self.number, (*self.trail, choice))


def is_program(name: str) -> bool:
    """Whether a case's name is that of a random program."""
    return _NAME.fullmatch(name) is not None


def parse(name: str) -> Name:
    """Read a name. Raises ValueError."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r}: expected {FIRST}/SEED/NUMBER or {FIRST}/SEED/NUMBER/REDUCTIONS")
    seed, number, trail = found.groups()
    return Name(int(seed), int(number), tuple(map(int, trail.split("."))) if trail else ())
