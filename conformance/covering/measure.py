"""The coverage of a table's limits by its cases, row by row: see `atoms` for MC/DC and `pairs` for 2-way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from npu_assay.conformance.covering.atoms import Owed, owed
from npu_assay.conformance.covering.looks import Look, Place, looks, places
from npu_assay.conformance.covering.pairs import Pairing, pairings
from npu_assay.conformance.covering.proofs import Proof, prove
from npu_assay.conformance.predicates.definitions import defined, held
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import Table


@dataclass(frozen=True)
class RowCoverage:
    """What the cases of a row in one number type owe. undefined: the codes that no predicate says."""

    row: str
    precision: str | None
    owed: tuple[Owed, ...]
    pairings: tuple[Pairing, ...]
    undefined: tuple[str, ...]
    proofs: tuple[tuple[Owed, Proof], ...] = ()

    @property
    def name(self) -> str:
        """The row, and the number type where it has several, as in case ids."""
        return self.row if self.precision is None else f"{self.row}/{self.precision}"

    @property
    def holes(self) -> tuple[Owed, ...]:
        """What no two cases show."""
        return tuple(each for each in self.owed if each.shown is None)

    @property
    def apart(self) -> tuple[Pairing, ...]:
        """The classes that no accepted case has together."""
        return tuple(each for each in self.pairings if each.shown is None)


def measure(table: Table, cases: Iterable[Case], proving: bool = False) -> list[RowCoverage]:
    """One record for each row and number type, in the table's order.

    proving: also look for programs that would show the holes, which takes seconds for each.
    """
    found = defaultdict[Place, list[Look]](list)
    for look in looks(table, cases):
        found[look.case.row, look.case.precision].append(look)
    records = list[RowCoverage]()
    for row, precision in places(table):
        own, here = defined(table, row, precision), found[row.name, precision]
        said = {each.code for each in own}
        undefined = tuple(c.code for c in held(table, row, precision) if c.code not in said)
        atoms = tuple(each for constraint in own for each in owed(constraint, here))
        record = RowCoverage(row.name, precision, atoms, tuple(pairings(own, here)), undefined)
        proofs = tuple((hole, prove(own, here, hole)) for hole in record.holes) if proving else ()
        records.append(replace(record, proofs=proofs))
    return records
