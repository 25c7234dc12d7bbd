"""What a table takes that the one before it excludes: the cases outside of a limit that is gone are accepted.

A table names the one that it follows. A program that was written for the other side of a limit which only the former
has is a case of the row still, accepted wherever every limit that the row has is known to hold for it. Whether they
hold needs torch, which computes sizes; for the rows of shipped tables the answers stand in `found/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npu_assay.conformance.cases.drafts import CaseDraft, accepted
from npu_assay.conformance.cases.witnesses import content_key, name_of, shipped
from npu_assay.conformance.predicates.definitions import defined, held
from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.table import Row, Table, row_before, table_before

OF_SCALES = frozenset({"rescale"})
"""Constraints without a predicate that programs with usual scales keep."""
KEPT = "kept"
"""The key of `found/` under which the answers stand."""


def loosened(table: Table, row: Row, precision: str, drafts: Sequence[CaseDraft]) -> Iterator[CaseDraft]:
    """The accepted drafts of a row, from those that are outside of limits which are gone. Raises TableError."""
    known = shipped().get(content_key(table, row, precision or None), {}).get(KEPT, {})
    for draft in _asked(table, row, precision, drafts):
        keeps = known.get(name_of(draft))
        if _keeps(table, row, precision, draft.graph) if keeps is None else keeps:
            yield accepted(f"no_longer_{draft.constraint}_{draft.variant}", draft.graph)


def kept(table: Table, row: Row, precision: str, drafts: Sequence[CaseDraft]) -> dict[str, bool]:
    """The drafts that are outside of a limit which is gone, by name: whether every limit of the row holds."""
    asked = _asked(table, row, precision, drafts)
    return {name_of(draft): _keeps(table, row, precision, draft.graph) for draft in asked}


def _asked(table: Table, row: Row, precision: str, drafts: Sequence[CaseDraft]) -> list[CaseDraft]:
    before = None if not table.follows else row_before(table_before(table), row)
    if before is None:
        return []
    gone = {c.code for c in before.constraints} - {c.code for c in held(table, row, precision or None)}
    return [draft for draft in drafts if draft.constraint in gone and draft.expect == "reject"]


def _keeps(table: Table, row: Row, precision: str, graph: Graph) -> bool:
    """Whether every limit of the row is known to hold; of one that no predicate says, where nothing is beside it."""
    from npu_assay.conformance.cases.make import SUBJECT
    from npu_assay.conformance.predicates.applications import application
    from npu_assay.conformance.predicates.evaluation import holds

    known = defined(table, row, precision or None)
    unsaid = {c.code for c in held(table, row, precision or None)} - {each.code for each in known} - OF_SCALES
    if unsaid and len(graph.steps) > 1:
        return False
    found = application(graph, SUBJECT)
    return all(holds(each.predicate, found.with_value(each.value).find, each.code) is True for each in known)
