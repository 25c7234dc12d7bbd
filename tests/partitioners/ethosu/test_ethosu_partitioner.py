"""The Ethos-U partitioner as a whole: partitions, borders, options, reasons and the report."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from ethosu_graphs import U55, U85, WIDE, Builder, judge, partitioned
from ethosu_programs import random_program
from torch import fx
from torch.export import ExportedProgram
from torch.fx.passes.operator_support import OperatorSupportBase

from npu_assay.partitioners.ethosu.backend import EthosUBackend
from npu_assay.partitioners.ethosu.boundary import connected, without_cycles
from npu_assay.partitioners.ethosu.compile_spec import EthosUCompileSpec
from npu_assay.partitioners.ethosu.partitioner import EthosUPartitioner
from npu_assay.partitioners.ethosu.report import compact, rejection_report
from npu_assay.partitioners.ethosu.support.rules import supported_operators
from npu_assay.partitioners.exir import run_program, to_backend, to_edge
from npu_assay.partitioners.exir.backend import Rejection
from npu_assay.partitioners.exir.ops import DEQUANTIZE, QUANTIZE, edge_op, target_name
from npu_assay.partitioners.exir.program import copy_program
from npu_assay.partitioners.exir.reachability import Reach, in_a_circle

ABS, ADD, SQRT, VIEW = "aten.abs.default", "aten.add.Tensor", "aten.sqrt.default", "aten.view_copy.default"
SIGMOID = "aten.sigmoid.default"


def around(b: Builder) -> list[fx.Node]:
    """Two branches from one operator, of which one goes through sqrt, which nobody supports."""
    x = b.op(ABS, b.input(1, 8))
    return [b.op(ADD, x, b.op(SQRT, x)), b.op("aten.mul.Tensor", x, x)]


def program() -> ExportedProgram:
    b = Builder()
    return b.program(*around(b))


def test_only_tags_change_and_they_are_the_same_every_time() -> None:
    found, before = program(), program()
    first = partitioned(found, EthosUPartitioner(EthosUCompileSpec(U55)))
    again = partitioned(program(), EthosUPartitioner(EthosUCompileSpec(U55)))
    assert first.tags == again.tags and first.partitioner.rejections == again.partitioner.rejections
    for old, new in zip(before.graph.nodes, found.graph.nodes, strict=True):
        assert (old.name, str(old.args), set(new.meta) - set(old.meta) <= {"delegation_tag"}) == (
            new.name,
            str(new.args),
            True,
        )


def test_codes_cross_the_border() -> None:
    verdict = judge(lambda b: b.op(ABS, b.input(1, 8)))
    assert sorted(verdict.tags) == [
        "aten_abs_default",
        "quantized_decomposed_dequantize_per_tensor_default",
        "quantized_decomposed_quantize_per_tensor_default_1",
    ]


def test_an_operator_that_shares_an_operand_with_the_cpu_stays_there() -> None:
    verdict = judge(around)
    assert verdict.of(SQRT) == ["unsupported"]
    assert verdict.of(ADD) == ["real_input"]
    assert verdict.of("aten.mul.Tensor") == ["real_input"]
    assert all(r.found.endswith("is float32") for r in verdict.partitioner.rejections if r.code == "real_input")


@pytest.mark.parametrize("write", [lambda b: b.input(4), lambda b: b.raw_input(4)])
def test_nothing_to_delegate(write: object) -> None:
    verdict = judge(write)  # type: ignore[arg-type]
    assert (verdict.tags, verdict.codes) == ({}, {})


def test_what_computes_nothing_is_not_delegated_alone() -> None:
    verdict = judge(lambda b: b.op(VIEW, b.op("aten.alias_copy.default", b.input(2, 4)), [8]))
    assert verdict.tags == {}
    assert verdict.of(VIEW) == ["not_alone"]
    assert {r.found for r in verdict.partitioner.rejections} == {"one of 2 that compute nothing"}


def test_with_an_operator_that_does_it_is() -> None:
    assert judge(lambda b: b.op(VIEW, b.op(ABS, b.input(2, 4)), [8])).codes == {}


def test_uint8_refuses_the_whole_partition() -> None:
    def write(b: Builder) -> list[fx.Node]:
        unsigned = b.call("aten.permute_copy.default", b.integers(2, 3, dtype=torch.uint8), [1, 0])
        return [unsigned, b.op(ABS, b.input(4))]

    verdict = judge(write, U85)
    assert verdict.tags == {}
    assert verdict.of(ABS) == ["uint8"]


@pytest.mark.parametrize("op", ["aten.gt.Tensor", "aten.logical_and.default"])
def test_truths_of_uint8_are_refused(op: str) -> None:
    """Their results do not show it."""
    unsigned = torch.uint8
    verdict = judge(lambda b: b.call(op, b.integers(4, dtype=unsigned), b.integers(4, dtype=unsigned)), U85)
    assert verdict.of(op) == ["code_dtype"]


class Branch(torch.nn.Module):
    """Looks at its input, and takes one of two ways."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.cond(x.sum() > 0, torch.neg, torch.relu, (x,))
        return found


@pytest.mark.parametrize("target", [U55, U85])
def test_control_flow_stays_with_the_cpu(target: str) -> None:
    x = torch.tensor([1, -2, 5], dtype=torch.int32)
    program = to_edge(torch.export.export(Branch(), (x,))).exported_program()
    partitioner = EthosUPartitioner(EthosUCompileSpec(target))
    lowered = to_backend(program, partitioner)
    assert [r.code for r in partitioner.rejections if r.target == "cond"] == ["control_flow"]
    for sign in (1, -1):
        assert torch.equal(run_program(lowered, [sign * x])[0], Branch()(sign * x))


def test_constants_go_along() -> None:
    verdict = judge(lambda b: b.conv(b.input(1, 8, 4, 4), b.weight(8, 8, 1, 1), b.bias(8)))
    assert {verdict.tags["c0"], verdict.tags["c1"]} == {"tag0"}


def test_every_reason_is_kept() -> None:
    def write(b: Builder) -> fx.Node:
        node = b.call("aten.avg_pool2d.default", b.input(2, 8, 9, 9, q=(0.1, 0, 0, 255, torch.uint8)), [4, 4], [4, 4])
        node.meta.pop("custom")
        return b.quantised(node)

    found = judge(write).of("aten.avg_pool2d.default")
    assert found == ["quantized", "stride", "batch", "io_dtype"]


def test_a_selected_result_has_its_operators_reasons() -> None:
    write = lambda b: b.max_pool(b.input(1, 8, 300, 4), [257, 1], [1, 1])  # noqa: E731
    verdict = judge(write)
    assert [(r.node, r.code) for r in verdict.partitioner.rejections] == [
        ("aten_max_pool2d_with_indices_default", "kernel_height"),
        ("getitem", "kernel_height"),
    ]


# ------------------------------------------------------------------------------------ options


class NotAdd(OperatorSupportBase):
    """No additions."""

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        return target_name(node.target) != ADD


def test_additional_checks_are_named() -> None:
    b = Builder()
    found = b.program(b.op(ADD, b.input(4), b.op(ABS, b.input(4)), alpha=2))
    partitioner = EthosUPartitioner(EthosUCompileSpec(U55), [NotAdd()])
    verdict = partitioned(found, partitioner)
    assert verdict.of(ADD) == ["alpha", "additional_check"]
    assert partitioner.rejections[-1].found == "NotAdd"
    assert "aten_abs_default" in verdict.tags


def test_registered_operators_are_delegated_and_kept_whole() -> None:
    partitioner = EthosUPartitioner(EthosUCompileSpec(U55))
    partitioner.register_custom_partition_op(torch.ops.aten.sqrt.default)
    verdict = partitioned(program(), partitioner)
    assert "aten_sqrt_default" in verdict.tags
    operators, keep = partitioner.ops_to_not_decompose(verdict.program)
    assert torch.ops.aten.sqrt.default in operators and keep is not None
    assert keep(next(n for n in verdict.program.graph.nodes if target_name(n.target) == SQRT))


# ------------------------------------------------------------------------------------ cycles


def a_graph(edges: dict[str, str]) -> tuple[Reach, dict[str, fx.Node]]:
    """Nodes by letter; of each the letters of its operands."""
    graph = fx.Graph()
    nodes: dict[str, fx.Node] = {}
    for name, sources in edges.items():
        nodes[name] = graph.call_function(edge_op(ABS), tuple(nodes[s] for s in sources), name=name)
    return Reach(graph), nodes


def pieces(edges: dict[str, str], inside: str) -> list[str]:
    reach, nodes = a_graph(edges)
    found = without_cycles(frozenset(nodes[name] for name in inside), reach)
    return ["".join(sorted(node.name for node in piece)) for piece in found]


def test_a_partition_without_cycles_stays_whole() -> None:
    assert pieces({"a": "", "b": "a", "c": ""}, "abc") == ["abc"]


def test_a_cycle_is_cut_into_what_hangs_together() -> None:
    assert pieces({"a": "", "x": "a", "b": "x", "c": "b"}, "abc") == ["a", "bc"]


def test_pieces_that_wait_for_themselves_are_cut_again() -> None:
    """a and b hang together, and b waits for x, which waits for a."""
    assert pieces({"a": "", "x": "a", "b": "ax"}, "ab") == ["a", "b"]


def test_pieces_that_wait_for_each_other_are_cut_again() -> None:
    edges = {"a": "", "p": "", "x": "a", "y": "p", "b": "y", "c": "ab", "q": "x", "r": "pq"}
    found = pieces(edges, "abcpqr")
    assert sorted("".join(found)) == list("abcpqr")
    reach, nodes = a_graph(edges)
    assert not in_a_circle([reach.of(nodes[name] for name in piece) for piece in found])
    assert [len(piece) for piece in connected(reach, frozenset(nodes[name] for name in "abcpqr"))] == [3, 3]


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("activation", [("aten.relu.default",), ("aten.hardtanh.default", 0.0, 6.0)])
def test_no_scale_behind_a_fused_activation_ends_the_partitioner(scale: float, activation: tuple[Any, ...]) -> None:
    name, *limits = activation

    def write(b: Builder) -> fx.Node:
        product = b.call("aten.linear.default", b.input(2, 4), b.weight(3, 4))
        return b.op(name, product, *limits, q=(scale, 0, -128, 127, torch.int8))

    assert "scalar_qparams" in judge(write).of(name)


# ------------------------------------------------------------------------------------ the rules' data


def test_what_ethos_u55_has_not_is_refused() -> None:
    assert supported_operators(is_u55=False) > supported_operators(is_u55=True)
    assert judge(lambda b: b.call("aten.gt.Tensor", b.input(4), b.input(4))).of("aten.gt.Tensor") == ["unsupported"]
    assert judge(lambda b: b.call("aten.gt.Tensor", b.input(4), b.input(4)), U85).codes == {}
    assert len(supported_operators(is_u55=False) - QUANTIZE - DEQUANTIZE) > 110


@pytest.mark.parametrize("target", [U55, U85])
def test_int16(target: str) -> None:
    verdict = judge(lambda b: b.op(SIGMOID, b.op(ADD, b.input(4, q=WIDE), b.input(4, q=WIDE), q=WIDE), q=WIDE), target)
    assert verdict.codes == {}


# ------------------------------------------------------------------------------------ the report


def hundred(b: Builder) -> list[fx.Node]:
    """A hundred rejected operators, for five reasons."""
    made = [b.op(SQRT, b.input(1, size + 1)) for size in range(40)]
    made += [b.call("aten.softmax.int", b.raw_input(1, 8), -1) for _ in range(20)]
    made += [b.op(ADD, b.input(8), b.input(8), alpha=2) for _ in range(20)]
    made += [b.op("aten.mm.default", b.input(2, 2, q=WIDE), b.input(2, 2, q=WIDE), q=WIDE) for _ in range(10)]
    return [*made, *(b.op("aten.avg_pool2d.default", b.input(2, 1, 9, 9), [2, 2], [4, 4]) for _ in range(10))]


def test_a_hundred_rejections_are_readable_in_80_columns() -> None:
    verdict = judge(hundred)
    lines = verdict.partitioner.report().splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 60
    heads = [line for line in lines if re.fullmatch(r"\w+: \d+ nodes", line)]
    assert heads == [
        "unsupported: 60 nodes",
        "alpha: 20 nodes",
        "code_dtype: 10 nodes",
        "stride: 10 nodes",
        "batch: 10 nodes",
    ]
    text = " ".join("".join(lines).split())
    assert "_1.._39" in text.replace(" ", "")
    assert len({r.node for r in verdict.partitioner.rejections}) == 100


HUNDRED = """\
unsupported: 60 nodes
the NPU has no such operator

 Operator            Nodes                        Found
 ──────────────────────────────────────────────────────────────────
 aten.sqrt.default   aten_sqrt_default, _1.._39   aten.sqrt.default
 aten.softmax.int    aten_softmax_int, _1.._19    aten.softmax.int

alpha: 20 nodes
alpha must be 1

 Operator          Nodes                      Found
 ──────────────────────────────────────────────────────
 aten.add.Tensor   aten_add_tensor, _1.._19   alpha = 2

code_dtype: 10 nodes
the values must be int8

 Operator          Nodes                     Found
 ─────────────────────────────────────────────────
 aten.mm.default   aten_mm_default, _1.._9   int16

stride: 10 nodes
the stride must be 1 to 3

 Operator                  Nodes                         Found
 ──────────────────────────────────────────────────────────────────────────────
 aten.avg_pool2d.default   aten_avg_pool2d_default,      kernel 2x2, stride 4x4
                           _1.._9

batch: 10 nodes
the batch size must be 1

 Operator                  Nodes                             Found
 ────────────────────────────────────────────────────────────────────────
 aten.avg_pool2d.default   aten_avg_pool2d_default, _1.._9   batch size 2
(Placeholders and outputs are not listed.)"""
"""What the log has of a model with a hundred rejected nodes."""


def test_a_hundred_rejections_are_logged_by_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="npu_assay.partitioners.ethosu.partitioner"):
        judge(hundred)
    title, _, table = caplog.messages[-1].partition("\n")
    assert title == "Nodes rejected for TOSA-1.0+INT+int16+int4+u55:"
    assert table == HUNDRED


def test_the_report_is_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    spec = EthosUCompileSpec(U55).dump_intermediate_artifacts_to(str(tmp_path / "new"))
    with caplog.at_level(logging.INFO, logger="npu_assay.partitioners.ethosu.partitioner"):
        EthosUPartitioner(spec).partition(program())
    assert "Partitioning for EthosUBackend: TOSA-1.0+INT+int16+int4+u55" in caplog.text
    assert "unsupported: 1 node\n" in caplog.text
    assert "aten_sqrt_default" in (tmp_path / "new" / "partition_report.txt").read_text()


def test_the_report_is_written_where_nothing_is_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with caplog.at_level(logging.ERROR, logger="npu_assay.partitioners.ethosu.partitioner"):
        EthosUPartitioner(EthosUCompileSpec(U55).dump_intermediate_artifacts_to(str(tmp_path))).partition(program())
    assert not caplog.messages and "aten_sqrt_default" in (tmp_path / "partition_report.txt").read_text()


def test_nothing_rejected() -> None:
    assert rejection_report([]) == "No nodes rejected."


def test_brackets_are_no_styles() -> None:
    assert "[bold] of rank 4" in rejection_report(
        [Rejection("n", "aten.flip.default", "dims", "[bold] of rank 4", "s")]
    )


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["abs"], "abs"),
        (["abs", "abs_1", "abs_2", "abs_4"], "abs, _1.._2, _4"),
        (["abs_3", "abs_4"], "abs_3.._4"),
        (["abs_7", "neg"], "abs_7, neg"),
    ],
)
def test_names_are_put_together(names: list[str], text: str) -> None:
    assert compact(names) == text


# ------------------------------------------------------------------------------------ accepted means that it compiles


def test_what_is_accepted_compiles() -> None:
    """Random programs for both targets: no delegate is refused by the compiler."""
    delegates = 0
    for seed in range(40):
        found, target = random_program(seed)
        partitioner = EthosUPartitioner(EthosUCompileSpec(target))
        partitioned(copy_program(found, verify=False), partitioner)
        lowered = to_backend(found, EthosUPartitioner(EthosUCompileSpec(target)))
        delegates += sum(target_name(n.target) == "executorch_call_delegate" for n in lowered.graph.nodes)
    assert delegates > 30
    assert EthosUBackend.__name__ == "EthosUBackend"


def test_a_list_of_compile_specs_is_what_it_was_made_of() -> None:
    """As Arm's document prints the partitioner's argument."""
    spec = EthosUCompileSpec(U85)
    found = EthosUPartitioner(spec.to_list())
    assert found.delegation_spec.compile_specs == spec.to_list()
    assert found.compile_spec.target == spec.target
    with pytest.raises(ValueError, match="compile spec has no"):
        EthosUPartitioner([])
    with pytest.raises(
        TypeError, match="compile_spec is a list, expected an EthosUCompileSpec or a list of CompileSpec"
    ):
        EthosUPartitioner([U85])  # type: ignore[list-item]
