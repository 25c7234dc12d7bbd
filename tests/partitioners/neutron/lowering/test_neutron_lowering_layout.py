"""Where transpositions appear, where they do not, and what becomes of inputs, outputs and constants."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from delegated import compiled, delegated, run
from lowering_graphs import (
    GRAPHS,
    IMAGE,
    OTHER,
    X_QUANT,
    Q,
    X,
    activation,
    constant,
    convolution,
    graph,
    identity,
)

from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step, Value
from npu_assay.partitioners.neutron import neutron_io
from npu_assay.partitioners.neutron.tflite import read

RELU = "aten.relu.default"


def two_convolutions(between: list[Step]) -> Graph:
    """conv -> steps -> conv; the steps start from "front" and end in "middle"."""
    (w1, first), (w2, last) = identity(IMAGE, Q), identity(IMAGE, Q, Ref("middle"), "back")
    return graph((activation("x", IMAGE), w1, w2), [first, *between, last])


def relu(name: str, source: str) -> Step:
    return Step(name, RELU, (Ref(source),), (), Q)


def test_convolutions_stay_channels_last_between_inputs_and_outputs() -> None:
    result = run(two_convolutions([relu("middle", "front")]))
    assert result.operators == ["TRANSPOSE", "DEPTHWISE_CONV_2D", "RELU", "DEPTHWISE_CONV_2D", "TRANSPOSE"]
    assert result.lsb() == 0


def test_permutations_that_undo_the_layout_vanish() -> None:
    """NCHW -> NHWC in the program is nothing on the device, and so is the way back."""
    there = Step("there", "aten.permute_copy.default", (Ref("front"), (0, 2, 3, 1)), (), Q)
    back = Step("middle", "aten.permute_copy.default", (Ref("halfway"), (0, 3, 1, 2)), (), Q)
    result = run(two_convolutions([there, relu("halfway", "there"), back]))
    assert result.operators == ["TRANSPOSE", "DEPTHWISE_CONV_2D", "RELU", "DEPTHWISE_CONV_2D", "TRANSPOSE"]
    assert result.lsb() == 0


def test_flagged_inputs_and_outputs_need_no_transposition() -> None:
    result = run(two_convolutions([relu("middle", "front")]), convert=False)
    assert result.operators == ["DEPTHWISE_CONV_2D", "RELU", "DEPTHWISE_CONV_2D"]
    flags = neutron_io.decode(result.model.metadata[neutron_io.KEY], 1, 1)
    assert flags == ((True,), (True,))
    assert [result.model.tensors[i].shape for i in result.model.inputs] == [(1, 4, 5, 3)]


def test_formatless_values_are_not_flagged() -> None:
    result = run(GRAPHS["abs"][0], convert=False)
    assert neutron_io.decode(result.model.metadata[neutron_io.KEY], 1, 1) == ((False,), (False,))


def test_a_transposition_of_unit_axes_is_a_reshape() -> None:
    shape = (1, 3, 1, 1)
    ones, front = identity(shape, Q)
    result = run(graph((activation("x", shape), ones), [front]))
    assert result.operators == ["RESHAPE", "DEPTHWISE_CONV_2D", "RESHAPE"]
    assert result.lsb() == 0


def test_flattening_into_a_product_permutes_the_weights_instead() -> None:
    ones, front = identity(IMAGE, X_QUANT)
    view = Step("view", "aten.view_copy.default", (Ref("front"), (1, 60)), (), X_QUANT)
    w = constant("w", (60, 7), Quant(2.0**-9, 0, -127))
    mm = Step("mm", "aten.mm.default", (Ref("view"), Ref("w")), (), OTHER)
    result = run(graph((activation("x", IMAGE, X_QUANT), ones, w), [front, view, mm]))
    assert result.operators == ["TRANSPOSE", "DEPTHWISE_CONV_2D", "RESHAPE", "FULLY_CONNECTED"]
    assert result.lsb() <= 1


@pytest.mark.parametrize(("rows", "columns"), [(2, 12), (1, 24), (4, 6)])
def test_images_are_flattened_into_any_matrix(rows: int, columns: int) -> None:
    """Weights are permuted where each image is a row; images that share a row, or rows that share one, are not."""
    pool = Step("pool", "aten.avg_pool2d.default", (X, (2, 2), (2, 2)), (), X_QUANT)
    view = Step("view", "aten.view_copy.default", (Ref("pool"), (rows, columns)), (), X_QUANT)
    w = constant("w", (columns, 7), Quant(2.0**-9, 0, -127))
    mm = Step("mm", "aten.mm.default", (Ref("view"), Ref("w")), (), OTHER)
    result = run(graph((activation("x", (2, 3, 4, 4), X_QUANT), w), [pool, view, mm]))
    assert result.lsb() <= 1


def test_a_flattened_value_with_another_reader_is_also_held_in_torch_order() -> None:
    ones, front = identity(IMAGE, X_QUANT)
    view = Step("view", "aten.view_copy.default", (Ref("front"), (1, 60)), (), X_QUANT)
    w = constant("w", (60, 7), Quant(2.0**-9, 0, -127))
    mm = Step("mm", "aten.mm.default", (Ref("view"), Ref("w")), (), OTHER)
    values = (activation("x", IMAGE, X_QUANT), ones, w)
    result = run(graph(values, [front, view, mm], [Ref("mm"), Ref("view")]))
    assert result.lsb() <= 1
    assert torch.equal(result.codes[1], result.expected[1])


def test_no_transposition_between_channels_first_matrices() -> None:
    result = run(GRAPHS["bmm/channels_first"][0], convert=False)
    assert "TRANSPOSE" not in result.operators


def test_weights_are_permuted_at_compile_time() -> None:
    result = run(GRAPHS["conv"][0], convert=False)
    weights = next(t for t in result.model.tensors if t.name.endswith("w"))
    assert result.operators == ["CONV_2D"]
    assert (weights.shape, weights.axis, len(weights.scales)) == ((5, 3, 2, 3), 0, 5)


def test_depthwise_weights_have_their_scales_along_the_last_axis() -> None:
    result = run(GRAPHS["conv_depthwise"][0])
    weights = next(t for t in result.model.tensors if t.name.endswith("w"))
    assert (weights.shape, weights.axis, len(weights.scales)) == ((1, 3, 2, 3), 3, 3)


def test_a_missing_bias_is_zeros_at_the_accumulators_scale() -> None:
    result = run(GRAPHS["conv_no_bias"][0])
    model = result.model
    x, w, bias = (model.tensors[i] for i in next(o for o in model.operators if o.code == "CONV_2D").inputs)
    assert bias.dtype == "int32" and bias.data is not None and not bias.data.any()
    products = [np.float32(np.float64(x.scales[0]) * scale) for scale in w.scales]
    assert list(bias.scales) == products and bias.zero_points == (0,) * 4


def test_every_activation_is_quantised() -> None:
    for name in ("conv_strided", "pad_value", "mean_dropped", "bmm", "softmax_0"):
        for tensor in run(GRAPHS[name][0]).model.tensors:
            assert bool(tensor.scales) == (tensor.dtype == "int8" or tensor.name.endswith(("bias", "_b"))), tensor


@pytest.mark.parametrize("outputs", [["x"], ["again"], ["abs", "again"], ["again", "again"]])
def test_every_output_is_a_tensor_of_its_own(outputs: list[str]) -> None:
    """A copy of an input, and one value returned twice, need a tensor that an operator writes."""
    copy = Step("again", "aten.clone.default", (X,), (("memory_format", "contiguous_format"),), Q)
    work = Step("abs", "aten.abs.default", (Ref("again"),), (), Q)
    refs = [Ref("again" if name == "x" else name) for name in outputs]
    result = run(graph((activation("x", (2, 3)),), [copy, work], refs))
    written = [tensor for operator in result.model.operators for tensor in operator.outputs]
    assert len(set(result.model.outputs)) == len(outputs) and set(result.model.outputs) <= set(written)
    assert result.lsb() == 0


def test_another_quantisation_behind_a_move_becomes_quantize() -> None:
    view = Step("view", "aten.view_copy.default", (X, (3, 2)), (), OTHER)
    result = run(graph((activation("x", (2, 3)),), [view]))
    assert sorted(result.operators) == ["QUANTIZE", "RESHAPE"]
    assert result.lsb() <= 1


def test_an_activation_behind_an_unquantised_convolution_uses_its_quantisation() -> None:
    """Also without the pass that quantizes between them."""
    conv = convolution("fused", (1, 3, 6, 7), (3, 2), 5)
    values = (activation("x", conv.shape, conv.x), *conv.more)
    steps = [
        Step("conv", conv.op, (X, *conv.args), (), None),
        Step("act", RELU, (Ref("conv"),), (), Quant(0.03, -128)),
    ]
    for passes in (False, True):
        result = run(graph(values, steps), passes=passes)
        assert [code for code in result.operators if code != "TRANSPOSE"] == ["CONV_2D", "RELU"]
        assert result.lsb() <= 1


def test_a_scalar() -> None:
    """Reshaping to and from no axes at all, on the device and in torch."""
    steps = [
        Step("none", "aten.view_copy.default", (X, ()), (), Q),
        Step("abs", "aten.abs.default", (Ref("none"),), (), Q),
        Step("two", "aten.view_copy.default", (Ref("abs"), (1, 1)), (), Q),
    ]
    result = run(graph((activation("x", (1, 1)),), steps, [Ref("abs"), Ref("two")]))
    assert result.operators == ["RESHAPE", "ABS", "RESHAPE"]
    assert result.lsb() == 0


def test_same_program_same_bytes() -> None:
    for name in ("conv_strided", "cat_mixed", "mean", "addmm"):
        program = delegated(build(GRAPHS[name][0]))
        assert compiled(program) == compiled(program) == compiled(delegated(build(GRAPHS[name][0])))


def test_equal_constants_are_stored_once() -> None:
    result = run(two_convolutions([relu("middle", "front")]))
    permutations = [tensor for tensor in result.model.tensors if tensor.name.endswith("permutation")]
    weights = [t for t in result.model.tensors if t.data is not None and t.dtype == "int8"]
    assert (len(permutations), len(weights)) == (2, 1)


def test_a_constant_operand_takes_the_channels_first_layout() -> None:
    z = Value("z", IMAGE, OTHER, constant("z", IMAGE, OTHER).fill, True)
    ones, front = identity(IMAGE, Q)
    add = Step("add", "aten.add.Tensor", (Ref("front"), Ref("z")), (), Quant(0.1, 0))
    result = run(graph((activation("x", IMAGE), ones, z), [front, add]), convert=False)
    assert result.operators == ["DEPTHWISE_CONV_2D", "ADD"]
    stored = next(t for t in result.model.tensors if t.name.endswith("z"))
    assert stored.shape == (1, 4, 5, 3)


def test_blob_reads_back() -> None:
    model = read(compiled(delegated(build(GRAPHS["conv"][0]))))
    assert [operator.code for operator in model.operators] == ["TRANSPOSE", "CONV_2D", "TRANSPOSE"]
