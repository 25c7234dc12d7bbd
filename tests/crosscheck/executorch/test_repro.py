"""Reproduction scripts on the installed ExecuTorch: each shows the fault of its case, and none where there is none."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.compare.drift import Drift, drift
from npu_assay.conformance.record.results import CaseResult, Failure, tag_failures
from npu_assay.conformance.repro import script_of
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table

TABLE = load_table("xnnpack@1.5")
CASES = {case.id: case for case in all_cases(TABLE)}
FAULTS = {
    "aten._softmax.default/fp32/operator/context/behind_conv": "output 0 is ",
    "aten.conv1d.default/fp32/operator/context/used_twice": "RuntimeError: Expected 4-dimensional input",
    "aten.abs.default/fp32/max_rank/outside/rank_7": "RuntimeError: ",
    "aten.add.Tensor/static_int8/add_scale_ratio/outside/256": "delegated, but ",
    "aten.avg_pool2d.default/fp32/precision/at_limit/static_quant": "left to the CPU, but the table accepts it",
    "aten.linear.default/static_int8/quantized/outside/float_input": "output 0 is ",
}


def shown(found: Drift, case: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """How a case's script ends, and the last line that it prints."""
    path = folder / "script.py"
    path.write_text(script_of(found, case))
    capfd.readouterr()
    status = 0
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        status = int(str(end.code))
    return status, capfd.readouterr().out.rstrip().splitlines()[-1]


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_real_backend_shows(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    result = run_case(CASES[name], load_backend("executorch:xnnpack"), TABLE)
    found = drift("executorch:xnnpack", TABLE, [result])
    assert len(found.found) == 1
    status, said = shown(found, name, tmp_path, capfd)
    assert status == 1 and said.startswith(f"the fault shows: {FAULTS[name]}")


def invented(name: str, *failures: Failure) -> CaseResult:
    """A result that says of a sound case that it is not."""
    case = CASES[name]
    result = run_case(case, load_backend("executorch:xnnpack"), TABLE)
    assert result.status == "pass"
    verdict = result.verdict if failures else "accept" if result.verdict == "reject" else "reject"
    return replace(result, verdict=verdict, failures=(*tag_failures(case, verdict, None), *failures), status="fail")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "failures"),
    [
        ("aten.abs.default/fp32/operator/accept/baseline", ()),
        ("aten.abs.default/fp32/operator/accept/baseline", (Failure("gate3", "made up"),)),
        ("aten.abs.default/fp32/operator/accept/baseline", (Failure("crash", "made up"),)),
        ("aten.linear.default/static_int8/operator/accept/baseline", (Failure("gate1", "made up"),)),
        ("aten.abs.default/fp32/dtype/outside/float64", ()),
    ],
)
def test_no_fault_shows_where_there_is_none(
    name: str, failures: tuple[Failure, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = drift("executorch:xnnpack", TABLE, [invented(name, *failures)])
    assert shown(found, name, tmp_path, capfd) == (0, "the fault does not show")
