"""The coverage report, and that every constraint of the shipped tables has cases on both sides."""

from __future__ import annotations

from conformance.cases import cases_for
from conformance.coverage import KNOWN_HOLES, coverage, failures, report
from conformance.table import load_table

TABLE = load_table("neutron@1.3")
CASES = cases_for(TABLE)
RELU, ALONE = "aten.relu.default", "alone_channels_multiple_of"


def test_every_constraint_has_both_sides() -> None:
    assert failures(coverage(TABLE, CASES)) == []


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
    assert KNOWN_HOLES.keys() <= {(record.row, record.constraint) for record in coverage(TABLE, CASES)}


def test_report_has_a_line_per_constraint_and_a_total() -> None:
    lines = report(TABLE, CASES).splitlines()
    assert len(lines) == 2 + len(coverage(TABLE, CASES))
    assert lines[0].split() == ["operator", "constraint", "inside", "at", "limit", "outside", "open"]
    assert any(line.startswith("aten.mm.default") and "torch refuses" in line for line in lines)
    assert lines[-1].startswith(f"{len(CASES)} cases")
