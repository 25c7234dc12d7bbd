"""What adapters of engines share, with engines that need no package: right ones pass, others are found out."""

from __future__ import annotations

import pytest
from engine_runs import checks

from npu_assay.conformance.adapters.engine import REFUSED, Engine, onnx_bytes
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table

RELU = "aten.relu.default/operator/accept/baseline"
UNWRITTEN = "aten.avg_pool2d.default/divisor_override/outside/divisor_override_3"


def result(kind: str, name: str = RELU) -> CaseResult:
    """A case on one of the engines of `engine_jobs`."""
    engine = Engine(
        name=f"test:{kind}",
        table="onnxruntime_cpu@1.31",
        backend_id="OnnxRuntimeCpu",
        program=f"engine_jobs:{kind}",
        refused="the engine must compile the model",
        distributions=(),
        form=onnx_bytes,
        needs=(),
    )
    table = load_table(engine.table)
    return run_case(next(case for case in all_cases(table) if case.id == name), engine.backend(), table)


def test_a_right_engine_passes_and_compiles_what_is_delegated_once() -> None:
    found = result("right")
    assert (found.verdict, found.status, found.partitions) == ("accept", "pass", 1)


def test_what_has_no_form_is_refused_by_its_constraint() -> None:
    found = result("right", UNWRITTEN)
    assert (found.verdict, found.status) == ("reject", "pass")
    assert found.reasons is not None and {reason.code for reason in found.reasons} == {"divisor_override"}


@pytest.mark.long
@pytest.mark.parametrize(("kind", "check"), [("lying", "gate1"), ("dying", "crash"), ("refusing", "tag")])
def test_other_engines_are_found_out(kind: str, check: str) -> None:
    found = result(kind)
    assert found.status == "fail" and check in checks(found)


def test_a_refusal_says_what_the_engine_said() -> None:
    found = result("refusing")
    assert found.reasons is not None and {reason.code for reason in found.reasons} == {REFUSED}
    assert any("not this model" in failure.message for failure in found.failures)
