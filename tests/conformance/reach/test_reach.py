"""From an nn.Module to a running program: what own backends meet, and what broken ones are told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from click.testing import CliRunner
from torch.export import ExportedProgram

from npu_assay.conformance.cli import main
from npu_assay.conformance.programs.build import model_inputs, module
from npu_assay.conformance.programs.float_form import plain_module
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.programs.module_form import as_written
from npu_assay.conformance.reach.flow import Lowered, NoWay, OwnFlow
from npu_assay.conformance.reach.walk import DELEGATED, ERROR, LEFT, NO_WAY, WRONG, differing, walk
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir import Partitioner, PartitionResult
from npu_assay.partitioners.neutron import backend as neutron
from npu_assay.partitioners.xnnpack import backend as xnnpack

pytest.importorskip("torchao", reason="no torchao: pip install 'npu-assay[quantize]'")
CASES = {case.id: case for name in ("neutron@1.3", "xnnpack@1.5") for case in all_cases(load_table(name))}
CONV = "aten.convolution.default/operator/accept/baseline"
ABS = "aten.abs.default/operator/context/before_abs"
LINEAR = "aten.linear.default/dynamic_int8/operator/accept/baseline"
HALF = "aten.abs.default/fp16/operator/accept/baseline"


@dataclass(frozen=True)
class Steps:
    """Our own steps, of which one can fail."""

    own: OwnFlow
    fails: str = ""
    strict: ClassVar[bool] = False

    def quantizer(self, kind: str) -> Any:
        if self.fails == "no way":
            raise NoWay("no quantizer")
        return self.own.quantizer(kind)

    def lower(self, program: Any, options: Any) -> Lowered:
        if self.fails == "lower":
            raise RuntimeError("cannot lower")
        return self.own.lower(program, options)

    def run(self, handle: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
        found = self.own.run(handle, inputs)
        if self.fails == "numbers":
            return [x + x.abs().max() / 20 for x in found or ()]
        return None if self.fails == "nothing runs" else found


def named(name: str) -> Case:
    return CASES[name]


@pytest.mark.parametrize("name", [CONV, ABS])
def test_a_model_in_real_numbers_is_quantised_and_delegated(name: str) -> None:
    met = walk(named(name), OwnFlow(neutron))
    assert (met.end, met.stage, met.targets) == (DELEGATED, "run", ())
    assert met.delegates == 1


def test_a_step_is_that_of_the_output() -> None:
    """A mean on Neutron has the scale of its input, which is large beside what it gives."""
    assert walk(named("aten.mean.dim/operator/context/before_abs"), OwnFlow(neutron)).end == DELEGATED


@pytest.mark.parametrize("name", [LINEAR, HALF])
def test_precisions_of_xnnpack(name: str) -> None:
    assert walk(named(name), OwnFlow(xnnpack)).end == DELEGATED


def test_a_partitioner_that_takes_nothing_leaves_the_operator() -> None:
    class Nothing(Partitioner):
        def partition(self, exported_program: ExportedProgram) -> PartitionResult:
            return PartitionResult(exported_program, {})

    met = walk(named(ABS), OwnFlow(replace(neutron, partitioner=Nothing)))
    assert (met.end, met.targets, met.delegates) == (LEFT, ("aten.abs.default",), 0)


@pytest.mark.parametrize(
    ("fails", "end", "stage"),
    [
        ("lower", ERROR, "lower"),
        ("numbers", WRONG, "numbers"),
        ("no way", NO_WAY, "quantize"),
        ("nothing runs", DELEGATED, "run"),
    ],
)
def test_a_step_that_fails_is_told(fails: str, end: str, stage: str) -> None:
    met = walk(named(ABS), Steps(OwnFlow(neutron), fails))
    assert (met.end, met.stage) == (end, stage)
    assert met.is_fault == (end in (ERROR, WRONG))


@pytest.mark.parametrize("name", [CONV, LINEAR])
def test_the_module_has_no_codes_and_the_same_meaning(name: str) -> None:
    graph = named(name).graph
    plain, inputs = plain_module(graph), model_inputs(graph)
    targets = [str(node.target) for node in plain.graph.nodes]  # type: ignore[union-attr]
    assert not [target for target in targets if "quantize" in target or "choose_qparams" in target]
    (given,), (codes,) = plain(*inputs), module(graph)(*inputs)
    assert (given - codes).abs().max() <= codes.abs().max() / 2  # codes clip and round


def test_a_batch_norm_is_folded_into_weights_that_had_codes() -> None:
    """Weights are parameters, as in torch.nn: folding writes them back as such."""
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e
    from torchao.quantization.pt2e.quantizer import Quantizer

    class Nothing(Quantizer):  # type: ignore[misc]
        def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
            return model

        def validate(self, model: torch.fx.GraphModule) -> None:
            """Nothing is quantized."""

    graph = CASES["aten.conv1d.default/static_int8/operator/context/batch_norm_after"].graph
    plain, inputs = plain_module(graph), model_inputs(graph)
    prepared = prepare_pt2e(torch.export.export(plain, inputs).module(), Nothing())
    assert not [node for node in prepared.graph.nodes if "batch_norm" in str(node.target)]
    torch.testing.assert_close(prepared(*inputs), plain(*inputs))


WRITTEN = {
    "aten._softmax.default": "aten.softmax.int",
    "aten.constant_pad_nd.default": "aten.pad.default",
    "aten.conv1d.default": "aten.conv1d.default",
    "aten.conv2d.default": "aten.conv2d.default",
    "aten.permute_copy.default": "aten.permute.default",
    "aten.slice_copy.Tensor": "aten.slice.Tensor",
}
"""Rows of the table of XNNPACK, whose cases in float32 need no quantizer, and their operators in a module."""


@pytest.mark.parametrize("row", WRITTEN)
def test_operators_are_those_of_torch_nn_and_compute_the_same(row: str) -> None:
    start = f"{row}/fp32/operator/"
    cases = [case for name, case in CASES.items() if name.startswith(start) and "quantize" not in name]
    found = set()
    for case in cases:
        plain, inputs = plain_module(case.graph), model_inputs(case.graph)
        found |= {str(node.target) for node in plain.graph.nodes}  # type: ignore[union-attr]
        for given, wanted in zip(plain(*inputs), module(case.graph)(*inputs), strict=True):
            torch.testing.assert_close(given, wanted, rtol=0, atol=0, equal_nan=True)
    assert WRITTEN[row] in found and not found & {"aten.convolution.default", *(WRITTEN.keys() - WRITTEN.values())}


def test_a_transposed_convolution_and_a_copy_keep_their_arguments() -> None:
    x, w = torch.randn(1, 4, 5, 6), torch.randn(4, 2, 3, 3)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            y = torch.ops.aten.convolution.default(x, w.to(x), None, [2, 3], [1, 0], [2, 1], True, [1, 2], 2)
            return torch.ops.aten.copy.default(y, y.abs()) + y

    traced = torch.fx.symbolic_trace(Model())
    wanted = traced(x)
    as_written(traced)
    traced.recompile()
    names = [str(node.target) for node in traced.graph.nodes]
    assert "aten.conv_transpose2d.input" in names and "aten.copy_.default" in names
    assert torch.equal(traced(x), wanted)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("given", "wanted", "step", "agree"),
    [
        ([1.0, 2.0], [1.0, 2.0], None, True),
        ([1.0, 2.01], [1.0, 2.0], None, False),
        ([1.0, 2.01], [1.0, 2.0], 0.0, True),
        ([1.0, 2.1], [1.0, 2.0], 0.0, False),
        ([1.0, 2.1], [1.0, 2.0], 0.03, True),
        ([1.0, 2.2], [1.0, 2.0], 0.03, False),
        ([NAN, 2.0], [NAN, 2.0], None, True),
        ([0.0, 2.0], [NAN, 2.0], None, False),
        ([-INF, 2.0], [INF, 2.0], None, False),
        ([NAN, 2.0], [1.0, 2.0], None, False),
    ],
)
def test_numbers_agree_within_bounds(given: list[float], wanted: list[float], step: float | None, agree: bool) -> None:
    found = differing([torch.tensor(given)], [torch.tensor(wanted)], step)
    assert (found is None) == agree


def test_other_shapes_types_and_counts_differ() -> None:
    one = torch.tensor([1, 2])
    assert differing([one], [one], None) is None
    assert differing([one], [one + 1], None)
    assert differing([one.float()], [one], None)
    assert differing([one.reshape(2, 1)], [one], None)
    assert differing([], [one], None)


BROKEN = """
import os, time
from dataclasses import replace
from npu_assay.conformance.reach.flow import OwnFlow
from npu_assay.partitioners.neutron import backend


class Dies(OwnFlow):
    def run(self, handle, inputs):
        os._exit(3)


class Hangs(OwnFlow):
    def run(self, handle, inputs):
        time.sleep(60)


dying = replace(backend, flow="broken_flows:Dies")
hanging = replace(backend, flow="broken_flows:Hangs")
"""


def asked(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["reach", *arguments])


@pytest.mark.long
def test_the_command_writes_what_was_met(tmp_path: Path) -> None:
    file = tmp_path / "met.jsonl"
    result = asked("neutron", "-k", CONV, "--out", str(file))
    assert (result.exit_code, result.output) == (0, "1 case: 1 delegated\n")
    assert json.loads(file.read_text(encoding="utf-8"))["case"] == CONV


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "said"), [("dying", "its process died (exit code 3)"), ("hanging", "no answer in 10 seconds")]
)
def test_a_process_that_dies_or_hangs_is_one_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    (tmp_path / "broken_flows.py").write_text(BROKEN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    result = asked(f"broken_flows:{name}", "-k", ABS, "--timeout", "10")
    assert result.exit_code == 1
    assert f"  process: {said}\n    {ABS}\n" in result.output


@pytest.mark.long
def test_a_run_in_which_nothing_asked_for_failed_leaves_nothing_to_ask(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ran = CliRunner().invoke(
        main, ["certify", "npu_assay.faults.neutron:bias_dropped", "-k", CONV, "--out", str(folder)]
    )
    assert ran.exit_code == 1
    for arguments, named in (
        (["-k", "abs"], " of -k 'abs'"),
        (["--table", "neutron@1.3", "-k", ABS], f" of -k '{ABS}'"),
    ):
        found = asked("neutron", "--of", str(folder), *arguments)
        assert found.exit_code == 2
        assert (
            found.output == f"assay: --of {folder}: found no case{named} that failed there, expected one to ask about\n"
        )
    assert asked("neutron", "--of", str(folder), "-k", "convolution").output == "1 case: 1 delegated\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("neutron", "-k", "nothing_of_that_name"), "assay: -k 'nothing_of_that_name': matches none of 3913 case ids"),
        (("neutron", "--of", "nowhere"), "nowhere"),
        (("neutron", "-k", CONV, "--out", "/dev/null/met.jsonl"), "/dev/null/met.jsonl: cannot be written"),
    ],
)
def test_usage_errors_are_one_line(arguments: Sequence[str], said: str) -> None:
    result = asked(*arguments)
    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output
