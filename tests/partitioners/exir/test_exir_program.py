"""Edge programs built by hand: values, signature, checks, copies."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from exir_toy import diamond, dump, names, random
from torch import fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from npu_assay.partitioners.exir import EdgeError, EdgeProgram, copy_program, edge_program, run_program
from npu_assay.partitioners.exir.ops import edge_op
from npu_assay.partitioners.exir.program import call

Q = "quantized_decomposed.quantize_per_tensor.default"
DQ = "quantized_decomposed.dequantize_per_tensor.default"
CHANNEL_DQ = "quantized_decomposed.dequantize_per_channel.default"


def quantised_relu() -> fx.Graph:
    graph = fx.Graph()
    codes = call(graph, Q, (graph.placeholder("x"), 0.5, 3, -128, 127, torch.int8))
    relu = call(graph, "aten.relu.default", (call(graph, DQ, (codes, 0.5, 3, -128, 127, torch.int8)),))
    codes = call(graph, Q, (relu, 0.25, -128, -128, 127, torch.int8))
    graph.output((call(graph, DQ, (codes, 0.25, -128, -128, 127, torch.int8)),))
    return graph


def test_quantised_program_has_names_values_and_runs() -> None:
    program = edge_program(quantised_relu(), inputs={"x": torch.empty(1, 2, 3)})
    assert names(program) == [
        "x",
        "quantized_decomposed_quantize_per_tensor_default",
        "quantized_decomposed_dequantize_per_tensor_default",
        "aten_relu_default",
        "quantized_decomposed_quantize_per_tensor_default_1",
        "quantized_decomposed_dequantize_per_tensor_default_1",
        "output",
    ]
    values = [n.meta["val"] for n in program.graph.nodes if n.op != "output"]
    assert [v.dtype for v in values] == [
        torch.float32,
        torch.int8,
        torch.float32,
        torch.float32,
        torch.int8,
        torch.float32,
    ]
    assert {tuple(v.shape) for v in values} == {(1, 2, 3)}
    assert len({id(v.fake_mode) for v in values}) == 1
    assert program.dialect == "EDGE"
    x = torch.tensor([[[-3.0, 0.0, 0.24], [0.26, 1.1, 100.0]]])
    assert run_program(program, [x])[0].flatten().tolist() == [0, 0, 0, 0.5, 1.0, 62.0]
    assert torch.equal(program.module()(x)[0], run_program(program, [x])[0])


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_shortcut_values_equal_torchs(memory_format: torch.memory_format) -> None:
    x = torch.empty(2, 3, 4, 5).to(memory_format=memory_format)
    program = edge_program(quantised_relu(), inputs={"x": x})
    real = x
    for node in program.graph.nodes:
        if node.op == "call_function":
            real = node.target(real, *node.args[1:])
            assert (node.meta["val"].shape, node.meta["val"].stride()) == (real.shape, real.stride())
            assert node.meta["val"].dtype == real.dtype


def test_constants_become_parameters_and_buffers() -> None:
    graph = fx.Graph()
    w, b, x = graph.placeholder("w"), graph.placeholder("b"), graph.placeholder("x")
    weight = call(graph, CHANNEL_DQ, (w, graph.placeholder("s"), graph.placeholder("z"), 0, -128, 127, torch.int8))
    graph.output((call(graph, "aten.addmm.default", (b, x, weight)),))
    constants = {
        "w": torch.ones(4, 2, dtype=torch.int8),
        "b": nn.Parameter(torch.ones(2)),
        "s": torch.ones(4),
        "z": torch.zeros(4, dtype=torch.int64),
    }
    program = edge_program(graph, constants, {"x": torch.empty(3, 4)})
    kinds = {s.arg.name: s.kind for s in program.graph_signature.input_specs}
    assert kinds["w"] == kinds["s"] == InputKind.BUFFER
    assert kinds["b"] == InputKind.PARAMETER
    assert program.state_dict["w"] is constants["w"]
    assert run_program(program, [torch.ones(3, 4)])[0].tolist() == [[5.0, 5.0]] * 3


def test_same_fields_as_torchs_own_constructor() -> None:
    class Identity(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x

    torchs = torch.export.export(Identity(), (torch.ones(2),))
    assert set(vars(diamond())) == set(vars(torchs))
    assert isinstance(diamond(), ExportedProgram)


def test_survives_printing_and_copying() -> None:
    program = diamond()
    assert "aten_relu_default" in str(program)
    for twin in (copy.deepcopy(program), copy_program(program)):
        assert dump(twin) == dump(program)
        assert torch.equal(run_program(twin, [random(2, 3)])[0], run_program(program, [random(2, 3)])[0])


def test_copy_shares_no_graph_signature_or_dictionary() -> None:
    program = diamond()
    before = dump(program)
    twin = copy_program(program)
    for node in twin.graph.nodes:
        node.meta["delegation_tag"] = "t"
        if node.name == "aten_neg_default_1":
            node.args = ()
    twin.graph_signature.input_specs[0].arg.name = "renamed"
    twin.graph_signature.output_specs.clear()
    twin.state_dict.clear()
    twin.graph_module.extra = torch.ones(1)
    assert dump(program) == before
    assert twin.state_dict is not program.state_dict


def _graph(op: str, *args: object) -> fx.Graph:
    graph = fx.Graph()
    graph.output((call(graph, op, (graph.placeholder("x"), *args)),))
    return graph


def _plain_operator() -> fx.Graph:
    graph = fx.Graph()
    graph.output((graph.call_function(torch.ops.aten.relu.default, (graph.placeholder("x"),)),))
    return graph


def _method_call() -> fx.Graph:
    graph = fx.Graph()
    graph.output((graph.call_method("relu", (graph.placeholder("x"),)),))
    return graph


def _bare_output() -> fx.Graph:
    graph = fx.Graph()
    graph.output(graph.placeholder("x"))
    return graph


@pytest.mark.parametrize(
    ("graph", "constants", "message"),
    [
        (_plain_operator(), {}, "relu_default: operator of another dialect: found torch operator aten.relu.default"),
        (_method_call(), {}, "relu: a call that is not a function: found call_method relu"),
        (_bare_output(), {}, "output: output in an unusual form: found Node, expected a tuple of nodes"),
        (_graph("aten.relu.default"), {"v": torch.ones(1)}, "constants: constant without a placeholder: found v"),
        (
            _graph("aten.permute_copy.default", [0, 0]),
            {},
            "aten_permute_copy_default: aten.permute_copy.default refuses",
        ),
        (_graph("aten.mm.default", 3), {}, "aten_mm_default: aten.mm.default refuses its arguments"),
        (_graph(DQ, 0.5, 3, -128, 127, torch.int8), {}, "dequantize_per_tensor_default: .* refuses its arguments"),
    ],
)
def test_refuses(graph: fx.Graph, constants: dict[str, torch.Tensor], message: str) -> None:
    with pytest.raises(EdgeError, match=message):
        edge_program(graph, constants, {"x": torch.empty(2, 3)})


def test_refuses_placeholder_of_unknown_shape() -> None:
    with pytest.raises(EdgeError, match=re.escape("x: placeholder of unknown shape: found no tensor for it")):
        edge_program(_graph("aten.relu.default"))


def test_refuses_signature_that_does_not_fit() -> None:
    program = diamond()
    program.graph_signature.input_specs[0].arg.name = "other"
    with pytest.raises(EdgeError, match="edge program: Input other does not exist in the graph: found"):
        EdgeProgram(nn.Module(), program.graph, program.graph_signature, program.state_dict)


def test_an_operator_that_nobody_registered() -> None:
    with pytest.raises(ValueError, match=r"'acme.softclip.default': nothing .* import the package that defines 'acme'"):
        edge_op("acme.softclip.default")


def test_unknown_operator() -> None:
    with pytest.raises(ValueError, match=r"no operator 'aten.unheard.default': expected namespace.operator.overload"):
        edge_op("aten.unheard.default")
