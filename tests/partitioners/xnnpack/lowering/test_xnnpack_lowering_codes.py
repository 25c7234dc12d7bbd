"""XNNPACK's compiler on codes and on linear layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from xnnpack_graphs import OTHER, WEIGHT, Q, coded, graph, real, step
from xnnpack_lowered import IMAGE, INFINITY, ROWS, compiled, data, node, numbers, one, ops

from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Step, Value
from npu_assay.partitioners.xnnpack.lowering.program import _is_channels_last as is_channels_last
from npu_assay.partitioners.xnnpack.lowering.values import array_of
from npu_assay.partitioners.xnnpack.xnn_model import (
    ABSENT,
    TRANSPOSE_WEIGHTS,
    PerChannel,
    PerGroup,
    PerTensor,
    PerToken,
    XNode,
    unpacked_int4,
)

X_SCALE = 0.05
"""Of Q."""


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


# ------------------------------------------------------------------------------------------------ linear


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
