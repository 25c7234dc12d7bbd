"""What cannot be compiled is refused with one error that names node, operator, found and expected."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from delegated import compiled, delegated, run
from lowering_graphs import IMAGE, OTHER, Operation, Q, activation, constant, convolution, products
from torch import fx
from torch._dynamo.source import ConstantSource
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Graph, Quant, Ref
from npu_assay.partitioners.exir import edge_program
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_CHANNEL, DEQUANTIZE_PER_TENSOR, edge_op, target_name
from npu_assay.partitioners.neutron import CompileError
from npu_assay.partitioners.neutron.lowering.context import array_of, reshaped
from npu_assay.partitioners.neutron.lowering.quantisation import Quantisation, stored_scale
from npu_assay.partitioners.neutron.lowering.values import Value

LARGEST = (2 - 2.0**-23) * 2.0**127
HALF_STEP = Quant(1 / 512, -128)
W = Quant(2.0**-8, 0, -127)
CONV = convolution("conv", (1, 4, 5, 6), (2, 3), 4)
ADDMM = products()[0]


def bias(scale: float, zero_point: int = 0) -> Quant:
    return Quant(scale, zero_point, -900, 900, None, "int32")


REFUSED = {
    "output padding": convolution("extra", (1, 3, 4, 5), (2, 3), 4, (3, 2), (0, 1), (), 1, True, (0, 1)),
    "alpha": Operation(
        "", "aten.add.Tensor", IMAGE, (Ref("z"),), more=(activation("z", IMAGE),), kwargs=(("alpha", 2),)
    ),
    "bounds": Operation("", "aten.hardtanh.default", IMAGE, (-2, 2)),
    "output scale and zero point": Operation("", "aten.sigmoid.default", IMAGE, y=HALF_STEP),
    "output scale and zero point of tanh": Operation("", "aten.tanh.default", IMAGE, y=HALF_STEP),
    "output scale and zero point of softmax": Operation("", "aten._softmax.default", IMAGE, (1, False), y=HALF_STEP),
    "step": Operation("", "aten.slice_copy.Tensor", IMAGE, (3, 0, 5, 2)),
    "padding": Operation("", "aten.constant_pad_nd.default", IMAGE, ((-1, 1),)),
    "value": Operation("", "aten.constant_pad_nd.default", IMAGE, ((1, 1), float("nan"))),
    "ceil_mode": Operation("", "aten.avg_pool2d.default", IMAGE, ((2, 2), (2, 2), (0, 0), True)),
    "count_include_pad": Operation("", "aten.avg_pool2d.default", IMAGE, ((2, 2), (2, 2), (1, 1), False, False)),
    "divisor_override": Operation("", "aten.avg_pool2d.default", IMAGE, ((2, 2), (2, 2), (0, 0), False, True, 3)),
    "dilation": Operation("", "aten.max_pool2d.default", IMAGE, ((2, 2), (1, 1), (0, 0), (1, 2))),
    "output size": Operation("", "aten._adaptive_avg_pool2d.default", IMAGE, ((3, 5),)),
    "output size of nothing": Operation("", "aten._adaptive_avg_pool2d.default", IMAGE, ((0, 5),)),
    "rank of the input": Operation("", "aten.avg_pool2d.default", IMAGE[1:], ((2, 2), (1, 1))),
    "weights": replace(CONV, more=(activation("w", (4, 4, 2, 3), W), CONV.more[1])),
    "zero point of weights": replace(CONV, more=(constant("w", (4, 4, 2, 3), Quant(2.0**-8, 1, -127)), CONV.more[1])),
    "zero point of weights of addmm": replace(
        ADDMM, more=(constant("w", (7, 5), Quant(2.0**-8, 1, -127)), ADDMM.more[1])
    ),
    "groups": convolution("", (1, 4, 5, 6), (2, 3), 4, groups=2),
    "axis of the weights' scales": replace(
        CONV, more=(replace(CONV.more[0], quant=replace(W, scale=(2.0**-8,) * 4, axis=1)), CONV.more[1])
    ),
    "scale of the bias": replace(ADDMM, more=(ADDMM.more[0], constant("b", (5,), bias(0.25)))),
    "zero point of the bias": replace(ADDMM, more=(ADDMM.more[0], constant("b", (5,), bias(0.03125 * 2.0**-8, 1)))),
    "type of the bias": replace(ADDMM, more=(ADDMM.more[0], constant("b", (5,), Quant(0.03125 * 2.0**-8)))),
    "bias": replace(ADDMM, more=(ADDMM.more[0], activation("b", (5,), Q))),
    "size of the bias": replace(ADDMM, more=(ADDMM.more[0], constant("b", (1,), bias(0.03125 * 2.0**-8)))),
    "alpha of addmm": replace(ADDMM, kwargs=(("alpha", 2),)),
    "beta": replace(ADDMM, kwargs=(("beta", 0.5),)),
    "groups of a transposed convolution": convolution(
        "", (1, 4, 5, 6), (2, 3), 4, groups=2, transposed=True, per_channel=False
    ),
    "dilation of a transposed convolution": convolution("", (1, 4, 5, 6), (2, 3), 4, dilation=(1, 2), transposed=True),
    "rank of the input of a convolution": convolution("", (1, 4, 5, 6, 7), (2, 3, 1), 4),
    "ceil_mode of a max pool": Operation("", "aten.max_pool2d.default", IMAGE, ((2, 2), (2, 2), (0, 0), (1, 1), True)),
    "axis of scales": replace(
        ADDMM, more=(constant("w", (7, 5), replace(W, scale=(2.0**-8,) * 7, axis=0)), ADDMM.more[1])
    ),
    "operator": Operation("", "aten.sin.default", IMAGE),
}


SAYS = {
    "output padding": "found (0, 1), expected (0, 0)",
    "alpha": "found 2, expected 1",
    "bounds": "found (-2, 2), expected one of [(0.0, inf), (0.0, 6.0), (-1.0, 1.0), (0.0, 1.0)]",
    "output scale and zero point": "found (0.001953125, -128), expected (0.00390625, -128)",
    "output scale and zero point of tanh": "found (0.001953125, -128), expected (0.0078125, 0)",
    "output scale and zero point of softmax": "found (0.001953125, -128), expected (0.00390625, -128)",
    "step": "found 2, expected 1",
    "padding": "found [-1, 1], expected no negative amounts",
    "value": "found nan, expected a number",
    "ceil_mode": "found True, expected False",
    "count_include_pad": "found False, expected True with padding",
    "divisor_override": "found 3, expected None",
    "dilation": "found [1, 2], expected 1",
    "output size": "found (3, 5), expected a divisor of (4, 5)",
    "output size of nothing": "found (0, 5), expected a divisor of (4, 5)",
    "rank of the input": "found 3, expected 4",
    "weights": "found w_codes, computed at run time, expected a constant",
    "zero point of weights": "found not 0, expected 0",
    "zero point of weights of addmm": "found (1,), expected 0",
    "groups": "found 2, expected 1 or 4",
    "axis of the weights' scales": "found 1, expected 0",
    "scale of the bias": "found (0.25,), expected (0.0001220703125,)",
    "zero point of the bias": "found (1,), expected 0",
    "type of the bias": "found int8, expected int32",
    "bias": "found b_codes, computed at run time, expected a constant",
    "size of the bias": "found 1, expected 5",
    "alpha of addmm": "found 2, expected 1",
    "beta": "found 0.5, expected 1",
    "groups of a transposed convolution": "found 2, expected 1",
    "dilation of a transposed convolution": "found (1, 2), expected (1, 1)",
    "rank of the input of a convolution": "found 5, expected 3 or 4",
    "ceil_mode of a max pool": "found True, expected False",
    "axis of scales": "found 0, expected 1",
    "operator": "found aten.sin.default, expected one that the compiler knows",
}
"""What each is found to have, and what is expected."""


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    with pytest.raises(CompileError) as caught:
        run(REFUSED[what].graph())
    error = caught.value
    assert error.what == re.sub(" of (addmm|a (transposed )?convolution|a max pool|nothing|tanh|softmax)$", "", what)
    assert str(error) == f"{error.node} ({error.operator}): {error.what}: {SAYS[what]}"
    assert error.operator.startswith("aten") and error.found != error.expected


def program(graph: Graph) -> fx.Graph:
    """The delegated graph, for tests that damage it; all placeholders are inputs."""
    damaged: fx.Graph = delegated(build(graph)).graph
    return damaged


def abs_graph() -> fx.Graph:
    return program(Operation("abs", "aten.abs.default", (2, 3), y=OTHER).graph())


def refused(graph: fx.Graph) -> CompileError:
    with pytest.raises(CompileError) as caught:
        compiled(edge_program(graph))
    return caught.value


def only(graph: fx.Graph, part: str) -> fx.Node:
    found: fx.Node = next(node for node in graph.nodes if part in node.name)
    return found


@pytest.mark.parametrize(
    ("scale", "fits"), [(2.0**-126, True), (2.0**-127, False), (LARGEST, True), (2 * LARGEST, False)]
)
def test_stored_scales_are_normal_float32(scale: float, fits: bool) -> None:
    node = fx.Graph().call_function(torch.ops.aten.abs.default, ())
    if fits:
        assert stored_scale(node, scale) == scale
    else:
        with pytest.raises(CompileError, match="scale"):
            stored_scale(node, scale)


def test_float_output() -> None:
    graph = abs_graph()
    graph.output_node().args = ((only(graph, "abs"),),)
    assert refused(graph).what == "output"


def test_float_input() -> None:
    graph = abs_graph()
    with graph.inserting_before(only(graph, "dequantize")):
        extra = graph.placeholder("extra")
    extra.meta["val"] = only(graph, "aten_abs").meta["val"]
    assert refused(graph).what == "type of an input"


def test_unread_input() -> None:
    graph = abs_graph()
    codes = next(node for node in graph.nodes if node.op == "placeholder")
    with graph.inserting_after(codes):
        extra = graph.placeholder("extra")
    extra.meta["val"] = codes.meta["val"]
    assert refused(graph).what == "reader of an input"


def test_no_outputs() -> None:
    graph = abs_graph()
    graph.output_node().args = ((),)
    assert refused(graph).what == "outputs"


def test_unquantised_operand() -> None:
    """A float value that the partition left between its operators."""
    graph = abs_graph()
    quantize = only(graph, "_quantize")
    with graph.inserting_before(quantize):
        sine = graph.call_function(edge_op("aten.sin.default"), (only(graph, "aten_abs"),))
    sine.meta = dict(only(graph, "aten_abs").meta)
    quantize.replace_input_with(only(graph, "aten_abs"), sine)
    error = refused(graph)
    assert (error.what, error.node) == ("operator", sine.name)


@pytest.mark.parametrize(
    "position, value, what",
    [
        (1, 0.0, "scale"),
        (1, float("nan"), "scale"),
        (1, 1e-50, "scale"),
        (1, 1e-39, "scale"),
        (1, 1e39, "scale"),
        (2, 128, "zero point"),
        (3, -127, "quantized type"),
        (5, torch.uint8, "quantized type"),
    ],
)
def test_odd_quantisation(position: int, value: object, what: str) -> None:
    graph = abs_graph()
    quantize = only(graph, "_quantize")
    args: list[Any] = list(quantize.args)
    args[position] = value
    quantize.args = tuple(args)
    assert refused(graph).what == what


def test_dequantize_with_other_parameters_than_its_quantize() -> None:
    graph = program(Operation("view", "aten.view_copy.default", (2, 3), ((3, 2),)).graph())
    twice = only(graph, "_dequantize")
    with graph.inserting_after(twice):
        other = graph.call_function(edge_op(DEQUANTIZE_PER_TENSOR), (twice.args[0], 0.5, *twice.args[2:]))
    other.meta = dict(twice.meta)
    assert refused(graph).what == "scale and zero point"


def test_result_without_quantisation() -> None:
    graph = abs_graph()
    graph.output_node().args = ((only(graph, "aten_abs"),),)
    graph.erase_node(only(graph, "_quantize"))
    assert refused(graph).what == "result without quantization"


def test_symbolic_shape() -> None:
    environment = ShapeEnv()
    symbol = environment.create_symbol(3, ConstantSource("n"))
    size = environment.create_symintnode(symbol, hint=3)
    graph = abs_graph()
    with FakeTensorMode(shape_env=environment):
        for node in graph.nodes:
            if "val" in node.meta:
                node.meta["val"] = torch.empty((2, size), dtype=node.meta["val"].dtype)
    assert refused(graph).what == "shape"


def test_indices_of_a_pooling() -> None:
    graph = program(Operation("", "aten.max_pool2d.default", IMAGE, ((2, 2), (1, 1))).graph())
    item = only(graph, "getitem")
    item.args = (item.args[0], 1)
    error = refused(graph)
    assert (error.what, error.found, error.expected) == ("output of a pooling", "1", "0, the maxima")


def damaged_product(change: Callable[[fx.Graph, fx.Node], None]) -> CompileError:
    """The error of a product whose weights have a scale for each output; `change` gets the node that reads them."""
    rows = constant("w", (7, 5), replace(W, scale=(2.0**-8,) * 5, axis=1))
    made = delegated(build(replace(products()[2], more=(rows,)).graph()))
    change(made.graph, next(node for node in made.graph.nodes if target_name(node.target) == DEQUANTIZE_PER_CHANNEL))
    with pytest.raises(CompileError) as caught:
        compiled(made)
    return caught.value


def test_codes_by_channel_that_are_computed() -> None:
    def change(graph: fx.Graph, node: fx.Node) -> None:
        node.args = (only(graph, "x_codes"), *node.args[1:])

    error = damaged_product(change)
    assert (error.what, error.expected) == ("quantization of a computed value", DEQUANTIZE_PER_TENSOR)


@pytest.mark.parametrize("position", [1, 2])
def test_parameters_by_channel_that_are_computed(position: int) -> None:
    def change(graph: fx.Graph, node: fx.Node) -> None:
        node.args = (*node.args[:position], only(graph, "x_codes"), *node.args[position + 1 :])

    error = damaged_product(change)
    assert (error.what, error.found, error.expected) == ("per-channel parameters", "x_codes", "constants")


def test_a_constant_without_its_numbers() -> None:
    with FakeTensorMode():
        fake = torch.zeros(5)
    with pytest.raises(CompileError) as caught:
        array_of(only(abs_graph(), "aten_abs"), fake)
    error = caught.value
    assert (error.what, error.found, error.expected) == ("constant", "a fake tensor", "a tensor with data")


def test_a_constant_with_scales_by_channel_in_another_shape() -> None:
    quantisation = Quantisation((0.5, 0.25), (0, 0), 0)
    source = Value("w", (2, 3), quantisation, data=np.zeros((2, 3), np.int8))
    with pytest.raises(CompileError) as caught:
        reshaped(only(abs_graph(), "aten_abs"), source, (3, 2))
    error = caught.value
    assert (error.what, error.found, error.expected) == ("reshaped constant", "a scale per channel", "one scale")
