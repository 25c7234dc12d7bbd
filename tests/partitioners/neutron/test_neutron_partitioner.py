"""The partitioner as a whole: clusters, partitions, tags, options and the reasons that it gives."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from neutron_graphs import ACTIVATION, UNIT, WEIGHT, Builder, judge, partitioned
from torch import fx
from torch._subclasses import FakeTensorMode
from torch.export import ExportedProgram

from npu_assay.conformance.run.answering import delegates
from npu_assay.partitioners.exir import run_program
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.program import copy_program
from npu_assay.partitioners.exir.qdq import QParams, qparams
from npu_assay.partitioners.exir.transform_and_lower import to_edge_transform_and_lower
from npu_assay.partitioners.neutron.clusters import find_clusters
from npu_assay.partitioners.neutron.compile_spec import generate_neutron_compile_spec
from npu_assay.partitioners.neutron.operators import OPERATORS
from npu_assay.partitioners.neutron.partitioner import NeutronPartitioner
from npu_assay.partitioners.neutron.runtime import NeutronRuntime
from npu_assay.partitioners.neutron.target import HwVersion, NeutronTarget, NeutronTargetSpec

RELU = "aten.relu.default"
ABS = "aten.abs.default"
VIEW = "aten.view_copy.default"


def two_branches() -> ExportedProgram:
    """abs, then exp which nobody supports, then relu; and a linear layer with its weight transposed in the graph."""
    b = Builder()
    x = b.op(ABS, b.input(1, 8))
    y = b.op(RELU, b.op("aten.exp.default", x))
    weight = b.call("aten.permute_copy.default", b.weight(8, 8), [1, 0])
    return b.program(b.op("aten.addmm.default", b.bias(8), y, weight))


def tags(program: ExportedProgram) -> dict[str, str]:
    """Tag by node name."""
    return {n.name: n.meta[DELEGATION_TAG] for n in program.graph.nodes if n.meta.get(DELEGATION_TAG)}


def test_defaults_are_those_of_imxrt700() -> None:
    partitioner = NeutronPartitioner()
    assert partitioner.delegation_spec == ("NeutronBackend", generate_neutron_compile_spec("imxrt700"))
    assert partitioner.neutron_target_spec.get_name() == "imxrt700"
    assert partitioner.preserve_ops == []
    assert partitioner.rejections == []


def test_the_target_is_the_compile_specs() -> None:
    assert NeutronPartitioner(generate_neutron_compile_spec("imxrt700")).neutron_target_spec.get_name() == "imxrt700"


def test_tags_and_what_stays_out() -> None:
    program = two_branches()
    partitioner = NeutronPartitioner()
    result = partitioner.partition(program)
    assert result.tagged_exported_program is program
    assert set(result.partition_tags) == {"tag0", "tag1"}
    assert all(spec == partitioner.delegation_spec for spec in result.partition_tags.values())
    found = tags(program)
    assert found["aten_abs_default"] == "tag0"
    assert {found[n] for n in ("aten_relu_default", "aten_permute_copy_default", "aten_addmm_default", "c0", "c1")} == {
        "tag1"
    }
    assert "x0" not in found
    assert "quantized_decomposed_quantize_per_tensor_default" not in found
    assert [(r.node, r.code) for r in partitioner.rejections] == [("aten_exp_default", "unsupported")]


def test_only_tags_change() -> None:
    program = two_branches()
    before = copy_program(program)
    NeutronPartitioner().partition(program)
    for old, new in zip(before.graph.nodes, program.graph.nodes, strict=True):
        assert (old.name, old.target, str(old.args), str(old.kwargs)) == (
            new.name,
            new.target,
            str(new.args),
            str(new.kwargs),
        )
        assert set(new.meta) - set(old.meta) <= {DELEGATION_TAG}


def test_the_same_program_gets_the_same_tags() -> None:
    partitioner = NeutronPartitioner()
    first, second = two_branches(), two_branches()
    partitioner(first)
    reasons = partitioner.rejections
    partitioner(second)
    assert tags(first) == tags(second)
    assert reasons == partitioner.rejections


def test_an_empty_program() -> None:
    b = Builder()
    verdict = partitioned(b.program(b.raw_input(1, 8)))
    assert (verdict.partitions, verdict.reasons) == (0, ())


@pytest.mark.parametrize(
    ("names", "excluded"),
    [
        (["aten::abs"], ["aten.abs.default"]),
        (["abs"], ["aten.abs.default"]),
        (["aten_addmm_default"], ["aten.addmm.default", "aten.permute_copy.default"]),
        (["aten::add"], ["aten.addmm.default", "aten.permute_copy.default"]),
        (["aten.abs.default"], ["aten.abs.default"]),
        ([" aten::abs "], ["aten.abs.default"]),
        (["aten_abs_default_1"], []),
        (["quantize"], []),
        (None, []),
    ],
)
def test_operators_not_to_delegate(names: list[str] | None, excluded: list[str]) -> None:
    spec = generate_neutron_compile_spec("imxrt700", operators_not_to_delegate=names)
    verdict = partitioned(two_branches(), NeutronPartitioner(spec[::-1]))
    assert sorted(t for t, code in verdict.reasons if code == "excluded") == excluded


def test_an_empty_item_excludes_everything() -> None:
    spec = generate_neutron_compile_spec("imxrt700")
    spec[3].value = b"nothing,"
    verdict = partitioned(two_branches(), NeutronPartitioner(spec))
    assert verdict.tagged == ()


def test_an_excluded_operator_keeps_its_other_reasons() -> None:
    spec = generate_neutron_compile_spec("imxrt700", operators_not_to_delegate=["cat"])
    write: Any = lambda b: b.op("aten.cat.default", [b.input(2, 7), b.input(2, 7)], -1)  # noqa: E731
    assert judge(write, NeutronPartitioner(spec)).codes("aten.cat.default") == ["excluded", "channels_multiple_of"]


def test_selected_results_and_weights_share_the_verdict() -> None:
    partitioner = NeutronPartitioner()
    judge(lambda b: b.max_pool(b.input(2, 8, 8, 8), [2, 2]), partitioner)
    assert [(r.node, r.code) for r in partitioner.rejections] == [
        ("aten_max_pool2d_with_indices_default", "batch"),
        ("getitem", "batch"),
    ]
    assert partitioner.rejections[1].found == "aten_max_pool2d_with_indices_default: batch size 2"


def test_independent_operators_share_a_partition() -> None:
    verdict = judge(lambda b: [b.op(RELU, b.input(1, 7)), b.op(ABS, b.input(1, 7))])
    assert (verdict.partitions, verdict.tagged) == (1, (RELU, ABS))


def test_a_partition_never_closes_a_cycle() -> None:
    def write(b: Builder) -> fx.Node:
        x = b.op(ABS, b.input(1, 8))
        return b.op("aten.add.Tensor", x, b.op("aten.exp.default", x))

    verdict = judge(write)
    assert (verdict.partitions, verdict.tagged) == (2, (ABS, "aten.add.Tensor"))


def test_refusals_spread_until_nothing_is_left_to_refuse() -> None:
    # Without the view, whose neighbors are refused first, the copy is alone, and so it goes too.
    def write(b: Builder) -> fx.Node:
        x = b.op(RELU, b.op("aten.exp.default", b.input(1, 7)))
        x = b.op("dim_order_ops._clone_dim_order.default", b.op("aten.exp.default", x), dim_order=[0, 1])
        return b.op(VIEW, x, [7])

    verdict = judge(write)
    assert verdict.tagged == ()
    assert [code for _, code in verdict.reasons] == [
        "unsupported",
        "alone_channels_multiple_of",
        "unsupported",
        "not_alone",
        "not_alone",
    ]


def test_a_cat_looks_for_its_operands_in_the_partition() -> None:
    def write(b: Builder) -> fx.Node:
        inside = b.op(ABS, b.input(1, 8))
        return b.op("aten.cat.default", [inside, b.input(1, 8)], 1)

    assert judge(write).codes("aten.cat.default") == ["dim_before_axis"]


@pytest.mark.parametrize(("units", "shape", "tagged"), [(4, (1, 4), (RELU,)), (4, (1, 2), ()), (2, (), ())])
def test_other_targets_have_other_multiples(units: int, shape: tuple[int, ...], tagged: tuple[str, ...]) -> None:
    """A number by itself is one channel."""
    target = NeutronTarget("small", False, 1, num_pipes=8, num_macs=units, hw_version=HwVersion.N3)
    partitioner = NeutronPartitioner(
        generate_neutron_compile_spec("imxrt700"), NeutronTargetSpec("small", {"small": target})
    )
    assert judge(lambda b: b.op(RELU, b.input(*shape)), partitioner).tagged == tagged


@pytest.mark.parametrize("padding", [0, 2])
def test_a_transposed_convolution_is_judged_alike_by_name(padding: int) -> None:
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    options: tuple[Any, ...] = ([1, 2], [0, padding], [1, 1], True, [0, 0], 1)

    def write(by_name: bool, b: Builder) -> fx.Node:
        given = (b.input(1, 8, 1, 16), b.weight(8, 16, 1, 2), b.bias(16))
        if by_name:
            return b.op("aten.convolution.default", *given, **dict(zip(names, options, strict=True)))
        return b.op("aten.convolution.default", *given, *options)

    one, other = (judge(partial(write, by_name)) for by_name in (False, True))
    assert (one.tagged, one.reasons) == (other.tagged, other.reasons) and bool(one.tagged) == (padding == 0)


def fake_weights(program: ExportedProgram) -> ExportedProgram:
    """The program as a partitioner sees it that must not read data."""
    mode = FakeTensorMode()
    for name, tensor in program.state_dict.items():
        program.state_dict[name] = mode.from_tensor(tensor)
    return program


def wrong_bias() -> ExportedProgram:
    b = Builder()
    return b.program(b.conv(b.input(1, 3, 8, 8), b.channel_weight(5, 3, 3, 3, scale=0.02), b.bias(5, 0.05 * 0.01)))


def test_data_comes_from_the_post_quantization_state_dict() -> None:
    data = dict(wrong_bias().state_dict)
    assert partitioned(wrong_bias()).codes("aten.convolution.default") == ["static_bias"]
    program = fake_weights(wrong_bias())
    assert NeutronPartitioner().partition(program).partition_tags != {}
    partitioner = NeutronPartitioner(post_quantization_state_dict=data)
    partitioner.partition(fake_weights(wrong_bias()))
    assert [r.code for r in partitioner.rejections] == ["static_bias"]


# ------------------------------------------------------------------------------------ preserved operators


CODES = (0.05, 0, -128, 127, torch.int8)


class PReLU(torch.nn.Module):
    """prelu on codes, or on float numbers."""

    def __init__(self, channels: int, quantised: bool) -> None:
        super().__init__()
        self.quantised = quantised
        self.slopes = torch.full((channels,), 5, dtype=torch.int8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        slopes = torch.ops.quantized_decomposed.dequantize_per_tensor.default(self.slopes, *CODES)
        return self.coded(torch.ops.aten.prelu(self.coded(x), slopes))

    def coded(self, x: torch.Tensor) -> torch.Tensor:
        """Through codes, if it is the quantized one."""
        if not self.quantised:
            return x
        codes = torch.ops.quantized_decomposed.quantize_per_tensor.default(x, *CODES)
        real: torch.Tensor = torch.ops.quantized_decomposed.dequantize_per_tensor.default(codes, *CODES)
        return real


def prelu_graph(shape: tuple[int, ...], quantised: bool = True) -> torch.export.ExportedProgram:
    """A model with prelu, in the ATen dialect."""
    return torch.export.export(PReLU(shape[1], quantised), (torch.zeros(shape),))


def preserving(**options: Any) -> NeutronPartitioner:
    return NeutronPartitioner(preserve_ops=[torch.ops.aten.prelu.default], **options)


def kept(partitioner: NeutronPartitioner, program: torch.export.ExportedProgram) -> list[str]:
    keep = partitioner.ops_to_not_decompose(program)[1]
    assert keep is not None
    return [n.name for n in program.graph.nodes if keep(n)]


@pytest.mark.parametrize(
    ("shape", "quantised", "expected"),
    [((1, 8, 64, 64), True, ["prelu"]), ((1, 8, 64, 65), True, []), ((1, 8, 64, 64), False, [])],
)
def test_operators_are_preserved_where_they_can_run(
    shape: tuple[int, ...], quantised: bool, expected: list[str]
) -> None:
    program = prelu_graph(shape, quantised)
    assert preserving().ops_to_not_decompose(program)[0] == [torch.ops.aten.prelu.default]
    assert kept(preserving(), program) == expected
    # What is not kept runs outside of delegates, where nothing has it whole.
    lowered = to_edge_transform_and_lower(program, partitioner=[preserving()])
    x = torch.linspace(-1, 1, math.prod(shape)).reshape(shape)
    runtimes = {"NeutronBackend": NeutronRuntime()}
    (found,) = run_program(lowered.exported_program(), (x,), runtimes)
    furthest = float((found - program.module()(x)).abs().max())
    assert furthest <= (1.001 * CODES[0] if expected else 0)  # the device rounds ties away from zero


def test_what_is_excluded_is_not_preserved() -> None:
    program = prelu_graph((1, 8, 4, 4))
    spec = generate_neutron_compile_spec("imxrt700", operators_not_to_delegate=["aten::prelu"])
    assert kept(preserving(compile_spec=spec), program) == []
    lowered = to_edge_transform_and_lower(program, partitioner=[preserving(compile_spec=spec)])
    assert not list(delegates(lowered.exported_program()))


def test_the_additional_condition_is_asked() -> None:
    assert kept(preserving(check_op_support=lambda node: False), prelu_graph((1, 8, 4, 4))) == []


def test_nothing_is_preserved_by_default() -> None:
    program = prelu_graph((1, 8, 4, 4))
    assert NeutronPartitioner().ops_to_not_decompose(program)[0] == []
    assert kept(NeutronPartitioner(), program) == []


# ------------------------------------------------------------------------------------ clusters


def cluster_names(builder: Builder, *outputs: fx.Node) -> dict[str, list[str]]:
    builder.graph.output(outputs)
    found = find_clusters(builder.graph, OPERATORS)
    return {
        target_name(centre.target): [
            target_name(m.target).split(".")[-2] for m in cluster.members if "." in str(m.target)
        ]
        for centre, cluster in found.items()
    }


def test_a_cluster_reaches_through_auxiliary_operators() -> None:
    b = Builder()
    made = b.conv(b.input(1, 3, 8, 8), b.weight(5, 3, 3, 3), q=None)
    found = cluster_names(b, b.op(RELU, made))
    assert found["aten.convolution.default"][2:] == ["convolution", "relu", "quantize_per_tensor"]


def test_a_float_operand_or_consumer_leaves_no_cluster() -> None:
    b = Builder()
    y = b.op("aten.add.Tensor", b.input(1, 8), b.raw_input(1, 8))
    assert cluster_names(b, y, b.call(ABS, y)) == {}


def test_parameters_are_read_from_positions_and_keywords() -> None:
    b = Builder()
    x = b.raw_input(1, 8)
    by_position = b.call("quantized_decomposed.quantize_per_tensor.default", x, *ACTIVATION)
    names = ("scale", "zero_point", "quant_min", "quant_max", "dtype")
    by_keyword = b.call("quantized_decomposed.quantize_per_tensor.default", x, **dict(zip(names, WEIGHT, strict=True)))
    assert qparams(by_position) == QParams(*ACTIVATION)
    assert qparams(by_keyword) == QParams(*WEIGHT)
    assert qparams(x) is None


def test_scales_are_held_in_float32() -> None:
    assert QParams(0.1, 0, -128, 127, torch.int8).scale32 == torch.tensor(0.1).item()
    assert QParams(1e40, 0, -128, 127, torch.int8).defect() == "scale 1e+40"
    assert QParams(1e-60, 0, -128, 127, torch.int8).defect() == "scale 1e-60"
    assert QParams(0.1, 200, -128, 127, torch.int8).defect() == "zero point 200"
    assert QParams(*UNIT).defect() is None
