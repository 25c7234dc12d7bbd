"""What a vendor's document promises for a case, apart from what the table promises, and whether the backend keeps it.

A table says where each of its rows, precisions and constraints comes from. What does not come from the document was
read from released sources, or decided: there the document promises more than the table, or nothing at all.
"""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.conformance.common.schema import DOCUMENT
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.table import Row, Table
from npu_assay.conformance.table.constraints import Constraint

PROMISES, UNCONDITIONAL, EXCLUDES, UNLISTED = "promises", "unconditional", "excludes", "unlisted"
_SAYS: Mapping[str, str] = {
    PROMISES: "document promises",
    UNCONDITIONAL: "document states no such condition",
    EXCLUDES: "document excludes",
    UNLISTED: "document does not list",
}
ACCEPTS, REJECTS = "accepts", "rejects"
DOCUMENTED: Mapping[str, str] = {
    f"{said}_{did}": f"{words}, backend {did}" for said, words in _SAYS.items() for did in (ACCEPTS, REJECTS)
}
"""What document and backend say of a case, by key; a case without an answer, or of a silent table, has none."""
DIFFER = (f"{PROMISES}_{REJECTS}", f"{UNCONDITIONAL}_{REJECTS}", f"{EXCLUDES}_{ACCEPTS}")
"""The cases in which the backend does not do what the document says, constraint by constraint."""
BEYOND = f"{UNLISTED}_{ACCEPTS}"
"""What the backend does without a word in the document, whatever the constraint: a matter of operator and precision."""


def documented(table: Table, result: CaseResult, precision: str) -> str:
    """A key of DOCUMENTED, or "" where the backend gave no answer or the table promises nothing.

    `precision` is the case's, "" where the row has only one. A subject of which only some nodes are delegated is not
    what a document says, whatever it says.
    """
    if result.verdict in ("error", "absent") or result.expect == "unspecified":
        return ""
    said = _said(table, table.row(result.row), result, precision)
    accepted = result.verdict == "accept" if said in (PROMISES, UNCONDITIONAL) else result.verdict != "reject"
    return f"{said}_{ACCEPTS if accepted else REJECTS}"


def source(table: Table, row: Row, code: str) -> str:
    """Where a constraint of a row comes from; "" for cases that are about no constraint of the row."""
    found = _constraint(table, row, code)
    return "" if found is None else found.source


def _said(table: Table, row: Row, result: CaseResult, precision: str) -> str:
    """What the document says of a case: a row that the backend refuses whole is promised there all the same."""
    if row.source_of(precision) != DOCUMENT:
        return UNLISTED
    if result.expect == "accept" or row in table.refused:
        return PROMISES
    return EXCLUDES if source(table, row, result.reason or "") == DOCUMENT else UNCONDITIONAL


def _constraint(table: Table, row: Row, code: str) -> Constraint | None:
    known = row.constraints if row in table.refused else (*row.constraints, *table.common)
    return next((constraint for constraint in known if constraint.code == code), None)
