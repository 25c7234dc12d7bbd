"""What gate 3 allows is recorded and true, narrow where operands are known exactly, and listed where it is wide."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import fake_backend
import pytest
import torch
from rich.console import Console
from torch import Tensor

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.judge.integer_golden import affine
from npu_assay.conformance.judge.numerics import Golden, golden, judge
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.results import METRICS, CaseResult, Number
from npu_assay.conformance.report.bounds import WideBounds, wide_bounds
from npu_assay.conformance.report.console import summary
from npu_assay.conformance.report.data import Report, make_report
from npu_assay.conformance.report.render import html, markdown
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table
from npu_assay.conformance.verify.metrics import metric_problems
from npu_assay.reference.golden import Bounded, codes_at_run_time
from tests.conformance.record.test_package import run

BEHIND_LINEAR = "aten.linear.default/static_int8/operator/context/behind_linear"
THEN_CLAMP = "aten.linear.default/dynamic_int8/operator/context/then_clamp"
FLOAT16 = "aten.conv2d.default/fp16/operator/accept/baseline"
SCHEME = "xnnpack_fp32"
CASES = all_cases(load_table(fake_backend.TABLE))
OTHERS = ("not_constant", "not_saturated", "gate1", "gate2", "gate4")


@cache
def of_xnnpack() -> dict[str, Case]:
    return {case.id: case for case in all_cases(load_table(load_backend("xnnpack").table))}


def observed(case: Case) -> CaseResult:
    backend = load_backend("xnnpack")
    result = run_case(case, backend, load_table(backend.table))
    assert not result.failures
    return result


def number(value: Number) -> float:
    assert isinstance(value, float)
    return value


@pytest.mark.parametrize(
    ("case", "metric", "most"),
    [
        (BEHIND_LINEAR, "bound_lsb", 2.0),
        (BEHIND_LINEAR.replace("int8", "int8_per_channel"), "bound_lsb", 2.0),
        (THEN_CLAMP, "bound_share", 0.01),
        (THEN_CLAMP.replace("int8", "int4"), "bound_share", 0.01),
        (THEN_CLAMP.replace("clamp", "sigmoid"), "bound_share", 0.01),
        ("aten.conv2d.default/dynamic_int8/operator/accept/kernel_is_the_image", "bound_share", 0.01),
    ],
)
def test_bounds_are_narrow_where_the_operands_are_known(case: str, metric: str, most: float) -> None:
    result = observed(of_xnnpack()[case])
    assert 0 < number(result.metrics[metric]) <= most
    assert not list(metric_problems(result))


@pytest.mark.parametrize("name", [BEHIND_LINEAR, THEN_CLAMP, FLOAT16])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_output_further_off_than_its_recorded_bound_fails_gate_3_alone(name: str, sign: int) -> None:
    case = of_xnnpack()[name]
    right, metrics = golden(case.graph), observed(case).metrics
    (failure,) = [
        gate for gate in judge(right, [beyond(right, metrics, sign)], SCHEME, without=OTHERS) if gate.messages
    ]
    assert failure.gate == "gate3"
    assert not any(gate.messages for gate in judge(right, [beyond(right, metrics, 0)], SCHEME, without=OTHERS))


def beyond(right: Golden, metrics: dict[str, Number] | object, sign: int) -> Tensor:
    """The float golden's nearest output, one element of it just further off than the bound that a record states."""
    assert isinstance(metrics, dict)
    run_ = right.walk(SCHEME, True)
    last = run_.last[0] or run_.bounded[0]
    output, quant = last.value.clone(), run_.quants[0]
    at = int(last.value.abs().argmin())
    if quant is None:
        wide = run_.bounded[0].value
        extent = max(float(wide.max()), 0.0) - min(float(wide.min()), 0.0)
        output.view(-1)[at] += sign * 1.2 * number(metrics["bound_share"]) * extent
        return output.to(run_.dtypes[0])
    scale = affine(quant).scale32
    output = (output / scale).round()
    output.view(-1)[at] += sign * (math.floor(number(metrics["bound_lsb"]) + 0.5) + 1)
    return (output * scale).to(torch.float32)


def test_exact_reals_that_are_wrong_contradict_the_codes_chosen_at_run_time() -> None:
    """A fault of the integer golden that a backend shares: a thousandth of the range passes gate 1, but not gate 3."""
    case = of_xnnpack()["aten.linear.default/dynamic_int8/operator/accept/baseline"]
    right = golden(case.graph)
    (exact,) = right.reals(SCHEME)
    assert exact is not None
    wrong = (exact + (exact.max() - exact.min()) / 1000).float()
    right.exact(SCHEME).reals[case.graph.outputs[0]] = wrong
    found = {gate.gate for gate in judge(right, [wrong], SCHEME) if gate.messages}
    assert "gate3" in found and "gate1" not in found


def test_codes_at_run_time_are_off_only_at_ties() -> None:
    x = torch.tensor([[-1.0, 0.25, 1.55], [0.0, 0.0, 0.0]], dtype=torch.float64)  # the step is 0.01
    y = codes_at_run_time(Bounded(x), (1,))
    assert torch.allclose(y.value, x, atol=1e-12)
    assert float(y.error.max()) < 1e-5
    tied = codes_at_run_time(Bounded(torch.tensor([[-1.0, 0.255, 1.55]], dtype=torch.float64)), (1,))
    assert [round(float(error), 3) for error in tied.error[0]] == [0.0, 0.01, 0.0]


def test_gate_1_says_what_it_allows() -> None:
    assert observed(of_xnnpack()[BEHIND_LINEAR]).metrics["allowed_lsb"] == 0.0
    assert observed(of_xnnpack()[THEN_CLAMP]).metrics["allowed_lsb"] == 0.0
    assert observed(of_xnnpack()[FLOAT16]).metrics["allowed_lsb"] == "inf"


# ------------------------------------------------------------------------------------ what reports say


def with_bounds(result: CaseResult, **metrics: Number) -> CaseResult:
    return replace(result, metrics={**dict.fromkeys(METRICS), **metrics})


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A run of a backend, three of whose cases have wide bounds."""
    ran = run(tmp_path_factory.mktemp("bounds"))
    accepted = [result for result in ran.results if result.verdict == "accept" and "abs" in result.row][:4]
    wide = (
        with_bounds(accepted[0], allowed_lsb=0.0, bound_lsb=9.0),
        with_bounds(accepted[1], allowed_lsb=1.0, bound_lsb=2.5),
        with_bounds(accepted[2], allowed_lsb="inf", bound_share="inf"),
        with_bounds(accepted[3], allowed_lsb="inf", bound_share=0.01),
    )
    return make_report(ran.certificate, load_table(fake_backend.TABLE), wide, CASES)


def test_wide_bounds_are_listed_by_operator(report: Report) -> None:
    ids = [result.case for result in report.results]
    codes, reals = report.wide
    assert codes == WideBounds("aten.abs.default", "bound_lsb", 2, 1, 2.5, ids[1])
    assert reals == WideBounds("aten.abs.default", "bound_share", 1, 1, math.inf, ids[2])
    assert (codes.text, reals.text) == ("2.5 LSB", "anything")
    assert f"| aten.abs.default | 2 | 1 | 2.5 LSB | `{ids[1]}` |" in markdown(report)
    assert "<h2>Wide bounds</h2>" in html(report)


def test_the_terminal_counts_what_nothing_notices(report: Report, tmp_path: Path) -> None:
    text = io.StringIO()
    summary(Console(file=text, width=200), report, tmp_path)
    assert "2 cases may be off by more than 2 LSB or 1 % of the range unnoticed" in text.getvalue()


def test_narrow_bounds_are_not_listed(report: Report) -> None:
    assert wide_bounds(report.table, report.results[3:]) == ()
