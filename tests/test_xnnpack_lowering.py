"""What the XNNPACK compiler writes, operator by operator: layouts, padding, scales, biases, clamps, open sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from xnnpack_graphs import OTHER, PRESERVE, WEIGHT, Q, coded, graph, program, real, step

from npu_assay.conformance.programs.build import materialise, model_inputs
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Step, Value
from npu_assay.partitioners.exir import run_program, to_backend
from npu_assay.partitioners.xnnpack import XnnpackBackend, XnnpackPartitioner, XnnpackRuntime
from npu_assay.partitioners.xnnpack.configs import ALL_CONFIGS, LOWERED
from npu_assay.partitioners.xnnpack.lowering.program import _is_channels_last as is_channels_last
from npu_assay.partitioners.xnnpack.lowering.values import array_of
from npu_assay.partitioners.xnnpack.xnn_format import read
from npu_assay.partitioners.xnnpack.xnn_model import (
    ABSENT,
    ALIGN_CORNERS,
    KEEP_DIMS,
    TRANSPOSE_WEIGHTS,
    PerChannel,
    PerGroup,
    PerTensor,
    PerToken,
    XModel,
    XNode,
    unpacked_int4,
)

INFINITY = float("inf")
NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
IMAGE = (1, 3, 4, 6)
X_SCALE = 0.05
"""Of Q."""

ROWS = Quant((0.01, 0.02, 0.03), 0, -127, axis=0)


def compiled(model: Graph, **options: Any) -> list[XModel]:
    """The delegates of a model, in order."""
    lowered = to_backend(program(model), XnnpackPartitioner(**options), details={"XnnpackBackend": XnnpackBackend})
    modules = [getattr(lowered.graph_module, name) for name, _ in lowered.graph_module.named_children()]
    return [read(module.processed_bytes) for module in modules]


def one(model: Graph) -> XModel:
    """The delegate of a model that is one."""
    (found,) = compiled(model)
    return found


def ops(model: Graph) -> list[str]:
    return [node.op for node in one(model).nodes]


def node(found: XModel, op: str) -> XNode:
    """The only node of an operator."""
    (match,) = [each for each in found.nodes if each.op == op]
    return match


def data(found: XModel, index: int) -> np.ndarray[Any, Any]:
    """A constant."""
    array = found.values[index].data
    assert array is not None
    return array


def numbers(model: Graph, name: str) -> torch.Tensor:
    """What a case says that a value holds."""
    (found,) = [value for value in model.values if value.name == name]
    return materialise(found)


def unary(op: str, *args: Any, shape: Sequence[int] = (2, 3), **kwargs: Any) -> Graph:
    return graph([real("x", *shape)], [step("y", op, "x", *args, **kwargs)])


# ------------------------------------------------------------------------------------------------ element by element


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("abs", "Abs"), ("ceil", "Ceiling"), ("exp", "Exp"), ("floor", "Floor"), ("gelu", "Gelu"),
        ("hardswish", "Hardswish"), ("log", "Log"), ("neg", "Negate"), ("rsqrt", "ReciprocalSquareRoot"),
        ("sigmoid", "Sigmoid"), ("sqrt", "SquareRoot"), ("tanh", "Tanh"), ("cos", "Cos"), ("sin", "Sin"),
    ],
)  # fmt: skip
def test_functions_of_one_tensor(op: str, expected: str) -> None:
    found = one(unary(op))
    assert found.nodes == (XNode(expected, (0,), (1,)),)
    assert (found.inputs, found.outputs) == ((0,), (1,))


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        ("relu", (), (0.0, INFINITY)),
        ("hardtanh", (), (-1.0, 1.0)),
        ("hardtanh", (0, 6), (0.0, 6.0)),
        ("clamp", (-0.5, None), (-0.5, INFINITY)),
        ("clamp", (None, 0.1), (-INFINITY, float(np.float32(0.1)))),
    ],
)
def test_clamps(op: str, args: tuple[Any, ...], expected: tuple[float, float]) -> None:
    assert node(one(unary(op, *args)), "Clamp").limits == expected


@pytest.mark.parametrize(
    ("op", "args", "expected", "options"),
    [
        ("elu", (), "ELU", {"alpha": 1.0}),
        ("elu", (0.5,), "ELU", {"alpha": 0.5}),
        ("leaky_relu", (), "LeakyReLU", {"negative_slope": float(np.float32(0.01))}),
        ("leaky_relu", (-0.25,), "LeakyReLU", {"negative_slope": -0.25}),
        ("pow.Tensor_Scalar", (2,), "Square", {}),
        ("_softmax", (-1, False), "Softmax", {}),
    ],
)
def test_functions_with_numbers(op: str, args: tuple[Any, ...], expected: str, options: dict[str, float]) -> None:
    assert dict(node(one(unary(op, *args)), expected).options) == options


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("add.Tensor", "Add"), ("sub.Tensor", "Subtract"), ("mul.Tensor", "Multiply"), ("div.Tensor", "Div"),
        ("maximum", "Maximum"), ("minimum", "Minimum"), ("bmm", "BatchMatrixMultiply"),
    ],
)  # fmt: skip
def test_functions_of_two_tensors_keep_their_order(op: str, expected: str) -> None:
    steps = [step("a", "abs", "x"), step("y", op, "z", "a")]
    found = one(graph([real("x", 2, 3, 3), real("z", 2, 3, 3)], steps))
    first, second = node(found, expected).inputs
    assert first in found.inputs and (second,) == node(found, "Abs").outputs
    assert node(found, expected).outputs == found.outputs


def test_a_constant_operand_is_an_input_of_the_delegate() -> None:
    """As in the released partitioner: only products own their constants."""
    found = one(graph([real("x", 2, 3)], [step("y", "add.Tensor", "x", 2.0)]))
    assert len(found.inputs) == 2 and all(value.data is None for value in found.values)


# ------------------------------------------------------------------------------------------------ codes


def test_a_sum_of_codes_with_a_relu() -> None:
    """Codes enter by a Convert; the sum has the relu's limits and the last quantize's parameters."""
    model = graph(
        [coded("x", 2, 3), coded("z", 2, 3, quant=OTHER)],
        [step("sum", "add.Tensor", "x", "z"), step("y", "relu", "sum", quant=Q)],
    )
    found = one(model)
    assert [each.op for each in found.nodes] == ["Convert", "Convert", "Add", "Convert"]
    add = node(found, "Add")
    assert add.limits == (0.0, INFINITY)
    expected = [PerTensor(float(np.asarray(q.scale, np.float32)), q.zero_point) for q in (Q, OTHER, Q)]
    assert [found.values[index].quant for index in (*add.inputs, *add.outputs)] == expected


def test_a_relu_behind_a_sum_of_numbers_is_fused_too() -> None:
    model = graph([real("x", 2, 3)], [step("sum", "add.Tensor", "x", "x"), step("y", "hardtanh", "sum", 0, 6)])
    assert one(model).nodes == (XNode("Add", (0, 0), (1,), limits=(0.0, 6.0)),)


def test_an_activation_with_another_reader_is_not_fused() -> None:
    model = graph(
        [real("x", 2, 3)],
        [step("sum", "add.Tensor", "x", "x"), step("y", "relu", "sum"), step("z", "abs", "sum")],
        "y",
        "z",
    )
    assert sorted(ops(model)) == ["Abs", "Add", "Clamp"]


NORM = "_native_batch_norm_legit_no_training"


def _normalised(op: str, *more: Step) -> Graph:
    """A product, other steps, and a batch norm of the product."""
    window = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1) if op == "convolution" else ()
    sizes = ((1, 3, 4, 6), (5, 3, 2, 2)) if window else ((2, 3), (5, 3))
    x, w = real("x", *sizes[0]), real("w", *sizes[1], constant=True)
    parts = [real(f"{name}{i}", 5, constant=True) for i, name in enumerate(("factor", "shift", "mean"))]
    variance = Value("variance", (5,), None, Fill("list", values=(0.5, 2.0)), True)
    norm = step("norm", NORM, "product", *(each.name for each in (*parts, variance)), 0.1, 1e-3)
    return graph(
        [x, w, *parts, variance],
        [step("product", op, "x", "w", None, *window), *more, norm],
        "norm",
        *(each.name for each in more),
    )


@pytest.mark.parametrize(("op", "code"), [("convolution", "Conv2d"), ("linear", "FullyConnected")])
def test_a_batch_norm_is_part_of_a_stored_product_that_it_alone_takes(op: str, code: str) -> None:
    alone = _normalised(op)
    assert [each for each in ops(alone) if each != "StaticTranspose"] == [code]
    shared = [each for found in compiled(_normalised(op, step("abs", "abs", "product"))) for each in found.nodes]
    assert {"DepthwiseConv2d", "Abs", code} <= {each.op for each in shared}


def test_a_batch_norm_of_lines_is_part_of_their_convolution() -> None:
    x, w = real("x", 1, 3, 6), real("w", 5, 3, 2, constant=True)
    parts = [real(f"{name}{i}", 5, constant=True) for i, name in enumerate(("factor", "shift", "mean"))]
    variance = Value("variance", (5,), None, Fill("list", values=(0.5, 2.0)), True)
    product = step("product", "convolution", "x", "w", None, (1,), (0,), (1,), False, (0,), 1)
    norm = step("norm", NORM, "product", *(each.name for each in (*parts, variance)), 0.1, 1e-3)
    assert "DepthwiseConv2d" not in ops(graph([x, w, *parts, variance], [product, norm], "norm"))


def test_a_batch_norm_over_another_axis_than_the_products_is_not_part_of_it() -> None:
    """[2, 5, 4] by a linear layer to [2, 5, 5]: the norm is over axis 1, the columns of the weight over axis 2."""
    x, w = real("x", 2, 5, 4), real("w", 5, 4, constant=True)
    parts = [real(f"{name}{i}", 5, constant=True) for i, name in enumerate(("factor", "shift", "mean"))]
    variance = Value("variance", (5,), None, Fill("list", values=(0.5, 2.0)), True)
    norm = step("norm", NORM, "product", *(each.name for each in (*parts, variance)), 0.1, 1e-3)
    model = graph([x, w, *parts, variance], [step("product", "linear", "x", "w", None), norm], "norm")
    assert {"FullyConnected", "DepthwiseConv2d"} <= {each.op for found in compiled(model) for each in found.nodes}


def test_a_relu_behind_what_has_no_limits_stays_an_operator() -> None:
    model = graph([real("x", 2, 3)], [step("curve", "sigmoid", "x"), step("y", "relu", "curve")])
    assert ops(model) == ["Sigmoid", "Clamp"]


def test_a_permutation_of_weights_that_are_computed_is_an_operator() -> None:
    values = [real("x", 2, 4), real("w", 4, 3), real("b", 3)]
    steps = [step("turned", "permute_copy", "w", (1, 0)), step("y", "linear", "x", "turned", "b")]
    (found,) = compiled(graph(values, steps), force_non_static_weights_for_f32_linear=True)
    assert [each.op for each in found.nodes] == ["StaticTranspose", "FullyConnected"]


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (torch.empty(1, 3, 4, 6), False),
        (torch.empty(1, 3, 4, 6).to(memory_format=torch.channels_last), True),
        (torch.empty(1, 3, 6, 4).transpose(2, 3), False),
        (torch.empty(2, 1, 1, 1), False),
        (torch.empty(3, 4, 6), False),
    ],
)
def test_channels_last_is_one_order_of_memory(tensor: torch.Tensor, expected: bool) -> None:
    placeholder = torch.fx.Graph().placeholder("x")
    placeholder.meta["val"] = tensor
    assert is_channels_last(placeholder) == expected


def test_a_constant_without_axes_gets_one() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        assert array_of(torch.tensor(2.0, dtype=dtype)).shape == (1,)


def test_operators_without_arithmetic_on_codes_compute_between_conversions() -> None:
    model = graph([coded("x", *IMAGE)], [step("y", "avg_pool2d", "x", [2, 2], [2, 2], quant=Q)])
    found = ops(model)
    assert found.index("AvgPooling2d") > found.index("Convert") and found.count("Convert") >= 3


# ------------------------------------------------------------------------------------------------ products


def linear(weight: Value, *more: Value, quant: Quant | None = None, x: Value | None = None, **how: Any) -> Graph:
    given = real("x", 2, weight.shape[1]) if x is None else x
    return graph([given, weight, *more], [step("y", "linear", "x", "w", *("b" for _ in more), quant=quant, **how)])


def test_a_product_of_numbers() -> None:
    model = linear(real("w", 3, 4, constant=True), real("b", 3, constant=True))
    found = one(model)
    product = node(found, "FullyConnected")
    assert np.array_equal(data(found, product.inputs[1]), numbers(model, "w").numpy())
    assert np.array_equal(data(found, product.inputs[2]), numbers(model, "b").numpy())
    assert product.flags == 0 and product.limits is None


def test_a_product_without_bias() -> None:
    assert node(one(linear(real("w", 3, 4, constant=True))), "FullyConnected").inputs[2] == ABSENT


def test_float16_products_keep_their_bias_in_float16() -> None:
    weight, bias = (real(name, *shape, dtype="float16", constant=True) for name, shape in (("w", (3, 4)), ("b", (3,))))
    model = linear(weight, bias, x=real("x", 2, 4, dtype="float16"))
    found = one(model)
    assert [found.values[i].dtype for i in node(found, "FullyConnected").inputs] == ["fp16"] * 3


def test_matrices_that_stand_the_other_way() -> None:
    """mm wants [inputs, outputs]; constants are transposed ahead of time, computed ones by a flag."""
    model = graph([real("x", 2, 4), real("w", 4, 3, constant=True)], [step("y", "mm", "x", "w")])
    found = one(model)
    product = node(found, "FullyConnected")
    assert np.array_equal(data(found, product.inputs[1]), numbers(model, "w").t().numpy()) and product.flags == 0
    open_weights = graph([real("x", 2, 4), real("w", 4, 3)], [step("y", "mm", "x", "w")])
    (forced,) = compiled(open_weights, force_non_static_weights_for_f32_linear=True)
    assert node(forced, "FullyConnected").flags == TRANSPOSE_WEIGHTS


@pytest.mark.parametrize("quant", [WEIGHT, ROWS], ids=["per_tensor", "per_channel"])
def test_static_codes_quantise_the_bias(quant: Quant) -> None:
    """In steps of the input's scale times the weights', ties to even, as int32."""
    model = linear(
        coded("w", 3, 4, quant=quant, constant=True), real("b", 3, constant=True), quant=OTHER, x=coded("x", 2, 4)
    )
    found = one(model)
    _, w, b = node(found, "FullyConnected").inputs
    scales = np.asarray(quant.scale, np.float32)
    expected = np.rint(numbers(model, "b").double().numpy() / (scales.astype(np.float64) * X_SCALE))
    assert np.array_equal(data(found, b), expected.astype(np.int32))
    kinds = ("qint8", "qint32") if quant is WEIGHT else ("qcint8", "qcint32")
    assert (found.values[w].dtype, found.values[b].dtype) == kinds
    assert np.array_equal(data(found, w), numbers(model, "w").numpy())
    weights = found.values[w].quant
    if isinstance(weights, PerChannel):
        assert np.array_equal(weights.scales, scales) and weights.axis == 0


def test_activations_quantised_at_run_time() -> None:
    """One Convert to qdint8 with a row per last axis; weights per tensor become weights per channel; float bias."""
    for quant in (ROWS, WEIGHT):
        model = linear(coded("w", 3, 4, quant=quant, constant=True), real("b", 3, constant=True), dynamic="per_token")
        found = one(model)
        assert [each.op for each in found.nodes] == ["Convert", "FullyConnected"]
        x, w, b = node(found, "FullyConnected").inputs
        assert (found.values[x].dtype, found.values[x].quant) == ("qdint8", PerToken(1))
        assert found.values[b].dtype == "fp32" and found.values[w].dtype == "qcint8"
        weights = found.values[w].quant
        assert isinstance(weights, PerChannel)
        expected = np.broadcast_to(np.asarray(quant.scale, np.float32), (3,))
        assert np.array_equal(weights.scales, expected)


def test_products_of_the_same_numbers_share_their_conversion() -> None:
    weights = [coded(name, 3, 4, quant=ROWS, constant=True) for name in ("w", "v")]
    steps = [step(name, "linear", "x", weight, dynamic="per_token") for name, weight in (("y", "w"), ("z", "v"))]
    assert sorted(ops(graph([real("x", 2, 4), *weights], steps, "y", "z"))) == [
        "Convert", "FullyConnected", "FullyConnected",
    ]  # fmt: skip


def test_weights_of_four_bits() -> None:
    """Two codes a byte with 8 added, even columns low, and a bfloat16 scale for each group."""
    groups = tuple(0.01 * (i + 1) for i in range(6))
    weight = Value("w", (3, 64), Quant(groups, 0, -8, 7, group=32), Fill(seed=3), True)
    model = linear(weight, dynamic="per_token")
    found = one(model)
    value = found.values[node(found, "FullyConnected").inputs[1]]
    assert value.dtype == "qbint4" and isinstance(value.quant, PerGroup) and value.data is not None
    assert np.array_equal(unpacked_int4(value.data, 64), numbers(model, "w").numpy())
    expected = torch.tensor(groups).reshape(3, 2).bfloat16().float().numpy()
    assert np.array_equal(value.quant.scales, expected) and value.quant.group == 32


# ------------------------------------------------------------------------------------------------ images


def convolved(
    weight: Sequence[int], *args: Any, shape: Sequence[int] = IMAGE, groups: int = 1, transposed: bool = False
) -> Graph:
    """A convolution; `args` are stride, padding, dilation and output padding."""
    rank = len(weight) - 2
    defaults: list[Any] = [(1,) * rank, (0,) * rank, (1,) * rank, (0,) * rank]
    stride, padding, dilation, extra = [*args, *defaults[len(args) :]]
    rest = (None, stride, padding, dilation, transposed, extra, groups)
    values = [real("x", *shape), real("w", *weight, constant=True)]
    return graph(values, [step("y", "convolution", "x", "w", *rest)])


def test_a_convolution_is_channels_last_between_two_transposes() -> None:
    model = convolved((5, 3, 2, 3), (2, 1), (1, 0), (1, 2))
    found = one(model)
    assert [each.op for each in found.nodes] == ["StaticTranspose", "Conv2d", "StaticTranspose"]
    assert [each.options["perm"] for each in found.nodes[::2]] == [NHWC, NCHW]
    conv = node(found, "Conv2d")
    assert np.array_equal(data(found, conv.inputs[1]), numbers(model, "w").permute(NHWC).numpy())
    assert {name: conv.options[name] for name in conv.options if not name.startswith("group")} == {
        "padding_top": 1, "padding_bottom": 1, "padding_left": 0, "padding_right": 0,
        "kernel_height": 2, "kernel_width": 3, "subsampling_height": 2, "subsampling_width": 1,
        "dilation_height": 1, "dilation_width": 2, "adjustment_height": 0, "adjustment_width": 0,
    }  # fmt: skip


def test_neighbours_stay_channels_last() -> None:
    model = convolved((3, 3, 1, 1))
    more = graph(model.values, [*model.steps, step("z", "abs", "y"), step("p", "max_pool2d", "z", [2, 2], [2, 2])])
    assert ops(more) == ["StaticTranspose", "Conv2d", "Abs", "MaxPooling2d", "StaticTranspose"]


@pytest.mark.parametrize(("shape", "last"), [((1,), "Add"), ((1, 1), "Add"), ((3, 1, 1), "StaticTranspose")])
def test_what_has_one_element_fits_any_layout(shape: tuple[int, ...], last: str) -> None:
    """The convolution's result that it is added to stays channels last."""
    model = convolved((3, 3, 1, 1))
    values = [*model.values, real("c", *shape, constant=True)]
    found = ops(graph(values, [*model.steps, step("z", "add.Tensor", "y", "c")]))
    assert found[:3] == ["StaticTranspose", "Conv2d", last] and sorted(found[2:]) == ["Add", "StaticTranspose"]


@pytest.mark.parametrize(
    ("weight", "groups", "kind", "ends"),
    [
        ((6, 1, 2, 2), 3, "DepthwiseConv2d", (1, 2)),
        ((4, 2, 2, 2), 2, "Conv2d", (2, 2)),
        ((5, 3, 2, 2), 1, "Conv2d", (3, 5)),
    ],
)
def test_groups(weight: tuple[int, ...], groups: int, kind: str, ends: tuple[int, int]) -> None:
    shape = (1, weight[1] * groups, 4, 6)
    found = one(convolved(weight, shape=shape, groups=groups))
    o = node(found, kind).options
    assert (o["groups"], o["group_input_channels"], o["group_output_channels"]) == (groups, *ends)
    filters = found.values[node(found, kind).inputs[1]].shape
    assert filters == ((1, 2, 2, 6) if kind == "DepthwiseConv2d" else (weight[0], 2, 2, weight[1]))


def test_a_transposed_convolution_with_groups() -> None:
    """[inputs, outputs / groups, kh, kw] becomes [outputs, kh, kw, inputs / groups]."""
    model = convolved((4, 3, 2, 2), (2, 1), (0, 0), (1, 1), (1, 0), shape=(1, 4, 3, 3), groups=2, transposed=True)
    found = one(model)
    conv = node(found, "ConvTranspose2d")
    w = numbers(model, "w")
    expected = torch.cat([w[:2].transpose(0, 1), w[2:].transpose(0, 1)]).permute(NHWC)
    assert np.array_equal(data(found, conv.inputs[1]), expected.numpy())
    assert (conv.options["adjustment_height"], conv.options["adjustment_width"]) == (1, 0)


def test_one_spatial_dimension_gets_a_second() -> None:
    found = one(convolved((5, 3, 3), shape=(2, 3, 7)))
    assert [each.op for each in found.nodes] == [
        "StaticReshape", "StaticTranspose", "Conv2d", "StaticTranspose", "StaticReshape",
    ]  # fmt: skip
    assert found.nodes[0].options["new_shape"] == (2, 3, 7, 1)
    assert node(found, "Conv2d").options["kernel_width"] == 1
    assert found.nodes[-1].options["new_shape"] == (2, 5, 5)


def test_scales_per_channel_follow_the_channels() -> None:
    """Axis 0 of torch's weights; 3 of a depthwise filter."""
    for weight, groups, axis in (((3, 3, 2, 2), 1, 0), ((3, 1, 2, 2), 3, 3)):
        one_, zero = (1, 1), (0, 0)
        conv = step("y", "convolution", "x", "w", None, one_, zero, one_, False, zero, groups, quant=Q)
        found = one(graph([coded("x", *IMAGE), coded("w", *weight, quant=ROWS, constant=True)], [conv]))
        kind = "Conv2d" if groups == 1 else "DepthwiseConv2d"
        quant = found.values[node(found, kind).inputs[1]].quant
        assert isinstance(quant, PerChannel) and quant.axis == axis
        assert quant.scales.tolist() == pytest.approx([0.01, 0.02, 0.03])


def test_convolutions_of_single_elements_at_run_time_are_products() -> None:
    weight = coded("w", 4, 3, 1, 1, quant=Quant((0.01,) * 4, 0, -127, axis=0), constant=True)
    one_, zero = (1, 1), (0, 0)
    steps = [step("y", "convolution", "x", "w", None, one_, zero, one_, False, zero, 1, dynamic="per_tensor")]
    assert "FullyConnected" in ops(graph([real("x", *IMAGE), weight], steps))


def test_max_pool_in_ceil_mode_pads_more_at_the_end() -> None:
    found = one(unary("max_pool2d", [2, 2], [2, 2], [0, 0], [1, 1], True, shape=(1, 2, 5, 4)))
    o = node(found, "MaxPooling2d").options
    assert [o[f"padding_{side}"] for side in ("top", "bottom", "left", "right")] == [0, 1, 0, 0]
    assert node(found, "MaxPooling2d").flags == KEEP_DIMS


def test_a_last_window_that_begins_behind_the_image_is_none() -> None:
    """Of 3 numbers and 1 on either side: windows at -1 and 1, and none at 3."""
    found = one(unary("max_pool2d", [2, 2], [2, 2], [1, 1], [1, 1], True, shape=(1, 2, 3, 3)))
    o = node(found, "MaxPooling2d").options
    assert [o[f"padding_{side}"] for side in ("top", "bottom", "left", "right")] == [1, 1, 1, 1]


@pytest.mark.parametrize(("shape", "dim"), [((), -1), ((3,), 0), ((2, 3), 1), ((2, 3), -1)])
def test_softmaxes_over_the_last_dimension(shape: tuple[int, ...], dim: int) -> None:
    assert ops(unary("_softmax", dim, False, shape=shape)) == ["Softmax"]


def test_windows_of_one_element_are_a_product_with_one() -> None:
    found = one(unary("avg_pool2d", [1, 1], [2, 2], shape=IMAGE))
    depthwise = node(found, "DepthwiseConv2d")
    assert data(found, depthwise.inputs[1]).tolist() == [[[[1.0, 1.0, 1.0]]]]
    assert depthwise.options["subsampling_height"] == 2


def test_means_and_resizes() -> None:
    found = one(unary("mean.dim", [-1, -2], True, shape=IMAGE))
    assert node(found, "GlobalAvgPooling2d").flags == KEEP_DIMS
    for corners in (True, False):
        found = one(unary("upsample_bilinear2d.vec", [8, 9], corners, None, shape=IMAGE))
        resize = node(found, "StaticResizeBilinear2D")
        assert dict(resize.options) == {"new_height": 8, "new_width": 9}
        assert resize.flags == (ALIGN_CORNERS if corners else 0)


# ------------------------------------------------------------------------------------------------ movement


def test_paddings_slices_and_permutations_in_both_layouts() -> None:
    """Behind a convolution the value is channels-last: numbers per axis are reordered, and a permute is composed."""
    conv = convolved((3, 3, 1, 1))

    def behind(found: Step) -> XModel:
        return one(graph(conv.values, [*conv.steps, found]))

    pad = node(behind(step("z", "constant_pad_nd", "y", [1, 2, 3, 4], 0.5)), "StaticConstantPad")
    assert pad.options["pre_paddings"] == (0, 3, 1, 0) and pad.options["post_paddings"] == (0, 4, 2, 0)
    cut = node(behind(step("z", "slice_copy.Tensor", "y", 2, -3, 100)), "StaticSlice")
    assert cut.options["offsets"] == (0, 1, 0, 0) and cut.options["sizes"] == (1, 3, 6, 3)
    moved = behind(step("z", "permute_copy", "y", [0, 2, 3, 1]))
    assert moved.nodes[-1].op == "StaticTranspose" and moved.nodes[-1].options["perm"] == (0, 1, 2, 3)
    plain = one(unary("constant_pad_nd", [1, 2, 3, 4], 0.5, shape=IMAGE))
    assert node(plain, "StaticConstantPad").options["pre_paddings"] == (0, 0, 3, 1)


def test_many_operands_are_concatenated_in_turns() -> None:
    values = [real(f"x{i}", 1, i + 1) for i in range(7)]
    found = one(graph(values, [step("y", "cat", tuple(f"x{i}" for i in range(7)), -1)]))
    assert [(each.op, each.options["axis"]) for each in found.nodes] == [("Concatenate5", 1), ("Concatenate3", 1)]
    assert found.values[found.outputs[0]].shape == (1, 28)


# ------------------------------------------------------------------------------------------------ open sizes


def test_open_sizes_are_written_as_bounds_and_computed_from_the_inputs() -> None:
    model = graph([real("x", 4, 3, dynamic=(0,))], [step("y", "abs", "x")])
    found = one(model)
    assert found.values[found.inputs[0]].shape[0] >= 4
    made = to_backend(program(model), XnnpackPartitioner(), details={"XnnpackBackend": XnnpackBackend})
    for rows in (2, 3):
        x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(rows))
        (output,) = run_program(made, [x], {"XnnpackBackend": XnnpackRuntime()})
        assert isinstance(output, torch.Tensor) and torch.equal(output, x.abs())


def test_a_view_with_an_open_size_lets_the_device_infer_it() -> None:
    model = graph([real("x", 4, 3, dynamic=(0,))], [step("y", "unsqueeze_copy", "x", -1)])
    assert node(one(model), "StaticReshape").options["new_shape"] == (0, 3, 1)


# ------------------------------------------------------------------------------------------------ as a whole


def test_scalars_and_inputs_that_are_returned() -> None:
    found = one(unary("abs", shape=()))
    assert found.scalars == (0, 1) and found.values[0].shape == (1,)


def test_the_same_program_compiles_to_the_same_bytes() -> None:
    model = convolved((5, 3, 2, 3))
    first, second = (
        to_backend(program(model), XnnpackPartitioner(), details={"XnnpackBackend": XnnpackBackend}) for _ in range(2)
    )
    blobs = [next(iter(made.graph_module.children())).processed_bytes for made in (first, second)]
    assert blobs[0] == blobs[1]


def test_every_config_has_a_lowering() -> None:
    without = {config.target for config in ALL_CONFIGS} - set(LOWERED)
    assert all("quantize" in name or "choose_qparams" in name for name in without)
    assert set(PRESERVE) <= set(LOWERED)


def test_the_device_computes_what_torch_computes() -> None:
    """The tests above look at what is written; this one, on the least symmetric of them, at what comes of it."""
    model = convolved((4, 3, 2, 2), (2, 1), (0, 0), (1, 1), (1, 0), shape=(1, 4, 3, 3), groups=2, transposed=True)
    inputs = list(model_inputs(model))
    made = to_backend(program(model), XnnpackPartitioner(), details={"XnnpackBackend": XnnpackBackend})
    (output,) = run_program(made, inputs, {"XnnpackBackend": XnnpackRuntime()})
    (expected,) = run_program(program(model), inputs)
    assert isinstance(output, torch.Tensor) and isinstance(expected, torch.Tensor)
    assert torch.allclose(output, expected, atol=1e-4)
