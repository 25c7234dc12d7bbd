"""What a table takes that the one before it excludes: the cases outside of a limit that is gone are accepted.

A table names the one that it follows. A program that was written for the other side of a limit which only the former
has is a case of the row still, accepted wherever every limit that the row has is known to hold for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npu_assay.conformance.cases.drafts import CaseDraft, accepted
from npu_assay.conformance.predicates.definitions import defined
from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.table import Row, Table, row_before, table_before
from npu_assay.conformance.table.constraints import Constraint

OF_SCALES = frozenset({"rescale"})
"""Constraints without a predicate that programs with usual scales keep."""


def loosened(table: Table, row: Row, precision: str, drafts: Sequence[CaseDraft]) -> Iterator[CaseDraft]:
    """The accepted drafts of a row, from those that are outside of limits which are gone. Raises TableError."""
    before = None if not table.follows else row_before(table_before(table), row)
    if before is None:
        return
    held = [c for c in (*table.common, *row.constraints) if c.holds_for(precision or None)]
    gone = {c.code for c in before.constraints} - {c.code for c in held}
    asked = [draft for draft in drafts if draft.constraint in gone and draft.expect == "reject"]
    for draft in asked:
        if _keeps(table, row, precision, held, draft.graph):
            yield accepted(f"no_longer_{draft.constraint}_{draft.variant}", draft.graph)


def _keeps(table: Table, row: Row, precision: str, held: Sequence[Constraint], graph: Graph) -> bool:
    """Whether every limit of the row is known to hold; of one that no predicate says, where nothing is beside it."""
    from npu_assay.conformance.cases.make import SUBJECT
    from npu_assay.conformance.predicates.applications import application
    from npu_assay.conformance.predicates.evaluation import holds

    known = defined(table, row, precision or None)
    unsaid = {c.code for c in held} - {each.code for each in known} - OF_SCALES
    if unsaid and len(graph.steps) > 1:
        return False
    found = application(graph, SUBJECT)
    return all(holds(each.predicate, found.with_value(each.value).find) is True for each in known)
