"""What the Ethos-U compiler writes, and what it means on the simulated device."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from ethosu_runs import compiled
from lowering_graphs import IMAGE, OTHER, POSITIVE, Operation, Q, X, activation, constant, convolution, graph, identity
from torch import fx
from tosa_graph_families import Case, wide
from tosa_graphs import CASES, widened

from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value
from npu_assay.partitioners.ethosu.lowering.context import constant_value
from npu_assay.partitioners.ethosu.lowering.model import ModelBuilder
from npu_assay.partitioners.ethosu.operators import LOWERINGS
from npu_assay.partitioners.ethosu.runtime import EthosURuntime
from npu_assay.partitioners.ethosu.tosa_format import read
from npu_assay.partitioners.exir.compiling import CompileError
from npu_assay.partitioners.exir.ops import DEQUANTIZE, GETITEM, QUANTIZE

DEVICE = EthosURuntime()
RELU = Step("relu", "aten.relu.default", (Ref("subject"),), (), POSITIVE)
# Lowered by a function that other operators' graphs use, or written by the graphs of others.
SAME_FUNCTION = {
    GETITEM,
    "aten.max_pool2d_with_indices.default",
    "aten.squeeze_copy.default",
    "dim_order_ops._clone_dim_order.default",
}


def steps(source: Graph, device: str) -> int:
    """The distance between the simulated device and torch."""
    found = compiled(source, device)
    returned = DEVICE.execute(DEVICE.load(found.blob, []), list(found.inputs))
    return found.steps(returned)


@pytest.mark.sampled(80)
@pytest.mark.parametrize("name", CASES)
def test_device_agrees_with_torch(name: str) -> None:
    case: Case = CASES[name]
    assert steps(case.graph, "u85") <= case.steps
    if case.u55:
        assert steps(case.graph, "u55") <= case.steps
    if case.wide:
        assert steps(widened(case.graph), "u85") <= (case.steps if case.wide_steps is None else case.wide_steps)


def test_every_lowering_has_a_graph() -> None:
    used = {step.op for case in CASES.values() for step in case.graph.steps}
    plain = {name.replace("_copy", "") for name in used}
    missing = {name for name in LOWERINGS if name not in used and name.replace("_copy", "") not in plain}
    assert missing <= SAME_FUNCTION | QUANTIZE | DEQUANTIZE  # these stand around every operator


def test_a_fault_is_found() -> None:
    """The comparison itself: a result with exchanged neighbors is far from torch's."""
    found = compiled(CASES["add.Tensor_1x3x4x5_1x3x4x5"].graph, "u85")
    (returned,) = DEVICE.execute(DEVICE.load(found.blob, []), list(found.inputs))
    assert found.steps([returned.roll(1, -1)]) > 1


@pytest.mark.parametrize(
    ("step", "outputs", "copies"),
    [
        (Step("subject", "aten.relu.default", (X,), (), POSITIVE), 1, 0),
        (Step("subject", "aten.relu.default", (X,), (), POSITIVE), 2, 1),
        (Step("subject", "aten.full.default", ((2, 3), 1.5), (), POSITIVE), 1, 1),
    ],
    ids=["computed", "computed and returned twice", "constant"],
)
def test_what_is_returned_is_copied_where_it_is_no_tensor_of_its_own(step: Step, outputs: int, copies: int) -> None:
    blob = compiled(Graph((activation("x", IMAGE),), (step,), (Ref("subject"),) * outputs), "u85").blob
    assert [operator.code for operator in read(blob).operators].count("IDENTITY") == copies


def network() -> Graph:
    """Convolution, relu, pool, addition: channels-last all the way."""
    first, second = (convolution("", (1, 3, 8, 8), (3, 3), 3, padding=(1, 1)) for _ in range(2))
    one = Step("one", first.op, (X, *first.args), (), Quant(0.07, -4))
    pooled = Step("pooled", "aten.max_pool2d.default", (Ref("one"), (3, 3), (1, 1), (1, 1)), (), Quant(0.07, -4))
    two = Step("two", second.op, (Ref("pooled"), *second.args), (), Quant(0.07, -4))
    table = Step("curve", "aten.sigmoid.default", (Ref("two"),), (), Quant(1 / 256, -128))
    total = Step("sum", "aten.add.Tensor", (Ref("curve"), Ref("pooled")), (), Quant(0.09, 2))
    return graph([activation("x", (1, 3, 8, 8), Quant(0.03125, -5)), *first.more], [one, pooled, two, table, total])


def test_images_stay_channels_last() -> None:
    operators = compiled(network(), "u85").operators
    assert operators.count("TRANSPOSE") == 2
    assert (operators[0], operators[-1]) == ("TRANSPOSE", "TRANSPOSE")


def test_transpositions_that_undo_each_other_are_not_written() -> None:
    last = Step("last", "aten.permute_copy.default", (Ref("front"), (0, 2, 3, 1)), (), Q)
    ones, front = identity(IMAGE, Q)
    operators = compiled(graph([activation("x", IMAGE), ones], [front, last]), "u85").operators
    assert operators == ["TRANSPOSE", "DEPTHWISE_CONV2D", "RESCALE"]


def test_lines_are_images_of_height_1() -> None:
    found = compiled(convolution("", (2, 3, 9), (3,), 5).graph(), "u85").operators
    assert found == ["TRANSPOSE", "RESHAPE", "CONV2D", "RESCALE", "RESHAPE", "TRANSPOSE"]


@pytest.mark.parametrize("stride", [1, 2, 5])
def test_planes_that_a_kernel_takes_one_by_one_are_images(stride: int) -> None:
    """Vela 5.1.0 compiles no CONV3D of int16 for Ethos-U55."""
    found = compiled(convolution("", (1, 3, 5, 6, 7), (1, 3, 2), 4, (stride, 1, 1)).graph(), "u55").operators
    assert "CONV2D" in found and "CONV3D" not in found


def test_linear_has_no_transposition() -> None:
    assert compiled(CASES["linear_2_0"].graph, "u55").operators == ["RESHAPE", "CONV2D", "RESCALE", "RESHAPE"]


def fused(quant: Quant) -> Graph:
    """A convolution with a relu behind it, quantized once."""
    conv = convolution("", (1, 3, 4, 5), (1, 1), 4)
    step = Step("subject", conv.op, (X, *conv.args))
    return graph([activation("x", (1, 3, 4, 5), conv.x), *conv.more], [step, Step("y", RELU.op, RELU.args, (), quant)])


def test_a_fused_relu_is_the_saturation_of_the_codes() -> None:
    assert compiled(fused(Quant(0.03, -128)), "u55").operators == ["TRANSPOSE", "CONV2D", "RESCALE", "TRANSPOSE"]
    assert steps(fused(Quant(0.03, -128)), "u55") <= 1


def test_a_fused_relu_is_written_where_codes_go_below_0() -> None:
    found = compiled(fused(Quant(0.03, -20)), "u55")
    assert found.operators == ["TRANSPOSE", "CONV2D", "RESCALE", "CLAMP", "TRANSPOSE"]
    clamp = found.model.operators[3]
    assert (clamp.attributes["min_val"], clamp.attributes["max_val"]) == (-20, 127)
    assert steps(fused(Quant(0.03, -20)), "u55") <= 1


def test_16_bit_products_accumulate_in_48_bits() -> None:
    found = compiled(widened(convolution("", (1, 3, 4, 5), (1, 1), 4).graph()), "u55").model
    dtypes = {tensor.name: tensor.dtype for tensor in found.tensors}
    product = next(operator for operator in found.operators if operator.code == "CONV2D")
    rescale = next(operator for operator in found.operators if operator.code == "RESCALE")
    assert (product.attributes["acc_type"], dtypes[product.inputs[2]], dtypes[product.outputs[0]]) == ("INT48",) * 3
    assert (rescale.attributes["scale32"], dtypes[rescale.inputs[1]]) == (False, "INT16")


def test_codes_narrower_than_their_type_are_limited() -> None:
    operation = Operation("", "aten.add.Tensor", IMAGE, (X,), Quant(0.1, 0, -127))
    found = compiled(operation.graph(), "u85")
    assert found.operators[-1] == "CLAMP"
    assert found.model.operators[-1].attributes["min_val"] == -127


def test_a_long_join_is_several() -> None:
    """TOSA's level gives a CONCAT at most 64 operands; a reflection of 33 elements on both sides has 67."""
    builder = ModelBuilder()
    parts = [builder.tensor(f"x{number}", (1, 2), "INT8") for number in range(130)]
    joined = builder.concat(parts, 1, "joined")
    assert builder.shape(joined) == (1, 260)
    operands = {op.outputs[0]: op.inputs for op in builder.operators}
    assert [len(inputs) for inputs in operands.values()] == [64, 64, 2, 3]
    assert [name for each in operands[joined] for name in operands[each]] == parts


def test_every_quantise_saturates() -> None:
    """A sum that is quantized coarsely in between keeps its two roundings."""
    half = Step("half", "aten.add.Tensor", (X, X), (), Quant(0.02, 3))
    total = Step("y", "aten.add.Tensor", (Ref("half"), X), (), Quant(0.15, 1))
    source = graph([activation("x", IMAGE)], [half, total])
    assert compiled(source, "u55").operators == ["RESCALE", "ADD", "RESCALE", "RESCALE", "ADD", "RESCALE"]
    assert steps(source, "u55") <= 1


def test_average_pools_have_their_zero_point() -> None:
    found = compiled(CASES["avg_pool2d_(2,3)_(2,1)_1x3x6x8"].graph, "u55").model
    pool = next(operator for operator in found.operators if operator.code == "AVG_POOL2D")
    data = {tensor.name: tensor.data for tensor in found.tensors}
    zeros = [data[name] for name in pool.inputs[1:]]
    assert [None if zero is None else zero.tolist() for zero in zeros] == [[3], [3]]


def test_weight_zero_points_hold_what_their_shape_says() -> None:
    found = compiled(convolution("", (1, 3, 4, 5), (2, 2), 4).graph(), "u55").model
    product = next(operator for operator in found.operators if operator.code == "CONV2D")
    zero = next(tensor for tensor in found.tensors if tensor.name == product.inputs[4])
    assert zero.data is not None and zero.shape == zero.data.shape == (1,)


def test_tables_hold_what_torch_computes() -> None:
    found = compiled(Operation("", "aten.rsqrt.default", IMAGE, y=OTHER).graph(), "u55").model
    table = next(tensor for tensor in found.tensors if tensor.name.endswith("_table"))
    codes = torch.arange(-128, 128)
    real = torch.rsqrt((codes - Q.zero_point).float() * 0.05)
    expected = torch.clamp(torch.round(real / 0.03125) - 7, -128, 127)
    # The root of a negative number is none; of 0 it is infinite.
    expected = torch.where(real.isnan(), torch.zeros(()), expected)
    assert table.data is not None
    np.testing.assert_array_equal(table.data, expected.to(torch.int8).numpy())


def test_a_bias_in_other_steps_is_rounded_to_those_of_the_product() -> None:
    conv = convolution("", (1, 1, 3, 3), (1, 1), 1, per_channel=False)
    fine = Value("b", (1,), Quant(2.0**-15, 0, -900, 900, None, "int32"), Fill("list", values=(5.0,)), constant=True)
    found = compiled(Operation("", conv.op, conv.shape, conv.args, conv.y, conv.x, (conv.more[0], fine)).graph(), "u55")
    bias = next(tensor for tensor in found.model.tensors if tensor.dtype == "INT32" and tensor.name.endswith("bias"))
    # 5 * 2**-15 in steps of 2**-5 * 2**-8 is 1.25.
    assert bias.data is not None and bias.data.tolist() == [1]


def test_a_bias_in_the_steps_of_the_product_keeps_all_its_bits() -> None:
    """Steps that are the product of float32 scales differ from it by their last bit."""
    conv = convolution("", (1, 1, 3, 3), (1, 1), 1, per_channel=False)
    wide = Quant(2.0**-13 * (1 + 2.0**-23), 0, -(2**31), 2**31 - 1, None, "int32")
    large = Value("b", (1,), wide, Fill("list", values=(2.0**30,)), constant=True)
    found = compiled(
        Operation("", conv.op, conv.shape, conv.args, conv.y, conv.x, (conv.more[0], large)).graph(), "u85"
    )
    bias = next(tensor for tensor in found.model.tensors if tensor.dtype == "INT32" and tensor.name.endswith("bias"))
    assert bias.data is not None and bias.data.tolist() == [2**30]


@pytest.mark.parametrize(
    ("number", "fits"), [(2**31 - 1, True), (2**31, False), (-(2**31), True), (-(2**31) - 1, False)]
)
def test_64_bit_constants_are_those_of_32_bits(number: int, fits: bool) -> None:
    node = fx.Graph().placeholder("k")
    data = torch.tensor([number, 0])
    if fits:
        found = constant_value(node, data).data
        assert found is not None and found.tolist() == [number, 0]
    else:
        with pytest.raises(CompileError, match=r"int64 constant"):
            constant_value(node, data)


def test_constants_are_rescaled_when_compiling() -> None:
    source = Operation("", "aten.add.Tensor", IMAGE, (Ref("z"),), more=(constant("z", (3, 1, 1), OTHER),)).graph()
    assert compiled(source, "u55").operators == ["RESCALE", "ADD", "RESCALE"]


def test_an_output_that_is_an_input_is_copied() -> None:
    same = Step("same", "aten.view_copy.default", (X, IMAGE), (), Q)
    other = Step("other", "aten.neg.default", (X,), (), Q)
    source = graph([activation("x", IMAGE)], [same, other], (Ref("same"), Ref("same"), Ref("other")))
    found = compiled(source, "u85")
    assert len({*found.model.outputs, *found.model.inputs}) == 4
    assert steps(source, "u85") == 0


@pytest.mark.parametrize(("device", "rounds"), [("u55", True), ("u85", False)])
def test_right_shifts(device: str, rounds: bool) -> None:
    """The U55 only rounds halves up; all numbers are rounded down anyway."""
    numbers = (-(2.0**31), -(2.0**31) + 1, -7.0, -5.0, -4.0, -1.0, 0.0, 1.0, 3.0, 5.0, 2.0**31 - 128)
    x = Value("x", (11,), None, Fill("list", values=numbers), dtype="int32")
    source = graph([x], [Step("y", "aten.__rshift__.Scalar", (X, 2))])
    found = compiled(source, device)
    shifts = [each for each in found.model.operators if each.code == "ARITHMETIC_RIGHT_SHIFT"]
    assert shifts[-1].attributes["round"] is rounds
    assert steps(source, device) == 0


@pytest.mark.parametrize(
    "number", [math.inf, -math.inf, math.nan, 3e38, -3e38, 2.0**31, -(2.0**31), -(2.0**31) - 256, 0.5]
)
@pytest.mark.parametrize("kind", ["eq", "ne", "gt", "ge", "lt", "le"])
def test_integers_are_compared_with_numbers_that_none_of_them_is(kind: str, number: float) -> None:
    x = Value("x", (4,), None, Fill("list", values=(-(2.0**31), 0.0, 1.0, 2.0**31 - 128)), dtype="int32")
    assert steps(graph([x], [Step("y", f"aten.{kind}.Scalar", (X, number))]), "u85") == 0


def test_wide_means_the_same_numbers() -> None:
    assert wide(Quant(0.5, 3)) == Quant(0.5 / 256, 0, -32767, 32767, None, "int16")


def test_the_same_program_gives_the_same_bytes() -> None:
    assert compiled(network(), "u55").blob == compiled(network(), "u55").blob
