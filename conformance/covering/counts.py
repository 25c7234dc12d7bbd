"""How much of the coverage of limits is shown, as numbers."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True)
class Counts:
    """How much of MC/DC and of 2-way coverage is shown: `deciding` of `atoms`, `together` of `pairs`.

    Of what is not shown, a search found no program near for `impossible` of MC/DC and `apart` of the pairs; the rest is
    open.
    """

    deciding: int
    atoms: int
    together: int
    pairs: int
    impossible: int = 0
    apart: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def atoms_text(self) -> str:
        """What is shown of MC/DC, in words."""
        return share(self.deciding, self.atoms, self.impossible)

    @property
    def pairs_text(self) -> str:
        """What is shown of 2-way coverage, in words."""
        return share(self.together, self.pairs, self.apart)


def share(shown: int, owed: int, impossible: int) -> str:
    """`12 shown, 3 that no program near shows, 1 open: 93.7 %`, rounded down so that only everything is 100 %.

    The share is what is shown, and what was searched for in vain. "-" where nothing is owed.
    """
    if not owed:
        return "-"
    known = shown + impossible
    percent = f"{1000 * known // owed / 10:.1f} %"
    return f"{shown} shown, {impossible} that no program near shows, {owed - known} open: {percent}"
