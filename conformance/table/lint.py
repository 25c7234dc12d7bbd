"""`assay table lint`: everything that is wrong with a table, not only the first thing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from npu_assay.conformance.cases import every_operator
from npu_assay.conformance.cases.limits import LimitError
from npu_assay.conformance.coverage import Coverage, coverage, failures
from npu_assay.conformance.predicates.left_out import silent_without
from npu_assay.conformance.run.selection import SelectionError, all_cases
from npu_assay.conformance.table import Row, Table
from npu_assay.conformance.table.operator_names import nearest_operators


def findings(table: Table) -> Iterator[str]:
    """What keeps rows of a table from being certified, or says nothing, row by row, in the table's order."""
    known, common, records = every_operator(), {each.code for each in table.common}, list[Coverage]()
    for row in table.every_row:
        if row in table.refused and not row.precisions:
            continue  # the suite asks nothing about it
        if row.name not in known:
            yield f"{row.name}: the suite has no cases for this operator{nearest_operators(row.name, known)}"
            continue
        try:
            records += _of_row(table, row)
        except (SelectionError, LimitError) as error:
            yield str(error)
        yield from _left_out(table, row)
    shown = common & {each.constraint for each in records if each.outside}  # in one row is enough of what all have
    yield from failures(each for each in records if each.outside or each.constraint not in shown)
    for defined in table.own.definitions:
        if defined.unchecked:
            rows = [row.name for row in table.rows if defined.code in table.codes(row)]
            asked = "no case checks it" if defined.holds is None else "cases do not ask all of it"
            yield f"{defined.code}: {asked} in {_counted(rows)}: {defined.unchecked}"


def _of_row(table: Table, row: Row) -> list[Coverage]:
    """How its cases cover the row's limits; of a refused row nothing. Raises what cases cannot be made for."""
    refused = row in table.refused
    alone = replace(table, rows=() if refused else (row,), refused=(row,) if refused else (), rewritten=())
    cases = all_cases(alone)
    return [] if refused else coverage(alone, cases)


def _left_out(table: Table, row: Row) -> Iterator[str]:
    """Predicates that say nothing of programs which leave out an argument, as torch lets them."""
    for code in dict.fromkeys(table.codes(row)):
        defined = table.own.definition(code)
        for name in () if defined is None or defined.holds is None else silent_without(row.name, defined.holds):
            yield (
                f"{row.name}: {code}: found nothing about programs without {name!r}, which torch allows: "
                f"expected '{name} is None or ...' where they keep it, or '{name} is not None and ...'"
            )


def _counted(rows: list[str]) -> str:
    return rows[0] if len(rows) == 1 else f"{len(rows)} rows"
