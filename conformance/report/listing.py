"""`assay show`: one operator of a table, in words."""

from __future__ import annotations

from collections.abc import Iterator

from npu_assay.conformance.backends import load_backend
from npu_assay.conformance.graph import Case
from npu_assay.conformance.selection import all_cases
from npu_assay.conformance.table import Row, Table, load_table


def operator_text(backend: str, operator: str, table: str | None) -> str:
    """The row, its constraints and its cases. Raises BackendSpecError or TableError with the nearest name."""
    loaded = load_table(table if table is not None else load_backend(backend).table)
    row = loaded.row(operator)
    return "\n".join([*_row(loaded, row), *_cases([c for c in all_cases(loaded) if c.row == row.name])])


def _row(table: Table, row: Row) -> Iterator[str]:
    yield f"{row.name}  ({table.name}@{table.version})"
    yield f"document: {row.document or 'no constraint'}"
    if row.operator != row.name:
        yield f"operator: {row.operator}"
    if row.rewritten_to is not None:
        yield f"judged as: {row.rewritten_to}"
    if row.precisions:
        yield f"precisions: {', '.join(row.precisions)}"
    yield "constraints:"
    for constraint in (*table.common, *row.constraints):
        kinds = f" ({', '.join(constraint.precisions)})" if constraint.precisions else ""
        yield f"  {constraint.code}{kinds}: {table.sentence(constraint)} [{constraint.source}]"


def _cases(cases: list[Case]) -> Iterator[str]:
    yield f"cases: {len(cases)}"
    for case in cases:
        promise = f"{case.expect} ({case.reason})" if case.reason else case.expect
        yield f"  {promise:<36} {case.id}"
