"""ONNX Runtime: models give the goldens within the gates, the adapter says what a session says, findings show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from interchange_runs import Array, run_all
from page_scripts import scripts, shows

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.interchange.export import Request, export
from npu_assay.conformance.interchange.judging import Request as JudgeRequest
from npu_assay.conformance.interchange.judging import judge_folder
from npu_assay.conformance.interchange.onnx_form import onnx_model
from npu_assay.conformance.interchange.onnx_rules import rule
from npu_assay.conformance.programs.build import build, model_inputs
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table

onnxruntime = pytest.importorskip("onnxruntime")
SOME = "baseline or relu.default/operator or bmm.default/operator/accept or softmax.default/operator/accept"
OTHERS = "baseline and (int8 or fp32) and not sigmoid"
"""Its float32 sigmoid is further off than half a step in the last place and what comes with it."""


def as_written(model: Path, inputs: Sequence[Array]) -> Sequence[Array]:
    """The outputs without optimizations: every operator on floats, as the model says."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    found: Sequence[Array] = session.run(
        None, {place.name: array for place, array in zip(session.get_inputs(), inputs, strict=True)}
    )
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("backend", ["neutron:backend", "ethosu:ethos_u85", "xnnpack:backend"])
def test_exported_models_give_the_goldens(backend: str, tmp_path: Path) -> None:
    folder, outputs = tmp_path / "cases", tmp_path / "outputs"
    some = SOME if backend.startswith("neutron") else OTHERS
    manifest = export(Request(f"npu_assay.partitioners.{backend}", "onnx", folder, some))
    assert manifest.cases
    run_all(folder, outputs, as_written)
    report = judge_folder(JudgeRequest(folder, outputs))
    assert [(one.case, one.failures[0].message) for one in report.judgements if one.failures] == []


def test_the_adapter_takes_what_a_session_takes() -> None:
    backend = load_backend("onnxruntime:cpu")
    table = load_table(backend.table)
    cases = {case.id: case for case in all_cases(table)}
    taken = run_case(cases["aten.relu.default/operator/accept/baseline"], backend, table)
    assert (taken.verdict, taken.status, taken.partitions) == ("accept", "pass", 1)
    refused = next(case for case in cases.values() if case.constraint == "divisor_override" and case.expect == "reject")
    found = run_case(refused, backend, table)
    assert (found.verdict, found.status) == ("reject", "pass")
    assert found.reasons is not None and {reason.code for reason in found.reasons} == {"divisor_override"}


@pytest.mark.parametrize("index", range(4))
def test_the_findings_show(index: int, tmp_path: Path) -> None:
    found = scripts("onnxruntime-cpu-1.31.1.md")
    assert len(found) == 4
    assert shows(found[index], tmp_path)


@pytest.mark.parametrize("row", ["amax.default", "mean.dim", "gelu.default", "linear.default", "convolution.default"])
def test_an_older_opset_computes_the_same(row: str) -> None:
    table = load_table("onnxruntime_cpu@1.31")
    ending = f"aten.{row}/operator/accept/baseline", f"aten.{row}/int8/operator/accept/baseline"
    (case,) = [case for case in all_cases(table) if case.id in ending]
    program = build(case.graph, [op for op in table.preserve if rule(op)], table.mark)
    results = []
    for opset in (17, 21):
        session = onnxruntime.InferenceSession(onnx_model(program, "x", opset).SerializeToString())
        feeds = {each.name: x.numpy() for each, x in zip(session.get_inputs(), model_inputs(case.graph), strict=True)}
        results.append(session.run(None, feeds))
    for one, other in zip(*results, strict=True):
        assert (one == other).all()
