"""Limits that a table defines: the cases that are generated from them tell a backend that keeps them from others."""

from __future__ import annotations

from functools import cache

import pytest
import strict_backend

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.coverage import coverage, failures
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import load_table

STRICT = load_table(strict_backend.TABLE)
OWN = {rule.code for rule in STRICT.own.definitions if rule.holds is not None}
LIMITED = sorted((row.name, c.code) for row in STRICT.rows for c in row.constraints)


@cache
def cases() -> tuple[Case, ...]:
    return cases_for(STRICT)


def about(row: str, code: str) -> list[Case]:
    return [case for case in cases() if (case.row, case.constraint) == (row, code)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("row", [row.name for row in STRICT.rows])
def test_a_backend_that_keeps_every_limit_passes_every_case(row: str) -> None:
    failed = {}
    for case in (case for case in cases() if case.row == row):
        result = run_case(case, strict_backend.backend, STRICT)
        if result.failures:
            failed[case.id] = [f"{f.check}: {f.message}" for f in result.failures]
    assert not failed


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("row", "code"), LIMITED)
def test_a_forgotten_limit_fails_every_case_outside_it(row: str, code: str) -> None:
    forgetful = strict_backend.without(code)
    outside = [case for case in about(row, code) if case.side == "outside"]
    assert outside
    for case in outside:
        assert any(f.check == "tag" for f in run_case(case, forgetful, STRICT).failures), case.id


def test_every_limit_has_cases_on_both_sides_or_a_reason() -> None:
    records = [record for record in coverage(STRICT, cases()) if record.constraint in OWN]
    assert not failures(records)


def test_what_no_case_can_reach_has_the_reason_of_the_table() -> None:
    (reason,) = {record.known for record in coverage(STRICT, cases()) if record.constraint == "fits"}
    assert reason == "every model of the suite fits"


def test_limits_are_reached_two_at_a_time() -> None:
    """A backend that takes strides of 4 and kernels of 5, but not both at once, fails."""
    both = [case for case in cases() if "/limits_together_" in case.id and case.row == "aten.convolution.default"]
    assert 1 < len(both) < 30
    narrow = strict_backend.backend_that_also_refuses("aten.convolution.default", strict_backend.wide_and_coarse)
    failed = [case.id for case in both if run_case(case, narrow, STRICT).failures]
    assert failed
