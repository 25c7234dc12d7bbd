"""What a row decides of a program: accepted where every constraint holds, rejected where one is broken, else nothing.

A constraint has three outcomes: it holds, is broken, or is silent, where the program lacks a feature or nothing says
what the constraint means there. A program that torch has no sizes of, or of a precision that the row does not list,
is not decided either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from npu_assay.conformance.predicates.applications import NoProgram, application
from npu_assay.conformance.predicates.definitions import certain, definition, held, is_certain
from npu_assay.conformance.predicates.evaluation import Find, holds
from npu_assay.conformance.predicates.grammar import PredicateError
from npu_assay.conformance.predicates.precisions import precision_of
from npu_assay.conformance.programs.graph import Case, Graph
from npu_assay.conformance.table import Row, Table
from npu_assay.conformance.table.constraints import Constraint
from npu_assay.reference.golden import GoldenError


@dataclass(frozen=True)
class Decision:
    """accept, reject or unspecified; the program's precision; the constraints that are broken, and that are silent."""

    expect: str
    precision: str | None = None
    broken: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()

    @property
    def reason(self) -> str | None:
        """The only constraint that a partitioner can give as its reason; None where it may be another one."""
        return self.broken[0] if len(self.broken) == 1 and not self.silent else None


UNDECIDED = Decision("unspecified")


def decide(
    table: Table, row: Row, graph: Graph, subject: str, options: Mapping[str, Any] = MappingProxyType({})
) -> Decision:
    """What the row's constraints say of step `subject` of a program that torch accepts."""
    try:
        use = application(graph, subject, options, tried=True)
    except (NoProgram, GoldenError):
        return UNDECIDED
    precision = precision_of(row, use)
    if row.precisions and precision not in row.precisions:
        return UNDECIDED
    said = {c.code: _outcome(table, row, c, use.with_value(c.value).find) for c in held(table, row, precision)}
    broken = tuple(code for code, found in said.items() if found is False)
    silent = tuple(code for code, found in said.items() if found is None)
    return Decision("reject" if broken else "unspecified" if silent else "accept", precision, broken, silent)


def decided(table: Table, case: Case) -> Case:
    """The case with the verdict that its row decides of its program; undecided where it is refused, or not certain."""
    row = next((row for row in table.rows if row.name == case.row), None)
    if row is None or not is_certain(table, row):
        return replace(case, expect=UNDECIDED.expect, reason=None)
    try:
        found = decide(table, row, case.graph, case.subject, dict(case.options))
    except PredicateError:  # a limit cannot be compared with what this program has
        found = UNDECIDED
    return replace(case, expect=found.expect, reason=found.reason)


def _outcome(table: Table, row: Row, constraint: Constraint, find: Find) -> bool | None:
    """True where a constraint holds, False where it is broken, None where it is silent."""
    code, exact, sure = constraint.code, definition(table, row, constraint.code), certain(table, row, constraint.code)
    if sure.silent is not None and holds(sure.silent, find, code):
        return None
    if sure.broken is not None and holds(sure.broken, find, code):
        return False
    found = None if exact is None else holds(exact, find, code)
    if found is False or sure.holds is None:
        return found
    return holds(sure.holds, find, code) or None
