"""What a table's predicates say of its cases: of each constraint whether it holds, and of each of its atoms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from npu_assay.conformance.predicates.applications import NoProgram, application
from npu_assay.conformance.predicates.definitions import Defined, defined
from npu_assay.conformance.predicates.evaluation import atom_truth, says
from npu_assay.conformance.predicates.features import Application
from npu_assay.conformance.programs.graph import Case, Fill, Graph
from npu_assay.conformance.table import Row, Table

Place = tuple[str, str | None]
"""A row and one of its precisions; None where the row lists none."""
_NO_FILL = Fill()


@dataclass(frozen=True)
class Look:
    """A case, its application, and by code whether each constraint holds: None where the program lacks a feature.

    What is worked out from these is kept with them: `once`.
    """

    case: Case
    application: Application
    truths: Mapping[str, bool | None]
    atoms: Mapping[str, tuple[bool | None, ...]]
    _kept: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, key: object, make: Callable[[], Any]) -> Any:
        """What `make` gives, made when it is first asked for; it depends on the case and its constraints alone."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    @property
    def broken(self) -> list[str]:
        """The constraints that the program breaks, by code."""
        return [code for code, said in self.truths.items() if said is False]

    @property
    def good(self) -> bool:
        """Whether it is accepted, and no constraint says otherwise."""
        return self.case.expect == "accept" and False not in self.truths.values()

    def only(self, code: str) -> bool:
        """Whether it is rejected for this constraint, and every other one holds."""
        others = (found for name, found in self.truths.items() if name != code)
        return self.case.reason == code and self.truths[code] is False and False not in others

    @property
    def disagreements(self) -> tuple[str, ...]:
        """The constraints whose predicate says another verdict than the case expects."""
        if self.case.expect == "accept":
            return tuple(code for code, found in self.truths.items() if found is False)
        reason = self.case.reason
        return (reason,) if reason is not None and self.truths.get(reason, False) is not False else ()


def looks(table: Table, cases: Iterable[Case]) -> Iterator[Look]:
    """What is said of every case with a verdict whose row the table promises something about.

    Cases that torch has no sizes for are left out: splits into very many pieces, for one.
    """
    rows = {row.name: row for row in table.rows}
    places = dict[Place, tuple[Defined, ...]]()
    known = dict[object, Look]()
    for case in cases:
        if case.expect not in ("accept", "reject") or case.row not in rows:
            continue
        place = (case.row, case.precision)
        if place not in places:
            places[place] = defined(table, rows[case.row], case.precision)
        key = (place, *program_key(case))
        if key not in known:
            found = looked(case, places[place])
            if found is None:
                continue
            known[key] = found
        yield replace(known[key], case=case)


def program_key(case: Case) -> tuple[object, ...]:
    """What predicates can tell cases apart by."""
    return case.subject, repr(case.options), _without_fills(case.graph)


def _without_fills(graph: Graph) -> Graph:
    """The program without the numbers that it runs on: constants keep theirs, which predicates ask about."""
    values = (v if v.constant or v.fill == _NO_FILL else replace(v, fill=_NO_FILL) for v in graph.values)
    return replace(graph, values=tuple(values))


def looked(case: Case, held: tuple[Defined, ...]) -> Look | None:
    """What the constraints say of one program; None where torch has no sizes for it."""
    try:
        found = application(case.graph, case.subject, dict(case.options), tried=True)
    except NoProgram:
        return None
    truths, atoms = dict[str, bool | None](), dict[str, tuple[bool | None, ...]]()
    for each in held:
        find = found.with_value(each.value).find
        atoms[each.code] = tuple(atom_truth(atom, find) for atom in each.predicate.atoms)
        truths[each.code] = says(each.predicate, atoms[each.code])
    return Look(case, found, truths, atoms)


def places(table: Table) -> Iterator[tuple[Row, str | None]]:
    """Every row in each of its precisions, in the table's order."""
    for row in table.rows:
        for precision in row.precisions or (None,):
            yield row, precision
