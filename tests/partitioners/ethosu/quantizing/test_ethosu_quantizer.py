"""The Ethos-U quantizer: rewrites keep the meaning, annotations are where they belong, configurations are obeyed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

import torch
from ethosu_modules import SAMPLES
from executorch_programs import Function
from torch import fx, nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import SharedQuantizationSpec

from npu_assay.partitioners.ethosu import EthosUCompileSpec, ethos_u55, ethos_u85
from npu_assay.partitioners.ethosu.quantizer import (
    EthosUQuantizer,
    QuantizationConfig,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
)
from npu_assay.partitioners.ethosu.support.common import MARK
from npu_assay.partitioners.exir.annotations import ANNOTATION
from npu_assay.partitioners.exir.in_place_warning import ChangedInPlaceWarning

# torch's own export code and torchao call deprecated torch functions; nothing here can change that.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torchao"),
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning"),
]
aten = torch.ops.aten
U55, U85 = "ethos-u55-128", "ethos-u85-256"
INT8, INT16 = get_symmetric_quantization_config(), get_symmetric_a16w8_quantization_config()

REWRITTEN: dict[str, set[str]] = {
    "softmax_1": {"amax", "sub", "exp", "sum", "reciprocal", "mul"},
    "log_softmax": {"amax", "sub", "exp", "sum", "reciprocal", "mul", "log"},
    "mean": {"sum", "mul", "reshape"},
    "mean_all": {"sum", "mul", "reshape"},
    "mean_keepdim": {"sum", "mul", "reshape"},
    "var": {"sum", "mul", "sub"},
    "norm": {"mul", "sum", "pow"},
    "cosine": {"mul", "sum", "pow", "full_like", "maximum", "reciprocal"},
    "batch_norm": {"reshape", "sub", "add", "rsqrt", "mul"},
    "group_norm": {"reshape", "sum", "mul", "sub", "add", "rsqrt"},
    "layer_norm": {"reshape", "sum", "mul", "sub", "add", "rsqrt"},
    "div": {"reciprocal", "mul"},
    "div_scalar": {"reciprocal", "mul"},
    "div_floor": {"reciprocal", "mul", "floor"},
    "div_trunc": {"reciprocal", "mul", "gt", "ceil", "floor", "where"},
    "floor_divide": {"reciprocal", "mul", "floor"},
    "remainder": {"reciprocal", "mul", "floor", "sub"},
    "add_scalar": {"add"},
    "add_alpha": {"mul", "add"},
    "add_inplace": {"mul", "add"},
    "rsub": {"sub"},
    "mul_scalar": {"mul"},
    "sqrt": {"pow"},
    "logit": {"clamp", "mul", "add", "reciprocal", "log"},
    "sign": {"full", "gt", "lt", "mul", "add", "neg", "where"},
    "selu": {"elu"},
    "celu": {"elu"},
    "relu6": {"hardtanh"},
    "prelu": {"clamp", "reshape", "mul", "add"},
    "glu": {"slice_copy", "sigmoid", "mul"},
    "ne": {"eq", "logical_not"},
    "masked_fill": {"full", "gt", "full_like", "where"},
    "masked_fill_inplace": {"tanh", "full", "gt", "full_like", "where"},
    "index_select_int64": {"to", "index_select"},
    "index_int64": {"to", "index"},
    "gather_int64": {"to", "gather"},
    "where_scalar": {"full", "gt", "where"},
    "select_scatter": {"unsqueeze", "slice_copy", "cat"},
    "slice_scatter": {"slice_copy", "cat"},
    "tril": {"full", "where"},
    "stack": {"unsqueeze", "cat"},
    "pixel_shuffle": {"reshape", "view", "permute", "clone"},
    "pixel_unshuffle": {"reshape", "view", "permute", "clone"},
    "repeat_interleave": {"unsqueeze", "expand", "clone", "view"},
    "unbind": {"select", "tanh"},
    "permute_reshape": {"permute", "clone", "view"},
    "max_dim": {"amax", "squeeze"},
    "addmm": {"mm", "add"},
    "baddbmm": {"bmm", "mul", "add"},
    "matmul_2d": {"mm"},
    "matmul_4d": {"expand", "reshape", "bmm", "_unsafe_view"},
    "einsum": {"unsqueeze", "permute", "view", "bmm"},
    "attention": {
        "linear", "full", "mul", "transpose", "expand", "reshape", "bmm", "_unsafe_view", "amax", "sub", "exp", "sum",
        "reciprocal", "clone", "view",
    },
    "conv2d_same_even": {"pad", "conv2d"},
    "avg_pool2d_padded": {"pad", "avg_pool2d"},
    "adaptive_avg_pool2d": {"avg_pool2d"},
    "adaptive_avg_pool2d_4": {"slice_copy", "avg_pool2d", "cat"},
    "adaptive_avg_pool2d_1": {"slice_copy", "avg_pool2d"},
}  # fmt: skip
"""Samples and the operators that they become."""


def quantizer(target: str = U85) -> EthosUQuantizer:
    return EthosUQuantizer(EthosUCompileSpec(target))


def exported(model: nn.Module, *inputs: torch.Tensor) -> fx.GraphModule:
    with torch.no_grad():
        found = torch.export.export(model, inputs).module(check_guards=False)
    assert isinstance(found, fx.GraphModule)
    return found


def calls(model: fx.GraphModule) -> list[fx.Node]:
    """The operators, without what checks the inputs."""
    return [n for n in model.graph.nodes if n.op == "call_function" and isinstance(n.target, torch._ops.OpOverload)]


def named(model: fx.GraphModule, name: str) -> fx.Node:
    """The first node of an operator."""
    return next(node for node in calls(model) if packet(node) == name)


def packet(node: fx.Node) -> str:
    return str(node.target).split(".")[1]


def annotated(model: nn.Module, *inputs: torch.Tensor, config: QuantizationConfig = INT8) -> fx.GraphModule:
    chosen = quantizer().set_global(config)
    return chosen.annotate(chosen.transform_for_annotation(exported(model, *inputs)))


def annotation(node: fx.Node) -> Any:
    return node.meta[ANNOTATION]


# ------------------------------------------------------------------------------------ rewrites


@pytest.mark.parametrize("name", REWRITTEN)
def test_rewrites_keep_the_meaning(name: str) -> None:
    """In float64, where nothing but the order of operations differs."""
    sample = SAMPLES[name]
    model, inputs = sample.model(name), sample.inputs(3)
    found = quantizer().set_global(INT8).transform_for_annotation(exported(model, *inputs)).double()
    model, inputs = model.double(), tuple(x.double() for x in inputs)
    with torch.no_grad():
        torch.testing.assert_close(found(*inputs), model(*inputs))
    assert {packet(node) for node in calls(found)} == REWRITTEN[name]


def test_each_piece_has_its_value_and_its_module() -> None:
    found = quantizer().set_global(INT8).transform_for_annotation(exported(nn.Softmax(-1), torch.rand(3, 8)))
    for node in calls(found):
        assert isinstance(node.meta["val"], torch.Tensor)
        assert node.meta["nn_module_stack"]
        assert MARK not in node.meta.get("custom", {}) and ANNOTATION not in node.meta


def test_what_is_not_quantised_is_not_rewritten() -> None:
    found = quantizer().transform_for_annotation(exported(nn.Softmax(-1), torch.rand(3, 8)))
    assert [packet(node) for node in calls(found)] == ["softmax"]


def test_the_u55_keeps_masked_fill() -> None:
    sample = SAMPLES["masked_fill"]
    model = exported(sample.model("masked_fill"), *sample.inputs(0))
    found = quantizer(U55).set_global(INT8).transform_for_annotation(model)
    assert "masked_fill" in {packet(node) for node in calls(found)}


def seen_by_a_view(x: torch.Tensor) -> torch.Tensor:
    y = x.tanh()
    row = y[0]
    y.masked_fill_(x > 0.5, 0.25)
    return row + 1


def seen_by_a_later_reader(x: torch.Tensor) -> torch.Tensor:
    whole = x.tanh().view(-1)
    whole.view(3, 8).masked_fill_(x > 0.5, 0.25)
    return whole + 1


@pytest.mark.parametrize("function", [seen_by_a_view, seen_by_a_later_reader])
def test_a_change_in_place_that_others_see_stays_one(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    with pytest.warns(ChangedInPlaceWarning, match="add reads, too"):
        found = quantizer().set_global(INT8).transform_for_annotation(exported(Function(function), x))
    assert "masked_fill_" in {packet(node) for node in calls(found)}
    torch.testing.assert_close(found(x), function(x))


def test_a_change_of_an_input_in_place_stays_one() -> None:
    """Its caller sees it."""
    model = exported(Function(lambda x: x.masked_fill_(x > 0.5, 0.25) + 1), torch.zeros(3, 8))
    found = quantizer().set_global(INT8).transform_for_annotation(model)
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    expected = x.masked_fill(x > 0.5, 0.25)
    found(x)
    assert torch.equal(x, expected)


def test_a_lone_window_has_stride_1() -> None:
    found = quantizer().set_global(INT8).transform_for_annotation(exported(nn.AvgPool2d(8), torch.rand(1, 2, 8, 8)))
    assert list(named(found, "avg_pool2d").args[1:3]) == [[8, 8], [1, 1]]


# ------------------------------------------------------------------------------------ annotations


def test_every_annotated_operator_is_marked() -> None:
    sample = SAMPLES["residual"]
    found = annotated(sample.model("residual"), *sample.inputs(0))
    assert all(node.meta["custom"][MARK] == {"quantized": True} for node in calls(found))
    assert all(node.meta[ANNOTATION]._annotated for node in calls(found))


@pytest.mark.parametrize(("config", "fused"), [(INT8, True), (INT16, False)])
def test_an_activation_is_part_of_its_product_where_codes_have_zero_points(
    config: QuantizationConfig, fused: bool
) -> None:
    sample = SAMPLES["conv2d_relu"]
    found = annotated(sample.model("conv2d_relu"), *sample.inputs(0), config=config)
    assert (annotation(named(found, "conv2d")).output_qspec is None) == fused


def test_a_hardtanh_below_0_is_not_part_of_its_product() -> None:
    sample = SAMPLES["conv2d_hardtanh"]
    found = annotated(sample.model("conv2d_hardtanh"), *sample.inputs(0))
    assert annotation(named(found, "conv2d")).output_qspec is not None


@pytest.mark.parametrize(("config", "scale"), [(INT8, 2 / 256), (INT16, 2 / 65536)], ids=["int8", "int16"])
def test_bounded_domains_have_fixed_parameters(config: QuantizationConfig, scale: float) -> None:
    node = named(annotated(SAMPLES["acos"].model("acos"), torch.rand(1, 4, 6, 6), config=config), "acos")
    (spec,) = annotation(node).input_qspec_map.values()
    assert (spec.scale, spec.zero_point) == (scale, 0)


def test_comparisons_share_the_first_operand() -> None:
    sample = SAMPLES["gt"]
    node = named(annotated(sample.model("gt"), *sample.inputs(0)), "gt")
    first, second = node.all_input_nodes
    assert annotation(node).input_qspec_map[second] == SharedQuantizationSpec((first, node))
    assert annotation(node).output_qspec is None


@pytest.mark.parametrize("name", ["cat", "max_pool2d", "flip_1", "pad", "where", "slice"])
def test_what_only_moves_numbers_keeps_their_parameters(name: str) -> None:
    """After calibration: the same scale in front and behind."""
    sample = SAMPLES[name]
    program = converted(sample.model(name), sample.inputs(0), INT8)
    node = next(n for n in calls(program) if packet(n) in name or packet(n) == "slice")
    before = {source.args[1:4] for source in node.all_input_nodes if "dequantize" in str(source.target)}
    behind = {user.args[1:4] for user in node.users}
    assert len(before | behind) == 1


def converted(model: nn.Module, inputs: tuple[torch.Tensor, ...], config: QuantizationConfig) -> fx.GraphModule:
    with torch.no_grad():
        prepared = prepare_pt2e(exported(model, *inputs), quantizer().set_global(config))
        prepared(*inputs)
        found = convert_pt2e(prepared)
    assert isinstance(found, fx.GraphModule)
    return found


@pytest.mark.parametrize("config", [INT8, INT16], ids=["int8", "int16"])
def test_a_bias_has_the_product_of_the_scales(config: QuantizationConfig) -> None:
    sample = SAMPLES["conv2d"]
    program = converted(sample.model("conv2d"), sample.inputs(0), config)
    data, weight, bias = named(program, "conv2d").all_input_nodes
    assert isinstance(data.args[1], float)
    scales, bias_scales = (getattr(program, str(node.all_input_nodes[1].target)) for node in (weight, bias))
    torch.testing.assert_close(bias_scales.double(), data.args[1] * scales.double(), rtol=1e-6, atol=0.0)
    assert getattr(program, str(bias.all_input_nodes[0].target)).dtype == torch.int32
    assert data.args[5] == config.activation.dtype


@pytest.mark.parametrize(("name", "channels"), [("conv_transpose2d", 6), ("conv_transpose2d_grouped", 0)])
def test_transposed_convolutions_have_their_channels_behind(name: str, channels: int) -> None:
    """With groups the weights have one scale: an axis of theirs holds the channels of one group only."""
    program = converted(SAMPLES[name].model(name), SAMPLES[name].inputs(0), INT8)
    weight = named(program, "conv_transpose2d").all_input_nodes[1]
    assert ("per_channel" in str(weight.target)) == bool(channels)
    if channels:
        assert getattr(program, str(weight.all_input_nodes[1].target)).shape == (channels,)
        assert weight.args[3] == 1


# ------------------------------------------------------------------------------------ configurations


class Two(nn.Module):
    """Two layers with names."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.second(self.first(x))
        return y


def quantised(chosen: EthosUQuantizer) -> list[bool]:
    """Whether the first layer, the second one and the function behind it are quantized."""
    found = chosen.annotate(exported(Two().eval(), torch.rand(1, 4)))
    marks = [node.meta.get("custom", {}).get(MARK, {}).get("quantized", False) for node in calls(found)]
    assert len(marks) == 3
    return marks


def test_nothing_without_a_configuration() -> None:
    assert quantised(quantizer()) == [False, False, False]


def test_by_name_type_target_and_node() -> None:
    assert quantised(quantizer().set_module_name("second", INT8)) == [False, True, True]
    assert quantised(quantizer().set_module_name("second.0", INT8)) == [False, True, False]
    assert quantised(quantizer().set_module_type(nn.Linear, INT8)) == [True, True, False]
    assert quantised(quantizer().set_node_target(aten.tanh.default, INT8)) == [False, False, True]
    assert quantised(quantizer().set_node_name("linear_1", INT8)) == [False, True, False]


def test_the_last_configuration_counts_and_none_leaves_out() -> None:
    chosen = quantizer().set_global(INT8).set_module_name("second", None)
    assert quantised(chosen) == [True, False, False]
    assert quantised(chosen.set_node_target(aten.tanh.default, INT8)) == [True, False, True]


def test_inputs_and_outputs_alone() -> None:
    found = quantizer().set_io(INT8).annotate(exported(Two().eval(), torch.rand(1, 4)))
    ends = [node for node in found.graph.nodes if ANNOTATION in node.meta]
    assert {node.op for node in ends} == {"placeholder", "output"}


def test_another_compile_spec_is_an_error() -> None:
    with pytest.raises(TypeError, match="compile_spec is a str, expected an EthosUCompileSpec"):
        EthosUQuantizer("ethos-u55-128")  # type: ignore[arg-type]


def test_the_backends_have_it() -> None:
    for backend in (ethos_u55, ethos_u85):
        assert backend.quantizer is not None
        assert quantised(backend.quantizer()) == [True, True, True]
