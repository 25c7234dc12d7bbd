"""What a record measures must be within the limits of the gates that did not fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import fake_backend
import pytest

from npu_assay.conformance.judge.known_limits import KnownLimits
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.results import CaseResult, Number
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table
from npu_assay.conformance.verify.metrics import limit_problem, metric_problems
from npu_assay.conformance.verify.result import result_problem
from tests.conformance.record.test_package import run

CASES = {case.id: case for case in all_cases(load_table(fake_backend.TABLE))}
SCHEME = "tflite_double_round"


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> CaseResult:
    results = run(tmp_path_factory.mktemp("good")).results
    return next(r for r in results if r.verdict == "accept" and r.metrics["sqnr_db"] is not None)


@pytest.fixture(scope="module")
def drifting(tmp_path_factory: pytest.TempPathFactory) -> CaseResult:
    """One that gate 1 alone fails."""
    results = run(tmp_path_factory.mktemp("bad"), "drifts").results
    return next(r for r in results if {f.check for f in r.failures} & {"gate2"} and r.verdict == "accept")


def measured(result: CaseResult, name: str, value: Number) -> CaseResult:
    return replace(result, metrics={**result.metrics, name: value})


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("worst_ratio_to_bound", "inf", "worst_ratio_to_bound is 'inf', expected a finite float of gate3"),
        ("worst_ratio_to_bound", 5, "worst_ratio_to_bound is 5, expected a finite float of gate3"),
        ("worst_ratio_to_bound", 1.5, "worst_ratio_to_bound is 1.5, gate3 allows 0 to 1, but no failure is recorded"),
        ("worst_ratio_to_bound", -1.0, "worst_ratio_to_bound is -1, gate3 allows 0 to 1"),
        ("sqnr_db", -10.0, "sqnr_db is -10, below its floor"),
        ("sqnr_floor_db", None, "below its floor none, but no failure of gate4"),
        ("sqnr_floor_db", 1e6, "below its floor 1e+06, but no failure of gate4"),
        ("max_lsb", 0.5, "max_lsb is 0.5, expected a whole number"),
        ("max_lsb", 0, "max_lsb is 0, expected a finite float of gate1"),
        ("bias", "nan", "bias is 'nan', expected a finite float of gate2"),
        ("off_by_one_rate", 1.5, "off_by_one_rate is 1.5, expected a share from 0 to 1"),
    ],
)
def test_a_metric_that_its_gate_excludes_is_a_problem(
    name: str, value: Number, problem: str, accepted: CaseResult
) -> None:
    assert result_problem(accepted, CASES[accepted.case]) is None
    found = result_problem(measured(accepted, name, value), CASES[accepted.case])
    assert found is not None and problem in found


@pytest.mark.parametrize("value", ["", "0", -1, "nan"])
def test_the_distance_from_a_limit_is_a_number(value: Number, accepted: CaseResult) -> None:
    edited = replace(accepted, checks={**accepted.checks, "gate1": value})
    assert any("invalid excess" in problem for problem in metric_problems(edited))


def test_a_gate_that_failed_may_measure_anything(drifting: CaseResult) -> None:
    assert list(metric_problems(measured(drifting, "off_by_one_rate", "inf"))) == []


def test_what_a_rejected_case_computes_is_not_measured(accepted: CaseResult) -> None:
    (problem,) = metric_problems(replace(accepted, verdict="reject"))
    assert problem == "metrics are recorded for right outputs that torch computed, expected none"


@pytest.mark.parametrize(
    ("name", "value", "scheme", "problem"),
    [
        ("max_lsb", 1.0, SCHEME, "max_lsb is 1, gate1 allows 0"),
        ("max_lsb", 1.0, None, None),
        ("max_lsb", 2.0, None, "max_lsb is 2, gate1 allows 1"),
        ("off_by_one_rate", 1.0, SCHEME, "off_by_one_rate is 1, gate2 allows 0"),
        ("bias", -0.9, SCHEME, "bias is 0.9, gate2 allows 0"),
    ],
)
def test_the_limits_of_the_codes_are_those_of_the_goldens(
    name: str, value: float, scheme: str | None, problem: str | None, accepted: CaseResult
) -> None:
    case: Case = CASES[accepted.case]
    assert limit_problem(accepted, case, KnownLimits(scheme)) is None
    found = limit_problem(measured(accepted, name, value), case, KnownLimits(scheme))
    assert found is None if problem is None else found is not None and found.startswith(problem)


@pytest.mark.long
def test_records_of_a_run_are_within_all_limits(tmp_path: Path) -> None:
    for name in ("backend", "drifts"):
        for result in run(tmp_path, name).results:
            assert list(metric_problems(result)) == []
            assert limit_problem(result, CASES[result.case], KnownLimits(SCHEME)) is None
