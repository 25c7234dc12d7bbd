"""The coverage report, and that every constraint of the shipped tables has cases on both sides."""

from __future__ import annotations

import pytest

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.coverage import KNOWN_HOLES, coverage, failures, report
from npu_assay.conformance.table import Table, load_table

TABLES = tuple(
    load_table(name) for name in ("neutron@1.3", "neutron@1.4", "xnnpack@1.5", "ethos_u55@1.5", "ethos_u85@1.5")
)
TABLE, TYPED = TABLES[0], TABLES[2]
CASES = cases_for(TABLE)
RELU, ALONE = "aten.relu.default", "alone_channels_multiple_of"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_constraint_has_both_sides_in_every_precision(table: Table) -> None:
    assert failures(coverage(table, cases_for(table))) == []


def test_a_side_that_is_missing_in_one_precision_is_a_failure() -> None:
    cut = [case for case in cases_for(TYPED) if not case.id.startswith("aten.mean.dim/static_int8/dims/outside/")]
    assert failures(coverage(TYPED, cut)) == ["aten.mean.dim/static_int8: dims: no case outside"]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_precision_of_a_row_has_accepted_cases_contexts_and_values(table: Table) -> None:
    found = {(case.row, case.precision, case.side) for case in cases_for(table)}
    pairs = {(row.name, precision) for row in table.rows for precision in row.precisions or (None,)}
    assert {(*pair, side) for pair in pairs for side in ("accept", "context", "value")} - found == set()


def test_a_missing_side_is_a_failure() -> None:
    cut = [case for case in CASES if (case.row, case.constraint, case.side) != (RELU, ALONE, "outside")]
    assert failures(coverage(TABLE, cut)) == [f"{RELU}: {ALONE}: no case outside"]


def test_a_row_without_cases_is_a_failure() -> None:
    cut = [case for case in CASES if case.row != RELU]
    missing = failures(coverage(TABLE, cut))
    assert missing == [f"{RELU}: {code}: no case at limit and outside" for code in TABLE.codes(TABLE.row(RELU))]


def test_a_reason_for_a_hole_that_is_none_is_a_failure() -> None:
    known = {**KNOWN_HOLES, (RELU, ALONE): "cannot be"}
    assert failures(coverage(TABLE, CASES, known)) == [
        f"{RELU}: {ALONE}: listed as a hole (cannot be), but both sides have cases"
    ]


def test_known_holes_name_constraints_of_the_table() -> None:
    records = [record for table in TABLES for record in coverage(table, cases_for(table))]
    assert KNOWN_HOLES.keys() <= {(place, r.constraint) for r in records for place in (r.row, r.row.partition("/")[0])}


def test_report_has_a_line_per_constraint_and_a_total() -> None:
    lines = report(TABLE, CASES).splitlines()
    assert len(lines) == 2 + len(coverage(TABLE, CASES))
    assert lines[0].split() == ["operator", "constraint", "inside", "at", "limit", "outside", "open"]
    assert any(line.startswith("aten.mm.default") and "torch refuses" in line for line in lines)
    assert lines[-1].startswith(f"{len(CASES)} cases")
