"""`assay show`: the operators of a table, or one of them, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from npu_assay.conformance.backend.stated_table import table_of
from npu_assay.conformance.common.schema import DOCUMENT
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.report.data import promised
from npu_assay.conformance.run.selection import all_cases, cases_of
from npu_assay.conformance.table import Row, Table, TableError, load_table
from npu_assay.conformance.table.operator_names import called
from npu_assay.reference.operators import HOMES


def table_text(backend: str, operator: str | None, table: str | None) -> str:
    """The row of an operator, its constraints and its cases; a line for each row if there is no one operator.

    Raises BackendSpecError or TableError with the nearest name.
    """
    loaded = load_table(table if table is not None else table_of(backend))
    if operator is None:
        return "\n".join(_rows(loaded, loaded.every_row))
    names = called(operator, [row.name for row in loaded.every_row])
    if len(names) > 1:
        return "\n".join(_rows(loaded, [loaded.row(name) for name in names]))
    if not names and (known := called(operator, HOMES)):
        told = f"the suite knows {', '.join(known)}, which the table does not list"
        raise TableError(f"table {loaded.title} has no operator {operator!r}; {told}")
    row = loaded.row(names[0] if names else operator)
    return "\n".join([*_row(loaded, row), *_cases([c for c in cases_of(loaded, row.name) if c.row == row.name])])


def _rows(table: Table, rows: Iterable[Row]) -> Iterator[str]:
    """The rows of a table, with how many cases each has in which precisions."""
    counts, shown = Counter(case.row for case in all_cases(table)), list(rows)
    yield f"{table.title}: {table.source}"
    width = max(len(row.name) for row in shown)
    for row in shown:
        refused = "refused, although the document lists it" if row in table.refused else ""
        kinds = " ".join(filter(None, [", ".join(row.precisions), refused]))
        yield f"  {row.name:<{width}}  {counts[row.name]:>4} cases  {kinds}".rstrip()


def _row(table: Table, row: Row) -> Iterator[str]:
    yield f"{row.name}  ({table.title})"
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
        defined = _defined(table, constraint.code)
        yield f"  {constraint.code}{kinds}: {table.sentence(constraint)} [{constraint.source}]{defined}"


def _defined(table: Table, code: str) -> str:
    """The predicate of a constraint that the table defines itself, or why no case checks it."""
    rule = table.own.definition(code)
    if rule is None:
        return ""
    if rule.holds is None:
        return f" (no case: {rule.unchecked})"
    return f" = {rule.holds.text}" + (f" (not asked in full: {rule.unchecked})" if rule.unchecked else "")


def _unlisted(row: Row) -> str:
    return f"document: does not list the operator [{row.source}]"


def _precision(row: Row, name: str) -> str:
    """A precision that the document promises, or one and where else it comes from."""
    return name if row.source_of(name) == row.source else f"{name} [{row.source_of(name)}]"


def _cases(cases: list[Case]) -> Iterator[str]:
    yield f"cases: {len(cases)}"
    for case in cases:
        yield f"  {promised(case):<36} {case.id}"
