"""`assay show`: one operator of a table, in words."""

from __future__ import annotations

from collections.abc import Iterator

from npu_assay.conformance.backends import load_backend
from npu_assay.conformance.graph import Case
from npu_assay.conformance.schema import DOCUMENT
from npu_assay.conformance.selection import all_cases
from npu_assay.conformance.table import Row, Table, load_table


def operator_text(backend: str, operator: str, table: str | None) -> str:
    """The row, its constraints and its cases. Raises BackendSpecError or TableError with the nearest name."""
    loaded = load_table(table if table is not None else load_backend(backend).table)
    row = loaded.row(operator)
    return "\n".join([*_row(loaded, row), *_cases([c for c in all_cases(loaded) if c.row == row.name])])


def _row(table: Table, row: Row) -> Iterator[str]:
    yield f"{row.name}  ({table.name}@{table.version})"
    yield f"document: {row.document or 'no constraint'}" if row.source == DOCUMENT else _unlisted(row)
    if row.documented_as:
        yield f"in the document: {row.documented_as}"
    if row.compiled_to:
        yield f"compiled to: {row.compiled_to}"
    if row.operator != row.name:
        yield f"operator: {row.operator}"
    if row.rewritten_to is not None:
        yield f"judged as: {row.rewritten_to}"
    if row.precisions:
        yield f"precisions: {', '.join(_precision(row, name) for name in row.precisions)}"
    yield "constraints:" if row not in table.refused else "refused, although the document lists it:"
    for constraint in row.constraints if row in table.refused else (*table.common, *row.constraints):
        kinds = f" ({', '.join(constraint.precisions)})" if constraint.precisions else ""
        yield f"  {constraint.code}{kinds}: {table.sentence(constraint)} [{constraint.source}]"


def _unlisted(row: Row) -> str:
    return f"document: does not list the operator [{row.source}]"


def _precision(row: Row, name: str) -> str:
    """A precision that the document promises, or one and where else it comes from."""
    return name if row.source_of(name) == row.source else f"{name} [{row.source_of(name)}]"


def _cases(cases: list[Case]) -> Iterator[str]:
    yield f"cases: {len(cases)}"
    for case in cases:
        promise = f"{case.expect} ({case.reason})" if case.reason else case.expect
        yield f"  {promise:<36} {case.id}"
