"""to_edge: the edge form of ATen programs, what it refuses, and that meaning and input stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch_programs import Function
from exir_toy import Cnn, dump, names, random, seeded, targets
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind
from torch.nn import functional

from npu_assay.partitioners.exir import EdgeCompileConfig, EdgeError, EdgeProgram, ExirError, run_program, to_edge
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.program import edge_program

CLONE, TO_COPY = "dim_order_ops._clone_dim_order.default", "dim_order_ops._to_dim_order_copy.default"


def export(function: Callable[..., Any], *inputs: Tensor) -> ExportedProgram:
    module = function if isinstance(function, nn.Module) else Function(function)
    return torch.export.export(module.eval(), inputs)


def edge(function: Callable[..., Any], *inputs: Tensor, config: EdgeCompileConfig | None = None) -> ExportedProgram:
    return to_edge(export(function, *inputs), compile_config=config).exported_program()


A = random(1, 4, 6)
IMAGE = random(1, 4, 6, 6)


ROWS: list[tuple[Callable[..., Any], list[Tensor], list[str]]] = [
    (lambda x: x.view(4, 6), [A], ["aten.view_copy.default"]),
    (lambda x: x.flatten(1), [A], ["aten.view_copy.default"]),
    (lambda x: x.transpose(1, 2), [A], ["aten.permute_copy.default"]),
    (lambda x: x.permute(2, 0, 1), [A], ["aten.permute_copy.default"]),
    (lambda x: x[0], [A], ["aten.select_copy.int"]),
    (lambda x: x[:, 1:3], [A], ["aten.slice_copy.Tensor"]),
    (lambda x: x.squeeze(0), [A], ["aten.squeeze_copy.dims"]),
    (lambda x: x.squeeze(), [A], ["aten.squeeze_copy.dims"]),
    (lambda x: x.unsqueeze(-1), [A], ["aten.unsqueeze_copy.default"]),
    (lambda x: x.expand(3, 4, 6), [A], ["aten.expand_copy.default"]),
    (lambda x: x.split(2, 1), [A], ["aten.split_with_sizes_copy.default", "getitem", "getitem"]),
    (lambda x: x.chunk(2, 1)[0], [A], ["aten.split_with_sizes_copy.default", "getitem"]),
    (lambda x: functional.max_pool2d(x, 2), [IMAGE], ["aten.max_pool2d_with_indices.default", "getitem"]),
    (
        lambda x: functional.max_pool1d(x, 2),
        [A],
        [
            "aten.unsqueeze_copy.default",
            "aten.max_pool2d_with_indices.default",
            "getitem",
            "aten.squeeze_copy.dims",
        ],
    ),
    (
        lambda x: functional.avg_pool1d(x, 2),
        [A],
        ["aten.unsqueeze_copy.default", "aten.avg_pool2d.default", "aten.squeeze_copy.dims"],
    ),
    (lambda x: functional.adaptive_avg_pool2d(x, 1), [IMAGE], ["aten.mean.dim"]),
    (lambda x: functional.relu6(x), [A], ["aten.hardtanh.default"]),
    (lambda x: functional.dropout(x, training=False), [A], [CLONE]),
    (lambda x: x.clone(), [A], [CLONE]),
    (lambda x: x.to(torch.float64), [A], [TO_COPY]),
    (lambda x: x.to(torch.float32) + x, [A], ["aten.add.Tensor"]),
    (lambda x: functional.softmax(x, -1), [A], ["aten._softmax.default"]),
    (lambda x: functional.pad(x, (1, 1)), [A], ["aten.constant_pad_nd.default"]),
    (lambda x: x.clamp(0, 1), [A], ["aten.clamp.default"]),
    (lambda x: functional.leaky_relu(x, 0.1), [A], ["aten.leaky_relu.default"]),
    (
        lambda x: functional.interpolate(x, scale_factor=2, mode="nearest"),
        [IMAGE],
        ["aten.upsample_nearest2d.vec"],
    ),
    (lambda x: x + 1.5, [A], ["aten.add.Tensor"]),
    (lambda x: x * 2.0 - x, [A], ["aten.mul.Tensor", "aten.sub.Tensor"]),
    (lambda x: x + 1, [A], [TO_COPY, "aten.add.Tensor"]),
    (lambda x: x > 0.5, [A], ["aten.gt.Scalar"]),
    (lambda x, y: x + y, [A, A.long()], [TO_COPY, "aten.add.Tensor"]),
    (lambda x, y: torch.minimum(x, y), [A, A.long()], [TO_COPY, "aten.minimum.default"]),
    (lambda x, y: torch.cat([x, y]), [A, torch.empty(0, 4, 6)], ["aten.cat.default"]),
    (lambda x, y: torch.stack([x, y]), [A, A + 1], ["aten.cat.default", "aten.view_copy.default"]),
    (
        lambda x, y: x @ y,
        [A, random(1, 6, 2)],
        [*["aten.expand_copy.default", "aten.view_copy.default"] * 2, "aten.bmm.default", "aten.view_copy.default"],
    ),
]


def flat(values: object) -> list[Tensor]:
    return list(values) if isinstance(values, (tuple, list)) else [values]  # type: ignore[list-item]


def test_edge_form_and_meaning() -> None:
    # One export for all rows: each costs a fixed time that is far above that of a row.
    def all_rows(*inputs: Tensor) -> list[Tensor]:
        given = iter(inputs)
        return [y for function, shapes, _ in ROWS for y in flat(function(*(next(given) for _ in shapes)))]

    inputs = [t.clone() for _, tensors, _ in ROWS for t in tensors]
    program = edge(all_rows, *inputs)
    assert targets(program) == [name for _, _, names in ROWS for name in names]
    for left, right in zip(run_program(program, inputs), all_rows(*inputs), strict=True):
        assert torch.equal(left, right)
        assert left.dtype == right.dtype
    for node in program.graph.nodes:
        if node.op == "call_function":
            assert node.name.startswith((target_name(node.target).replace(".", "_").lower(), "getitem"))


def test_writing_operators_become_functions() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2.0
        y.relu_().add_(1.5)
        return y[0].neg_()

    program = edge(function, A)
    assert all("_." not in name for name in targets(program))
    assert torch.equal(run_program(program, [A])[0], function(A))


def test_scalars_become_lifted_constants_before_the_inputs() -> None:
    class Scaled(nn.Module):
        used: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("unused", torch.ones(1))
            self.register_buffer("used", torch.ones(1))

        def forward(self, x: Tensor) -> Tensor:
            return (x * 2.5 + self.used) * 3.5

    program = edge(Scaled(), A)
    assert [n for n in names(program) if not n.startswith("aten")] == [
        "b_used", "_lifted_tensor_constant2", "_lifted_tensor_constant3", "x", "output",
    ]  # fmt: skip
    specs = program.graph_signature.input_specs
    assert [s.kind for s in specs] == [InputKind.BUFFER] * 3 + [InputKind.USER_INPUT]
    assert [program.state_dict[str(s.target)].tolist() for s in specs[:3]] == [[1.0], 2.5, 3.5]
    assert "unused" not in program.state_dict


def test_linear_and_convolution() -> None:
    assert targets(edge(nn.Linear(4, 2), random(3, 4))) == ["aten.permute_copy.default", "aten.addmm.default"]
    program = edge(nn.Conv2d(4, 2, 3), IMAGE)
    (node,) = (n for n in program.graph.nodes if n.op == "call_function")
    assert node.name == "aten_convolution_default"
    assert len(node.args) == 9


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_dim_orders(memory_format: torch.memory_format) -> None:
    order = [0, 1, 2, 3] if memory_format == torch.contiguous_format else [0, 2, 3, 1]
    image = IMAGE.contiguous(memory_format=torch.channels_last)
    program = edge(lambda x: x.clone(memory_format=memory_format), image)
    (node,) = (n for n in program.graph.nodes if n.op == "call_function")
    assert node.kwargs == {"dim_order": order}
    assert list(node.meta["val"].dim_order()) == order
    assert list(run_program(program, [image])[0].dim_order()) == order
    kept = edge(lambda x: x.clone(memory_format=memory_format), image, config=EdgeCompileConfig(_skip_dim_order=True))
    (node,) = (n for n in kept.graph.nodes if n.op == "call_function")
    assert (node.name, node.kwargs) == ("aten_clone_default", {"memory_format": memory_format})


def test_other_axes_in_memory_are_kept() -> None:
    image = IMAGE.contiguous(memory_format=torch.channels_last)
    program = edge(lambda x: x.clone(), image)
    (node,) = (n for n in program.graph.nodes if n.op == "call_function")
    assert node.kwargs == {"dim_order": [0, 2, 3, 1]}


def test_requantisation_with_the_same_parameters_disappears() -> None:
    quantize = torch.ops.quantized_decomposed.quantize_per_tensor.default
    dequantize = torch.ops.quantized_decomposed.dequantize_per_tensor.default

    def twice(x: Tensor, scale: float) -> Tensor:
        first = dequantize(quantize(x, 0.5, 0, -128, 127, torch.int8), 0.5, 0, -128, 127, torch.int8)
        codes: Tensor = dequantize(quantize(first, scale, 0, -128, 127, torch.int8), scale, 0, -128, 127, torch.int8)
        return codes

    assert len(targets(edge(lambda x: twice(x, 0.5), A))) == 2
    assert len(targets(edge(lambda x: twice(x, 0.25), A))) == 4


def test_preserved_operators() -> None:
    module = nn.PReLU()
    assert "aten.where.self" in targets(edge(module, A))
    config = EdgeCompileConfig(preserve_ops=[torch.ops.aten.prelu.default])
    assert targets(edge(module, A, config=config)) == ["aten.prelu.default"]
    config = EdgeCompileConfig(preserve_ops=[torch.ops.aten.linear.default])
    program = edge(nn.Linear(6, 2), A, config=config)
    assert targets(program) == ["aten.linear.default"]
    assert run_program(program, [A])[0].shape == (1, 4, 2)


def test_cnn_computes_the_same_and_its_program_stays() -> None:
    module = seeded(Cnn())
    program = export(module, random(1, 3, 8, 8))
    before, x = dump(program), random(1, 3, 8, 8, seed=5)
    first, second = to_edge(program).exported_program(), to_edge(program).exported_program()
    assert dump(program) == before
    assert dump(first) == dump(second)
    expected = module(x)
    assert all(torch.allclose(a, b) for a, b in zip(run_program(first, [x]), expected, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(first.module()(x), run_program(first, [x]), strict=True))
    assert isinstance(first, EdgeProgram)


def test_nested_inputs_and_outputs_keep_their_form() -> None:
    program = edge(lambda pair: {"sum": pair[0] + pair[1], "rest": [pair[0]]}, (A, A + 1))  # type: ignore[arg-type]
    result = program.module()((A, A + 1))
    assert torch.equal(result["sum"], A + (A + 1))
    assert torch.equal(result["rest"][0], A)


def test_dynamic_shapes() -> None:
    module = Function(lambda x: (x.view(x.shape[0] * 2, -1) + 1.5).relu())
    program = torch.export.export(module, (random(4, 6),), dynamic_shapes=(({0: Dim("n", min=2, max=9)},),))
    lowered = to_edge(program).exported_program()
    assert lowered.range_constraints == program.range_constraints
    for rows in (2, 7):
        x = random(rows, 6)
        assert torch.equal(run_program(lowered, [x])[0], module(x))


def test_open_sizes_beside_tensors_become_tensors() -> None:
    """As ExecuTorch has it: a 0-d tensor of the size, in the result's type."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        n = x.shape[1]
        whole = x.to(torch.int64)
        return x * n, 2 * n - x + n, x / n, whole // n, whole * n, whole * (n / 2), x * (n**-0.5)

    module = Function(function)
    program = torch.export.export(module, (random(2, 5),), dynamic_shapes=(({1: Dim("n", min=3, max=9)},),))
    lowered = to_edge(program).exported_program()
    first = next(n for n in lowered.graph.nodes if n.name == "aten_mul_tensor").args[1]
    assert target_name(first.target) == TO_COPY and first.kwargs["dtype"] == torch.float32
    assert first.args[0].name == "scalar_tensor" and first.args[0].kwargs == {"dtype": torch.int32}
    for columns in (5, 8):
        x = random(2, columns) * 9
        for found, wanted in zip(run_program(lowered, [x]), module(x), strict=True):
            torch.testing.assert_close(found, wanted)


def test_words_in_names_of_nodes_are_apart() -> None:
    assert "aten_sum_dim_int_list" in {n.name for n in edge(lambda x: x.sum(1), A).graph.nodes}


def test_control_flow_bodies_are_rewritten_too() -> None:
    def choose(x: Tensor) -> Tensor:
        result: Tensor = torch.cond(x.sum() > 0, lambda y: y.view(-1) + 1.5, lambda y: -y.flatten(), (x,))
        return result

    program = edge(choose, A)
    bodies = [m for n, m in program.graph_module.named_children()]
    assert len(bodies) == 2
    for body in bodies:
        assert all("aten." not in str(type(n.target)) for n in body.graph.nodes)
        assert "aten_view_copy_default" in {n.name for n in body.graph.nodes}
    for x in (A.abs(), -A.abs()):
        assert torch.equal(run_program(program, [x])[0], choose(x))


@pytest.mark.parametrize(
    ("function", "inputs", "message"),
    [
        (
            torch.special.bessel_j0,
            [A],
            "special_bessel_j0: operator outside core ATen: found aten.special_bessel_j0.def",
        ),
        (lambda x: x.to(torch.float8_e4m3fn), [A], "a type that edge does not know: found torch.float8_e4m3fn"),
    ],
)
def test_refuses_operators_and_types(function: Callable[..., Any], inputs: list[Tensor], message: str) -> None:
    with pytest.raises(EdgeError, match=message):
        edge(function, *inputs)
    assert edge(function, *inputs, config=EdgeCompileConfig(_check_ir_validity=False)).dialect == "EDGE"


@pytest.mark.parametrize(
    ("function", "inputs", "operators"),
    [
        (torch.max, [A], ["aten.max.default"]),
        (torch.min, [A.to(torch.int32)], ["aten.min.default"]),
        (lambda x: x.unfold(1, 3, 2), [A], ["aten.unfold_copy.default"]),
        (lambda x: x.view(torch.int32), [A], ["aten.view_copy.dtype"]),
        (
            lambda x: functional.interpolate(x, size=(3, 4), mode="bilinear", antialias=True),
            [IMAGE],
            ["aten._upsample_bilinear2d_aa.default"],
        ),
    ],
    ids=lambda given: given[0] if isinstance(given, list) and isinstance(given[0], str) else "",
)
def test_what_is_let_pass_outside_core_aten(
    function: Callable[..., Any], inputs: list[Tensor], operators: list[str]
) -> None:
    program = edge(function, *inputs)
    assert [name for name in targets(program) if not name.startswith("aten.alias")] == operators
    assert torch.equal(run_program(program, inputs)[0], function(*inputs))


def test_exceptions_from_core_aten() -> None:
    config = EdgeCompileConfig(_core_aten_ops_exception_list=[torch.ops.aten.special_bessel_j0.default])
    assert targets(edge(torch.special.bessel_j0, A, config=config)) == ["aten.special_bessel_j0.default"]


def test_edge_programs_are_copied() -> None:
    program = edge(torch.relu, A)
    again = to_edge(program).exported_program()
    assert again is not program
    assert dump(again) == dump(program)
    with pytest.raises(EdgeError, match="operator of another dialect"):
        edge_program(export(torch.relu, A).graph)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda p: ({},), "programs: no programs: found an empty dict, expected at least one ExportedProgram"),
        (
            lambda p: (p.graph_module,),
            "programs: not a program: found .* for method 'forward', expected an ExportedProg",
        ),
        (lambda p: (nn.Identity(),), "found Identity for method 'forward'"),
        (lambda p: ({1: p},), "method name of the wrong type: found 1"),
        (lambda p: (p, EdgeCompileConfig()), "constant_methods: .* found EdgeCompileConfig, expected a dict"),
        (lambda p: (p, {"forward": 3}), "two methods of one name: found forward"),
        (lambda p: (p, {"n": object()}), "constant_methods.*: found object"),
        (lambda p: (p, None, {}), "compile_config: configuration of the wrong type: found dict"),
        (
            lambda p: (p, None, EdgeCompileConfig(preserve_ops=[torch.ops.aten.view.default])),
            "cannot be preserved: found aten.view.default, which returns a view",
        ),
        (
            lambda p: (p, None, EdgeCompileConfig(preserve_ops=[torch.ops.aten.relu_.default])),
            "found aten.relu_.default, which writes its argument",
        ),
        (
            lambda p: (p, None, EdgeCompileConfig(preserve_ops=list[Any]([torch.ops.aten.relu]))),
            "not an operator overload: found .*aten.relu",
        ),
    ],
)
def test_refuses_arguments(arguments: Callable[[ExportedProgram], tuple[Any, ...]], message: str) -> None:
    with pytest.raises(ExirError, match=message):
        to_edge(*arguments(export(torch.relu, A)))
