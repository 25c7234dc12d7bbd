"""What is wrong with the names of reasons alone is one symptom, and nothing else is taken for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from limit_tables import neutron

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.record.results import CaseResult, Reason
from npu_assay.conformance.report.findings import find
from npu_assay.conformance.report.other_names import RENAMED, is_renamed, other_names
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import Table, load_table
from tests.conformance.report.test_symptoms import failed

Asked = tuple[str, str, tuple[str, ...]]
"""A row, the constraint that a case breaks, and the names of the reasons that the backend gives."""


def results(*asked: Asked) -> list[CaseResult]:
    return [
        failed("reject", "reject", *(() if reason in codes else ("reason",)), row=row, reason=reason)
        if not codes
        else replace(
            failed("reject", "reject", *(() if reason in codes else ("reason",)), row=row, reason=reason),
            reasons=tuple(Reason(code, "x", "y") for code in codes),
        )
        for row, reason, codes in asked
    ]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ([("add", "alpha_1", ("alpha",))], {("add", "alpha_1"): "alpha"}),
        (
            [("add", "alpha_1", ("alpha", "rank")), ("add", "alpha_1", ("alpha",))],
            {("add", "alpha_1"): "alpha"},
        ),
        (
            [("add", "alpha_1", ("alpha",)), ("conv", "stride_1_or_2", ("strides",))],
            {("add", "alpha_1"): "alpha", ("conv", "stride_1_or_2"): "strides"},
        ),
        # A reason for everything, another constraint of the table, and none at all are no names.
        ([("add", "alpha_1", ("unsupported",)), ("add", "max_rank", ("unsupported",))], {}),
        ([("add", "alpha_1", ("max_rank",)), ("add", "max_rank", ("max_rank",))], {}),
        ([("add", "alpha_1", ("alpha",)), ("add", "alpha_1", ("rank",))], {}),
        ([("add", "alpha_1", ())], {}),
    ],
)
def test_a_name_stands_for_one_constraint(asked: Sequence[Asked], expected: dict[tuple[str, str], str]) -> None:
    known = {"alpha_1", "max_rank", "stride_1_or_2"}
    assert other_names(results(*asked), known) == expected


def test_a_case_with_another_failure_is_not_only_misnamed() -> None:
    (case,) = results(("add", "alpha_1", ("alpha",)))
    names = {("add", "alpha_1"): "alpha"}
    assert is_renamed(case, names)
    assert not is_renamed(
        replace(case, failures=(*case.failures, *failed("reject", "reject", "gate1").failures)), names
    )
    assert not is_renamed(case, {})


def renamed(table: Table, code: str, other: str) -> Table:
    """The table with another name for a constraint."""
    rows = (
        replace(r, constraints=tuple(replace(c, code=other) if c.code == code else c for c in r.constraints))
        for r in table.rows
    )
    return replace(table, rows=tuple(rows))


def test_every_case_that_a_name_fails_is_in_one_finding() -> None:
    """Two constraints of two rows are called otherwise: one finding, which names both."""
    whole = load_table("neutron@1.3")
    rows = tuple(whole.row(name) for name in ("aten.add.Tensor", "aten.mean.dim"))
    table = replace(whole, rows=rows, refused=())
    cases = {case.id: case for case in cases_for(table) if case.reason in ("alpha", "keepdim")}
    other = renamed(renamed(table, "alpha", "alpha_1"), "keepdim", "keepdim_true")
    names = {"alpha": "alpha_1", "keepdim": "keepdim_true"}
    asked = [replace(case, reason=names[str(case.reason)]) for case in cases.values()]
    found = [run_case(case, neutron(), other) for case in asked]
    assert len(found) > 2 and all(result.status == "fail" for result in found)
    (finding,) = find(found, {case.id: case for case in asked}, set(), other)
    assert finding.symptom.what == RENAMED and len(finding.cases) == len(found)
    assert "'alpha' is the table's 'alpha_1'" in finding.symptom.look
    assert "'keepdim' is the table's 'keepdim_true'" in finding.symptom.look
