"""The coverage of a table's limits by its cases, row by row: see `atoms` for MC/DC and `pairs` for 2-way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from npu_assay.conformance.cases.witnesses import content_key, is_found, shipped
from npu_assay.conformance.covering.atoms import Owed, owed
from npu_assay.conformance.covering.looks import Look, Place, looks, places
from npu_assay.conformance.covering.pairs import Pairing, pairings
from npu_assay.conformance.covering.proofs import Proof, searched
from npu_assay.conformance.predicates.definitions import Defined, defined, held
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import Table

Proofs = Mapping[object, Proof]
"""By what a hole is: see `name_of` and `pair_name`."""


@dataclass(frozen=True)
class RowCoverage:
    """What the cases of a row in one precision owe. undefined: the codes that no predicate says."""

    row: str
    precision: str | None
    owed: tuple[Owed, ...]
    pairings: tuple[Pairing, ...]
    undefined: tuple[str, ...]
    proofs: tuple[tuple[Owed, Proof], ...] = ()
    pair_proofs: tuple[tuple[Pairing, Proof], ...] = ()

    @property
    def name(self) -> str:
        """The row, and the precision where it has several, as in case ids."""
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
    """One record for each row and precision, in the table's order, with the proofs that ship with the suite.

    proving: search for programs that would show the holes again, which takes seconds for each row, and prove anew.
    """
    found, every = defaultdict[Place, list[Look]](list), defaultdict[Place, list[Case]](list)
    listed = list(cases)
    for look in looks(table, listed):
        found[look.case.row, look.case.precision].append(look)
    for case in listed:
        every[case.row, case.precision].append(case)
    records = list[RowCoverage]()
    for row, precision in places(table):
        own, place = defined(table, row, precision), (row.name, precision)
        said = {each.code for each in own}
        undefined = tuple(c.code for c in held(table, row, precision) if c.code not in said)
        atoms = tuple(each for constraint in own for each in owed(constraint, found[place]))
        pairs = tuple(pairings(own, found[place]))
        known = shipped().get(content_key(table, row, precision), {})
        if proving:
            known = _again(own, found[place], every[place])
        proofs = _known(known)
        records.append(
            RowCoverage(
                *(*place, atoms, pairs, undefined),
                tuple((each, proofs[_name(each)]) for each in atoms if each.shown is None and _name(each) in proofs),
                tuple((p, proofs[_pair_name(p)]) for p in pairs if p.shown is None and _pair_name(p) in proofs),
            )
        )
    return records


def _again(own: Sequence[Defined], found: Sequence[Look], every: Sequence[Case]) -> Mapping[str, Any]:
    """What a search from the written cases proves."""
    written = [look for look in found if not is_found(look.case)]
    return searched(own, written, [case for case in every if not is_found(case)])[1]


def _known(found: Mapping[str, Any]) -> Proofs:
    """The proofs that are kept as plain data."""
    proofs = dict[object, Proof]()
    for hole in found.get("holes", ()):
        proofs[hole["code"], hole["atom"], hole["feature"], hole["near"]] = _proof(hole)
    for pair in found.get("apart", ()):
        proofs[_tuples(pair["factors"]), tuple(pair["classes"])] = _proof(pair)
    return proofs


def _proof(found: Mapping[str, Any]) -> Proof:
    told = {field.name: found[field.name] for field in fields(Proof)}
    return Proof(**{**told, "others": _tuples(found["others"])})


def _tuples(found: Iterable[Iterable[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(each) for each in found)


def _name(hole: Owed) -> object:
    return hole.code, hole.atom, hole.feature, hole.near


def _pair_name(pair: Pairing) -> object:
    return pair.factors, pair.classes
