"""What has no equivalent in XNNPACK is refused with one error that names node, operator, found and expected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from delegated import delegated
from torch import fx
from xnnpack_graphs import WEIGHT, Q, coded, graph, program, real, step

from npu_assay.conformance.programs.graph import Graph, Quant
from npu_assay.partitioners.exir.compiling import CompileError
from npu_assay.partitioners.exir.ops import edge_op, target_name
from npu_assay.partitioners.xnnpack import XnnpackBackend
from npu_assay.partitioners.xnnpack.lowering.context import constant_value
from npu_assay.partitioners.xnnpack.lowering.program import lower
from npu_assay.partitioners.xnnpack.lowering.values import DTYPES

IMAGE = (1, 3, 4, 6)
ONE, ZERO = (1, 1), (0, 0)


def unary(op: str, *args: Any, shape: tuple[int, ...] = (2, 3), dynamic: tuple[int, ...] = (), **kwargs: Any) -> Graph:
    return graph([real("x", *shape, dynamic=dynamic)], [step("y", op, "x", *args, **kwargs)])


def product(weight: Any, *more: Any, op: str = "linear", quant: Quant | None = Q, **kwargs: Any) -> Graph:
    values = [coded("x", 2, 4), weight, *more]
    return graph(values, [step("y", op, "x", *(v.name for v in values[1:]), quant=quant, **kwargs)])


def convolved(weight: Any, x: Any = None) -> Graph:
    given = real("x", *IMAGE) if x is None else x
    return graph([given, weight], [step("y", "convolution", "x", "w", None, ONE, ZERO, ONE, False, ZERO, 1)])


def normalised(shape: tuple[int, ...], computed: tuple[str, ...] = ()) -> Graph:
    numbers = [real(name, 3, constant=name not in computed) for name in "gbmv"]
    op = "_native_batch_norm_legit_no_training"
    return graph([real("x", *shape), *numbers], [step("y", op, "x", "g", "b", "m", "v", 0.1, 1e-5)], "y")


GROUPS = replace(WEIGHT, scale=(0.01, 0.02) * 3, axis=0, group=32)
W = coded("w", 3, 4, quant=WEIGHT, constant=True)
REFUSED: dict[str, tuple[Graph, str]] = {
    "operator": (unary("erf"), "operator"),
    "alpha": (graph([real("x", 2), real("z", 2)], [step("y", "add.Tensor", "x", "z", alpha=2)]), "alpha"),
    "scales of elu": (unary("elu", 1.0, 2.0), "scales"),
    "approximate gelu": (unary("gelu", approximate="tanh"), "approximate"),
    "cube": (unary("pow.Tensor_Scalar", 3), "exponent"),
    "softmax over rows": (unary("_softmax", 0, False), "dim"),
    "prelu of a matrix": (
        graph([real("x", 2, 3), real("s", 3, constant=True)], [step("y", "prelu", "x", "s")]),
        "operands",
    ),
    "computed slopes": (graph([real("x", *IMAGE), real("s", 3)], [step("y", "prelu", "x", "s")]), "operands"),
    "step of a slice": (unary("slice_copy.Tensor", 1, 0, 3, 2), "step"),
    "open slice": (unary("slice_copy.Tensor", 1, 0, 2, dynamic=(0,)), "dynamic sizes"),
    "negative padding": (unary("constant_pad_nd", [-1, 1], 0.0), "pad"),
    "counted padding": (unary("avg_pool2d", [2, 2], [2, 2], [1, 1], shape=IMAGE), "padding"),
    "ceil_mode": (unary("avg_pool2d", [2, 2], [2, 2], [0, 0], True, shape=IMAGE), "padding"),
    "divisor": (unary("avg_pool2d", [3, 2], [2, 2], [0, 0], False, True, 3, shape=IMAGE), "divisor"),
    "pool of rank 3": (unary("avg_pool2d", [2, 2], [2, 2], shape=IMAGE[1:]), "rank"),
    "open ceil_mode": (
        unary("max_pool2d", [2, 2], [2, 2], [0, 0], [1, 1], True, shape=IMAGE, dynamic=(2,)),
        "sizes in ceil_mode",
    ),
    "mean of rows": (unary("mean.dim", [1], True, shape=IMAGE), "reduction"),
    "mean without its axes": (unary("mean.dim", [2, 3], False, shape=IMAGE), "reduction"),
    "mean in another type": (unary("mean.dim", [2, 3], True, shape=IMAGE, dtype=torch.float32), "reduction"),
    "maximum over channels": (unary("max.dim", 1, True, shape=IMAGE), "reduction"),
    "open resize": (
        unary("upsample_bilinear2d.vec", None, False, [2.0, 2.0], shape=IMAGE, dynamic=(2,)),
        "output size",
    ),
    "weights of a convolution": (convolved(real("w", 4, 3, 2, 2)), "weights"),
    "zero point of the weights": (
        product(replace(W, quant=replace(WEIGHT, zero_point=1))),
        "zero point of the weights",
    ),
    "computed codes": (product(replace(W, constant=False)), "quantized weights"),
    "a product of codes without codes behind it": (product(W, quant=None), "result on codes"),
    "factor of addmm": (
        graph(
            [real("x", 2, 4), real("w", 4, 3, constant=True), real("b", 3, constant=True)],
            [step("y", "addmm", "b", "x", "w", beta=2)],
        ),
        "beta",
    ),
    "requantisation": (
        product(replace(W, quant=replace(WEIGHT, scale=300.0)), quant=replace(Q, scale=0.05)),
        "input scale * filter scale / output scale",
    ),
    "open sizes": (unary("unsqueeze_copy", 0, shape=(2, 3, 4), dynamic=(0, 1)), "dynamic sizes"),
    "a batch norm of rank 5": (normalised((2, 3, 4, 5, 6)), "rank"),
    "computed mean": (normalised((2, 3), computed=("m",)), "statistics"),
    "computed variance": (normalised((2, 3), computed=("v",)), "statistics"),
    "8 bits by group": (
        graph(
            [coded("x", 2, 64), coded("w", 3, 64, quant=GROUPS, constant=True)],
            [step("y", "linear", "x", "w", quant=Q)],
        ),
        "weights with a scale per group",
    ),
    "rank 7": (unary("abs", shape=(1,) * 7), "rank"),
    "float64": (graph([real("x", 2, dtype="float64")], [step("y", "abs", "x")]), "result"),
}


SAYS = {
    "operator": "found aten.erf.default, expected one that the compiler knows",
    "alpha": "found 2, expected 1",
    "scales of elu": "found (2.0, 1), expected (1, 1)",
    "approximate gelu": "found tanh, expected none",
    "cube": "found 3, expected 2",
    "softmax over rows": "found 0, expected the last one",
    "prelu of a matrix": "found other ones, expected rank 4, a constant",
    "computed slopes": "found other ones, expected rank 4, a constant",
    "step of a slice": "found 2, expected 1",
    "open slice": "found (0,), expected none",
    "negative padding": "found negative, expected 0 or more",
    "counted padding": "found counted, expected not counted",
    "ceil_mode": "found counted, expected not counted",
    "divisor": "found 3, expected 6",
    "pool of rank 3": "found 3, expected 4",
    "open ceil_mode": "found open, expected fixed",
    "mean of rows": "found dims [1], keepdim True, expected [2, 3], True",
    "mean without its axes": "found dims [2, 3], keepdim False, expected [2, 3], True",
    "mean in another type": "found dims [2, 3], keepdim True, expected [2, 3], True",
    "maximum over channels": "found dim 1, keepdim True, expected a fixed spatial one",
    "open resize": "found open, expected fixed",
    "weights of a convolution": "found computed, expected constants of the input's rank, 3 or 4",
    "zero point of the weights": "found 1, expected 0",
    "computed codes": "found computed ones, expected int8 constants",
    "a product of codes without codes behind it": "found output, expected a quantize node alone after it",
    "factor of addmm": "found 2, expected 1",
    "requantisation": "found 300.0, expected below 256.0",
    "open sizes": "found 2, expected at most one",
    "a batch norm of rank 5": "found 5, expected 2 to 4",
    "computed mean": "found computed, expected constants",
    "computed variance": "found computed, expected constants",
    "8 bits by group": "found 8 bits, expected 4 bits",
    "rank 7": "found 7, expected from 1 to 6",
    "float64": "found FakeTensor(..., size=(2,), dtype=torch.float64), "
    "expected a tensor of [torch.float32, torch.float16, torch.bfloat16, torch.int8]",
}
"""What each is found to have, and what is expected."""


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    model, what = REFUSED[name]
    with pytest.raises(CompileError) as caught:
        XnnpackBackend.preprocess(program(model), [])
    error = caught.value
    assert error.what == what
    assert str(error) == f"{error.node} ({error.operator}): {what}: {SAYS[name]}"
    assert error.found != error.expected


def damaged(model: Graph, change: Any) -> CompileError:
    """The error of a program whose graph was changed."""
    made = program(model)
    change(made.graph)
    with pytest.raises(CompileError) as caught:
        lower(made)
    return caught.value


def calls(found: fx.Graph, name: str) -> fx.Node:
    matches: list[fx.Node] = [node for node in found.nodes if target_name(node.target) == name]
    (match,) = matches
    return match


def test_parameters_that_are_not_constant() -> None:
    def change(found: fx.Graph) -> None:
        quantize = calls(found, "quantized_decomposed.quantize_per_tensor.default")
        quantize.args = (quantize.args[0], 0.0, *quantize.args[2:])

    error = damaged(graph([coded("x", 2, 3)], [step("y", "abs", "x")]), change)
    assert (error.what, error.expected) == ("quantization", "int8, a positive float32 scale, an int8 zero point")


def test_codes_read_with_other_parameters() -> None:
    def change(found: fx.Graph) -> None:
        read = calls(found, "quantized_decomposed.dequantize_per_tensor.default")
        read.args = (read.args[0], 0.25, *read.args[2:])

    error = damaged(graph([coded("x", 2, 3)], [step("y", "abs", "x")]), change)
    assert error.what == "scale and zero point"


def test_weights_whose_scales_are_computed() -> None:
    def change(found: fx.Graph) -> None:
        read = calls(found, "quantized_decomposed.dequantize_per_channel.default")
        given = next(node for node in found.nodes if node.name == "x")
        read.args = (read.args[0], given, *read.args[2:])

    rows = replace(WEIGHT, scale=(0.01, 0.02, 0.03), axis=0)
    error = damaged(product(replace(W, quant=rows)), change)
    assert (error.what, error.found, error.expected) == ("scales of the weights", "computed ones", "constants")


def test_weights_by_channel_with_a_zero_point() -> None:
    rows = replace(WEIGHT, scale=(0.01, 0.02, 0.03), axis=0, zero_point=1)
    with pytest.raises(CompileError) as caught:
        XnnpackBackend.preprocess(program(product(replace(W, quant=rows))), [])
    error = caught.value
    assert (error.what, error.found, error.expected) == ("zero points of the weights", "other numbers", "0")


def test_codes_that_nothing_reads() -> None:
    """The parameters of codes that come in are those of what reads them."""

    made = delegated(program(graph([coded("x", 2, 3)], [step("y", "abs", "x", quant=Q)])))
    read = calls(made.graph, "quantized_decomposed.dequantize_per_tensor.default")
    read.args = (read.args[0], read, *read.args[2:])
    with pytest.raises(CompileError) as caught:
        lower(made)
    assert (caught.value.what, caught.value.found) == ("reader of codes", "none")


def test_a_constant_of_another_type() -> None:
    node = next(iter(program(unary("abs")).graph.nodes))
    with pytest.raises(CompileError) as caught:
        constant_value(node, torch.zeros(2, dtype=torch.int64))
    error = caught.value
    assert (error.what, error.found, error.expected) == ("type of a constant", "torch.int64", str(list(DTYPES)))


def test_a_node_that_is_no_function_call() -> None:
    def change(found: fx.Graph) -> None:
        first = next(node for node in found.nodes if node.op == "call_function")
        with found.inserting_before(first):
            found.create_node("get_attr", "lost")

    error = damaged(unary("abs"), change)
    assert (error.what, error.found, error.expected) == ("node", "get_attr", "a function call")


def test_an_operand_that_the_delegate_does_not_compute() -> None:
    def change(found: fx.Graph) -> None:
        node = calls(found, "aten.add.Tensor")
        node.args = (node.args[0], 2.0)

    error = damaged(graph([real("x", 2)], [step("y", "add.Tensor", "x", "x")]), change)
    assert (error.what, error.found) == ("operand", "2.0")


def test_a_result_of_several_that_is_not_the_first() -> None:
    def change(found: fx.Graph) -> None:
        node = calls(found, "getitem")
        node.args = (node.args[0], 1)

    error = damaged(unary("max.dim", 2, True, shape=IMAGE), change)
    assert (error.what, error.found, error.expected) == ("result of several", "1", "0")


def test_outputs_that_are_no_nodes() -> None:
    def change(found: fx.Graph) -> None:
        found.output_node().args = ((),)

    assert damaged(unary("abs"), change).what == "outputs"


def test_the_operator_that_is_refused_is_named() -> None:
    def change(found: fx.Graph) -> None:
        calls(found, "aten.abs.default").target = edge_op("aten.erf.default")

    error = damaged(unary("abs"), change)
    assert (error.node, error.operator, error.found) == ("aten_abs_default", "aten.erf.default", "aten.erf.default")
