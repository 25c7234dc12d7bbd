"""ExecuTorch's own backends as backends of the suite."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("executorch", reason="the adapter needs the extra `executorch`")
pytest.importorskip("torchao", reason="ExecuTorch's XNNPACK backend needs it")

from click.testing import CliRunner

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cli import main
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table
from npu_assay.conformance.verify.verification import verify

XNNPACK = {
    "aten.add.Tensor/static_int8/operator/accept/baseline": "",
    "aten.linear.default/dynamic_int8/operator/accept/baseline": "",
    "aten.linear.default/dynamic_int4/operator/accept/baseline": "",
    "aten.conv2d.default/fp32/operator/accept/baseline": "",
    "aten.sub.Tensor/fp16/operator/accept/open_axis_0_and_1_and_2_and_3": "",
    "aten.tanh.default/fp16/max_rank/outside/rank_7": "accept, expected reject for max_rank",
    "dim_order_ops._to_dim_order_copy.default/fp32/operator/accept/baseline": "is already in the inputs",
}
"""Cases, and what is found wrong; nothing in those without."""
TOSA = {
    "aten.add.Tensor/int8/operator/accept/baseline": "",
    "aten.linear.default/int8_per_channel/operator/accept/baseline": "",
    "aten.amax.default/int8/operator/accept/baseline": "",
    "aten.max_pool2d.default/int8/operator/context/channels_last": "",
    "aten.cat.default/int8/operator/context/channels_last": "",
}


def case_of(table: str, name: str) -> Case:
    return next(case for case in all_cases(load_table(table)) if case.id == name)


def result(backend: str, name: str) -> CaseResult:
    found = load_backend(f"executorch:{backend}")
    return run_case(case_of(found.table, name), found, load_table(found.table))


def check(found: CaseResult, wrong: str) -> None:
    messages = "; ".join(failure.message for failure in found.failures)
    assert wrong in messages
    assert (found.status == "pass") == (not wrong), messages
    assert found.partitions == 1 or wrong


@pytest.mark.long
@pytest.mark.parametrize("name", XNNPACK)
def test_xnnpack(name: str) -> None:
    check(result("xnnpack", name), XNNPACK[name])


@pytest.mark.long
@pytest.mark.parametrize("backend", ["ethos-u55", "ethos-u85", "arm-tosa"])
@pytest.mark.parametrize("name", TOSA)
def test_arm(name: str, backend: str) -> None:
    pytest.importorskip("tosa_reference_model", reason="it runs the flatbuffers")
    check(result(backend, name), TOSA[name])


def test_what_the_reference_model_refuses_is_told_alike_each_time() -> None:
    """Its message holds nothing of the process, as a debugger's view of it would."""
    pytest.importorskip("tosa_reference_model", reason="it runs the flatbuffers")
    name = "aten.linear.default/int8_per_channel/weight_axis/outside/inputs"
    found, again = (result("ethos-u85", name).failures for _ in range(2))
    (refused,) = (failure.message for failure in found if failure.check == "crash")
    assert "Invalid TOSA graph" in refused and "wrong size multiplier array" in refused
    assert "debugger" not in refused and "gdb" not in refused
    assert found == again


@pytest.mark.long
def test_a_certificate_of_the_usual_form(tmp_path: Path) -> None:
    """Without variations: the release takes a result of 16 bits, and then fails to compile it."""
    chosen = ("-k", "aten.relu and baseline", "--variations", "none", "-n", "1", "--out", str(tmp_path / "out"))
    done = CliRunner().invoke(main, ["certify", "executorch:xnnpack", *chosen])
    assert done.exit_code == 0, done.output
    certificate = json.loads((tmp_path / "out/certificate.json").read_text())
    assert certificate["backend"]["name"] == "executorch:xnnpack"
    assert certificate["environment"]["executorch"] and certificate["counts"]["fail"] == 0
    assert verify(tmp_path / "out", datetime.date.today()).problems == ()


def test_passes_are_set_up_when_they_run() -> None:
    from npu_assay.conformance.adapters.executorch.lazy_passes import idle
    from npu_assay.conformance.adapters.executorch.silence import quiet

    with quiet():
        from executorch.exir.pass_base import ExportPass

    class Doubled(ExportPass):  # type: ignore[misc]  # executorch may be missing
        def call_operator(self, op, args, kwargs, meta):  # type: ignore[no-untyped-def]  # as in the class above it
            result = super().call_operator(op, args, kwargs, meta)
            return super().call_operator(torch.ops.aten.add.Tensor, (result, result), {}, meta)

    class Given(ExportPass):  # type: ignore[misc]  # the same
        def __init__(self) -> None:
            super().__init__()
            self.node_debug_str = "mine"

    usual = ExportPass()
    with idle():
        late, given = Doubled(), Given()
    assert "tracer" in vars(usual) and "tracer" in vars(ExportPass()) and "tracer" not in vars(late)
    module = torch.export.export(torch.nn.ReLU(), (torch.ones(3),)).graph_module
    x = torch.tensor([-1.0, 2.0, 3.0])
    assert torch.equal(late(module).graph_module(x)[0], 2 * x.relu())
    assert given.tracer is given.tracer and given.node_debug_str == "mine"
    with pytest.raises(AttributeError, match="'Given' object has no attribute 'nothing'"):
        given.nothing  # noqa: B018  (reading is the test)
