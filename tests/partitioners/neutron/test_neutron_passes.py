"""The edge passes: what they write, and that programs compute the same before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from neutron_graphs import ACTIVATION, Builder
from torch import fx
from torch.export import ExportedProgram

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.common.lowering import constants_of
from npu_assay.partitioners.exir.backend import ConstantPass
from npu_assay.partitioners.exir.ops import QUANTIZE_PER_TENSOR, target_name
from npu_assay.partitioners.exir.program import copy_module
from npu_assay.partitioners.exir.run import run_program
from npu_assay.partitioners.exir.transform import transform_program
from npu_assay.partitioners.neutron.passes import PASSES, _has_plain_params, judged_passes, may_change
from npu_assay.partitioners.neutron.rewriting import attached_constants
from npu_assay.partitioners.neutron.support.division import reciprocal_codes

Write = Callable[[Builder], "fx.Node | Sequence[fx.Node]"]
DEQUANTIZE = "quantized_decomposed.dequantize_per_tensor.default"
SHORT = {"quantized_decomposed.quantize_per_tensor.default": "q", DEQUANTIZE: "dq"}
RELU_PARAMS = (0.03, -128, -128, 127, torch.int8)


def written(write: Write) -> ExportedProgram:
    """The program that `write` makes."""
    b = Builder()
    result = write(b)
    return b.program(*([result] if isinstance(result, fx.Node) else result))


def operators(program: ExportedProgram) -> list[str]:
    """Short names of everything called, q and dq for quantize and dequantize."""
    names = [target_name(n.target) for n in program.graph.nodes if n.op == "call_function"]
    return [
        "dq" if "dequantize" in n else "q" if "quantize" in n else n.split(".")[-2] if "." in n else n for n in names
    ]


def split(b: Builder) -> list[fx.Node]:
    pieces = b.call("aten.split_with_sizes_copy.default", b.input(2, 8, 3), [3, 4, 1], -2)
    return [b.quantised(b.item(pieces, index)) for index in (0, 2)]


def equal_split(b: Builder) -> list[fx.Node]:
    pieces = b.call("aten.split_copy.Tensor", b.input(2, 8), 3, 1)
    return [b.quantised(b.item(pieces, index)) for index in range(3)]


def reshapes(b: Builder) -> fx.Node:
    x = b.op("aten.squeeze_copy.dims", b.input(1, 4, 1), [0])
    return b.op("aten.unsqueeze_copy.default", x, -1)


def pool_1d(b: Builder) -> fx.Node:
    image = b.call("aten.unsqueeze_copy.default", b.input(1, 8, 16), -2)
    pooled = b.item(b.call("aten.max_pool2d_with_indices.default", image, [1, 2], [1, 3]), 0)
    return b.quantised(b.call("aten.squeeze_copy.dims", pooled, [-2]))


def conv_then(op: str, *args: object) -> Write:
    def write(b: Builder) -> fx.Node:
        made = b.conv(b.input(1, 3, 8, 8), b.weight(5, 3, 3, 3), b.bias(5), q=None)
        return b.quantised(b.call(op, made, *args), RELU_PARAMS)

    return write


def linear_3d(b: Builder) -> fx.Node:
    flat = b.call("aten.view_copy.default", b.input(2, 3, 8), [6, 8])
    product = b.call("aten.addmm.default", b.bias(4), flat, b.weight(8, 4))
    return b.quantised(b.call("aten.view_copy.default", product, [2, 3, 4]))


def divide(divisor: torch.Tensor) -> Write:
    return lambda b: b.op("aten.div.Tensor", b.input(3, 8), b.raw_constant(divisor))


EXACT: dict[str, tuple[Write, list[str]]] = {
    "split": (split, ["q", "dq", "dq", "slice_copy", "q", "dq", "slice_copy", "q", "dq"]),
    "equal split": (equal_split, ["q", *["dq"] * 3, *["slice_copy", "q", "dq"] * 3]),
    "reshapes": (reshapes, ["q", "dq", "view_copy", "q", "dq", "view_copy", "q", "dq"]),
    "max_pool1d": (
        pool_1d,
        ["q", "dq", "view_copy", "q", "dq", "max_pool2d_with_indices", "getitem", "q", "dq", "view_copy", "q", "dq"],
    ),
    "conv, relu": (conv_then("aten.relu.default"), ["convolution", "q", "dq", "relu", "q", "dq"]),
    "conv, relu6": (conv_then("aten.hardtanh.default", 0.0, 6.0), ["convolution", "q", "dq", "hardtanh", "q", "dq"]),
    "conv, clamp": (conv_then("aten.clamp.default", -1, 1), ["convolution", "q", "dq", "clamp", "q", "dq"]),
    "conv, tanh stays": (conv_then("aten.tanh.default"), ["convolution", "tanh", "q", "dq"]),
    "linear of rank 3": (linear_3d, ["view_copy", "q", "dq", "dq", "dq", "addmm", "q", "dq", "view_copy", "q", "dq"]),
}


@pytest.mark.parametrize("name", EXACT)
def test_operators_after_the_passes(name: str) -> None:
    write, expected = EXACT[name]
    found = operators(transform_program(written(write), PASSES))
    assert found[-len(expected) :] == expected


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("scale", [0.1, 2.0])
def test_programs_compute_exactly_the_same(name: str, scale: float) -> None:
    program = written(EXACT[name][0])
    changed = transform_program(program, PASSES)
    generator = torch.Generator().manual_seed(1)
    inputs = [scale * torch.randn(n.meta["val"].shape, generator=generator) for n in user_inputs(program)]
    for before, after in zip(run_program(program, inputs), run_program(changed, inputs), strict=True):
        assert torch.equal(before, after)


def user_inputs(program: ExportedProgram) -> list[fx.Node]:
    """Placeholders of model inputs."""
    return [n for n in program.graph.nodes if n.name in program.graph_signature.user_inputs]


@pytest.mark.parametrize("name", EXACT)
def test_a_second_run_changes_nothing(name: str) -> None:
    once = transform_program(written(EXACT[name][0]), PASSES)
    assert [str(n) for n in transform_program(once, PASSES).graph.nodes] == [str(n) for n in once.graph.nodes]


@pytest.mark.parametrize("name", [*EXACT, "divide"])
def test_provenance_and_values_are_kept(name: str) -> None:
    write = divide(torch.tensor(2.0)) if name == "divide" else EXACT[name][0]
    program = written(write)
    for node in program.graph.nodes:
        if node.op == "call_function" and "quantize" not in node.name:
            node.meta["step"] = "subject"
    changed = transform_program(program, PASSES)
    for node in changed.graph.nodes:
        if node.op == "call_function":
            assert ("step" in node.meta) is ("quantize" not in node.name), node
            value = node.meta["val"]
            shapes = [tuple(v.shape) for v in (value if isinstance(value, tuple) else (value,))]
            assert shapes == real_shapes(changed)[node.name], node


def real_shapes(program: ExportedProgram) -> dict[str, list[tuple[int, ...]]]:
    """Shapes of all results when the program runs on zeros."""
    stored = {s.arg.name: program.state_dict[str(s.target)] for s in program.graph_signature.input_specs if s.target}
    found: dict[fx.Node, object] = {}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            found[node] = stored.get(node.name, torch.zeros(node.meta["val"].shape))
        elif node.op == "call_function":
            args = fx.node.map_arg(node.args, lambda n: found[n])  # type: ignore[arg-type, return-value]
            found[node] = node.target(*args)
    tuples = {n.name: v if isinstance(v, tuple) else (v,) for n, v in found.items()}
    return {name: [tuple(one.shape) for one in values] for name, values in tuples.items()}


def test_division_becomes_a_product_with_int8_reciprocals() -> None:
    changed = transform_program(written(divide(torch.tensor(4.0))), PASSES)
    product = next(n for n in changed.graph.nodes if target_name(n.target) == "aten.mul.Tensor")
    source = product.args[1]
    assert target_name(source.target) == DEQUANTIZE
    assert source.args[1:] == (torch.tensor(0.25 / 127).item(), 0, -127, 127, torch.int8)
    codes = changed.state_dict[source.args[0].name]
    assert torch.equal(codes, torch.full((3, 8), 127, dtype=torch.int8))


def test_reciprocals_of_a_tensor() -> None:
    codes, scale = reciprocal_codes(torch.tensor([1.0, -2.0, 4.0], dtype=torch.float64))
    assert scale == torch.tensor(1 / 127).item()
    assert codes.tolist() == [127, -64, 32]  # 63.5 is a tie, to even; 31.75


def test_a_quantised_divisor_is_read_as_numbers() -> None:
    def write(b: Builder) -> fx.Node:
        codes = b.raw_constant(torch.full((3, 8), 10, dtype=torch.int8))
        return b.op("aten.div.Tensor", b.input(3, 8), b.call(DEQUANTIZE, codes, 0.5, 2, -128, 127, torch.int8))

    changed = transform_program(written(write), PASSES)
    product = next(n for n in changed.graph.nodes if target_name(n.target) == "aten.mul.Tensor")
    assert product.args[1].args[1] == torch.tensor(0.25 / 127).item()
    assert len(changed.state_dict) == 1


def test_a_whole_number_is_looked_up_behind_its_change_of_type() -> None:
    def write(b: Builder, number: int = 2) -> fx.Node:
        whole = b.raw_constant(torch.tensor(number))
        real = b.call("dim_order_ops._to_dim_order_copy.default", whole, dtype=torch.float32, dim_order=[])
        return b.op("aten.div.Tensor", b.input(3, 8), real)

    changed = transform_program(written(write), PASSES)
    assert operators(changed) == ["q", "dq", "dq", "mul", "q", "dq"]
    assert "div" in operators(transform_program(written(lambda b: write(b, 0)), PASSES))


@pytest.mark.parametrize("divisor", [torch.tensor(0.0), torch.tensor(1e-13), torch.full((8,), 2.0)])
def test_other_divisions_stay(divisor: torch.Tensor) -> None:
    assert "div" in operators(transform_program(written(divide(divisor)), PASSES))


def test_a_division_with_a_float_result_stays() -> None:
    write = lambda b: b.call("aten.div.Tensor", b.input(3, 8), b.raw_constant(torch.tensor(2.0)))  # noqa: E731
    assert "div" in operators(transform_program(written(write), PASSES))


def test_an_auxiliary_with_other_users_stays() -> None:
    def write(b: Builder) -> list[fx.Node]:
        made = b.conv(b.input(1, 3, 8, 8), b.weight(5, 3, 3, 3), q=None)
        return [b.quantised(b.call("aten.relu.default", made)), made]

    found = operators(transform_program(written(write), PASSES))
    assert found[found.index("convolution") + 1] == "relu"


@pytest.mark.parametrize("auxiliary", ["aten.relu.default", "aten.clone.default"])
@pytest.mark.parametrize(
    "other", [(0.06, *RELU_PARAMS[1:]), (0.03, -127, *RELU_PARAMS[2:]), (0.03, -128, -127, *RELU_PARAMS[3:])]
)
def test_two_quantize_nodes_that_differ_stay(auxiliary: str, other: tuple[object, ...]) -> None:
    """In any of their parameters: what stands before both cannot have those of both."""

    def write(b: Builder) -> list[fx.Node]:
        made = b.call(auxiliary, b.conv(b.input(1, 3, 8, 8), b.weight(5, 3, 3, 3), q=None))
        return [b.quantised(made, RELU_PARAMS), b.quantised(made, other)]

    found = operators(transform_program(written(write), PASSES))
    assert found[found.index("convolution") + 1] == auxiliary.split(".")[1]


def test_parameters_by_name_or_per_channel_stay_where_they_are() -> None:
    """An operator in front takes over those of one scale that stand by position alone."""
    b = Builder()
    names = ("scale", "zero_point", "quant_min", "quant_max", "dtype")
    named = b.call(QUANTIZE_PER_TENSOR, b.raw_input(2, 3), **dict(zip(names, ACTIVATION, strict=True)))
    assert _has_plain_params(b.input(2, 3))
    assert not _has_plain_params(named) and not _has_plain_params(b.channel_weight(4, 3))


def test_every_consumer_gets_its_own_dequantize() -> None:
    def write(b: Builder) -> list[fx.Node]:
        x = b.input(1, 8)
        return [b.op("aten.abs.default", x), b.op("aten.add.Tensor", x, x)]

    changed = transform_program(written(write), PASSES)
    assert operators(changed) == ["q", "dq", "dq", "abs", "q", "dq", "add", "q", "dq"]


def test_the_input_program_is_not_changed() -> None:
    program = written(pool_1d)
    before = [str(n) for n in program.graph.nodes]
    transform_program(program, PASSES)
    assert [str(n) for n in program.graph.nodes] == before


def test_attached_constants_are_the_tensors_that_nodes_read() -> None:
    module = fx.GraphModule({}, fx.Graph())
    module.register_buffer("data", torch.arange(3))
    module.graph.get_attr("data")
    module.graph.call_function(torch.neg, (module.graph.placeholder("x"),))
    module.graph.output(())
    found = attached_constants(module)
    assert list(found) == ["data"] and torch.equal(found["data"], torch.arange(3))


def test_a_graph_that_the_passes_do_not_concern_is_one_that_they_leave() -> None:
    """Of every eighth case, as the backend gets it: the partitioner then takes the program without a copy."""
    concerned = 0
    for case in cases_for(load_table("neutron@1.4"))[::8]:
        program = build(case.graph)
        if may_change(program.graph):
            concerned += 1
            continue
        module = copy_module(program.graph_module)
        for one in judged_passes(macs=1):
            one(module, constants_of(program)) if isinstance(one, ConstantPass) else one(module)
        assert str(module.graph) == str(program.graph), case.id
    assert 20 < concerned < 400


def test_a_pool_that_is_not_decomposed_concerns_the_passes() -> None:
    b = Builder()
    assert may_change(b.program(b.quantised(b.call("aten.max_pool2d.default", b.input(1, 8, 8, 8), [2, 2]))).graph)
