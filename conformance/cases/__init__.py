"""The cases of a table: every row, every constraint, both sides of every limit."""

from __future__ import annotations

from conformance.cases.baseline import baseline
from conformance.cases.make import OPERATOR, SUBJECT, Draft
from conformance.graph import Case
from conformance.table import Row, Table


def cases_for(table: Table) -> tuple[Case, ...]:
    """Every case of a table, row by row; ids are unique. Raises KeyError for a row without cases."""
    return tuple(_case(row, draft) for row in table.rows for draft in _drafts(row))


def _drafts(row: Row) -> list[Draft]:
    return [Draft(OPERATOR, "accept", "baseline", baseline(row.name))]


def _case(row: Row, draft: Draft) -> Case:
    reason = draft.constraint if draft.expect == "reject" else None
    name = f"{row.name}/{draft.constraint}/{draft.side}/{draft.variant}"
    return Case(name, row.name, draft.constraint, draft.side, draft.expect, reason, draft.graph, SUBJECT)
