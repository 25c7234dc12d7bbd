"""How much of the coverage of limits is shown, as numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Counts:
    """How much of MC/DC and of 2-way coverage is shown: `deciding` of `atoms`, `together` of `pairs`."""

    deciding: int
    atoms: int
    together: int
    pairs: int

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.deciding + other.deciding,
            self.atoms + other.atoms,
            self.together + other.together,
            self.pairs + other.pairs,
        )

    @property
    def atoms_text(self) -> str:
        """What is shown of MC/DC, in words."""
        return share(self.deciding, self.atoms)

    @property
    def pairs_text(self) -> str:
        """What is shown of 2-way coverage, in words."""
        return share(self.together, self.pairs)


def share(shown: int, owed: int) -> str:
    """`12/16 75.0 %`, rounded down so that only everything is 100 %; "-" where nothing is owed."""
    return f"{shown}/{owed} {1000 * shown // owed / 10:.1f} %" if owed else "-"
