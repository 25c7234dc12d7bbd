"""Programs that the Neutron compiler refuses, one or more for each of its refusals, with what it says."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from delegated import compiled, delegated
from lowering_graphs import IMAGE, OTHER, Operation, Q, X, activation, constant, convolution, graph, products
from refusing import Damaged, argument, forgotten, inserted, node, returned, valued
from torch._dynamo.source import ConstantSource
from torch._subclasses import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Quant, Ref, Step
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_TENSOR, edge_op

HALF_STEP = Quant(1 / 512, -128)
W = Quant(2.0**-8, 0, -127)
CONV = convolution("conv", (1, 4, 5, 6), (2, 3), 4)
ADDMM = products()[0]


ABS = Operation("abs", "aten.abs.default", (2, 3), y=OTHER).graph()
MAXIMUM = Operation("", "aten.maximum.default", IMAGE, (Ref("z"),), more=(activation("z", IMAGE),))
BY_ROW = replace(W, scale=(2.0**-8,) * 5, axis=1)
ROWS = replace(products()[2], more=(constant("w", (7, 5), BY_ROW),)).graph()
VIEWED = graph(
    [activation("x", (5, 7)), constant("w", (7, 5), BY_ROW)],
    [Step("v", "aten.view_copy.default", (Ref("w"), (5, 7))), Step("y", "aten.add.Tensor", (X, Ref("v")), (), Q)],
)


def bias(scale: float, zero_point: int = 0) -> Quant:
    return Quant(scale, zero_point, -900, 900, None, "int32")


def unread(program: ExportedProgram) -> None:
    """The maximum of one operand and itself; nothing reads the other."""
    last = node(program, "maximum")
    last.args = (last.args[0],) * 2
    program.graph.eliminate_dead_code()


def read_again(program: ExportedProgram) -> None:
    """A second dequantize node of the same codes, with another scale."""
    read = node(program, "dequantize")
    with program.graph.inserting_after(read):
        other = program.graph.call_function(edge_op(DEQUANTIZE_PER_TENSOR), (read.args[0], 0.5, *read.args[2:]))
    other.meta = dict(read.meta)


def dynamic() -> torch.Tensor:
    """A value whose second size is dynamic."""
    environment = ShapeEnv()
    size = environment.create_symintnode(environment.create_symbol(3, ConstantSource("n")), hint=3)
    with FakeTensorMode(shape_env=environment):
        return torch.empty((2, size))


PROGRAMS: dict[str, Operation | Damaged] = {
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
    "shape of the bias": replace(ADDMM, more=(ADDMM.more[0], constant("b", (1,), bias(0.03125 * 2.0**-8)))),
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
    "real output": Damaged(ABS, argument("output", 0, "aten_abs")),
    "output without quantization": Damaged(ABS, returned("aten_abs")),
    "no outputs": Damaged(ABS, argument("output", 0, ())),
    "real input": Damaged(ABS, valued("x_codes", torch.empty(2, 3, device="meta"))),
    "unread input": Damaged(MAXIMUM.graph(), unread),
    "operator between others": Damaged(ABS, inserted("aten.sin.default", "decomposed_quantize")),
    "operand that is no node": Damaged(ABS, argument("aten_abs", 0, 2)),
    "no tensor": Damaged(ABS, valued("x_codes", None)),
    "dynamic sizes": Damaged(ABS, valued("aten_abs", dynamic())),
    "scale 0": Damaged(ABS, argument("decomposed_quantize", 1, 0.0)),
    "scale of no number": Damaged(ABS, argument("decomposed_quantize", 1, math.nan)),
    "scale that is 0 in float32": Damaged(ABS, argument("decomposed_quantize", 1, 1e-50)),
    "subnormal scale": Damaged(ABS, argument("decomposed_quantize", 1, 1e-39)),
    "scale that float32 lacks": Damaged(ABS, argument("decomposed_quantize", 1, 1e39)),
    "computed scale": Damaged(ABS, argument("decomposed_quantize", 1, "x_codes")),
    "computed zero point": Damaged(ABS, argument("decomposed_quantize", 2, "x_codes")),
    "high zero point": Damaged(ABS, argument("decomposed_quantize", 2, 128)),
    "low zero point": Damaged(ABS, argument("decomposed_quantize", 2, -129)),
    "range without -128": Damaged(ABS, argument("decomposed_quantize", 3, -127)),
    "range without 127": Damaged(ABS, argument("decomposed_quantize", 4, 126)),
    "unsigned codes": Damaged(ABS, argument("decomposed_quantize", 5, torch.uint8)),
    "codes read with another scale": Damaged(ABS, read_again),
    "indices of a pooling": Damaged(
        Operation("", "aten.max_pool2d.default", IMAGE, ((2, 2), (1, 1))).graph(), argument("getitem", 1, 1)
    ),
    "computed codes by channel": Damaged(ROWS, argument("per_channel", 0, "x_codes")),
    "computed scales by channel": Damaged(ROWS, argument("per_channel", 1, "x_codes")),
    "computed zero points by channel": Damaged(ROWS, argument("per_channel", 2, "x_codes")),
    "constant without data": Damaged(ROWS, forgotten),
    "reshaped constant by channel": Damaged(VIEWED, lambda program: None),
}


def blob(name: str) -> bytes:
    """Compile a program of this name, which raises CompileError."""
    program = PROGRAMS[name]
    return compiled(program.program() if isinstance(program, Damaged) else delegated(build(program.graph())))


FLOATS = "expected a float32 from 1.1754943508222875e-38 to 3.4028234663852886e+38"
SAYS = {
    "output padding": "output padding: found (0, 1), expected (0, 0)",
    "alpha": "alpha: found 2, expected 1",
    "bounds": "bounds: found (-2, 2), expected one of [(0.0, inf), (0.0, 6.0), (-1.0, 1.0), (0.0, 1.0)]",
    "output scale and zero point": "output scale and zero point: "
    "found (0.001953125, -128), expected (0.00390625, -128)",
    "output scale and zero point of tanh": "output scale and zero point: "
    "found (0.001953125, -128), expected (0.0078125, 0)",
    "output scale and zero point of softmax": "output scale and zero point: "
    "found (0.001953125, -128), expected (0.00390625, -128)",
    "step": "step: found 2, expected 1",
    "padding": "padding: found [-1, 1], expected no negative amounts",
    "value": "value: found nan, expected a number",
    "ceil_mode": "ceil_mode: found True, expected False",
    "count_include_pad": "count_include_pad: found False, expected True with padding",
    "divisor_override": "divisor_override: found 3, expected None",
    "dilation": "dilation: found [1, 2], expected 1",
    "output size": "output size: found (3, 5), expected a divisor of (4, 5)",
    "output size of nothing": "output size: found (0, 5), expected a divisor of (4, 5)",
    "rank of the input": "rank of the input: found 3, expected 4",
    "weights": "weights: found w_codes, computed at run time, expected a constant",
    "zero point of weights": "zero point of weights: found not 0, expected 0",
    "zero point of weights of addmm": "zero point of weights: found (1,), expected 0",
    "groups": "groups: found 2, expected 1 or 4",
    "axis of the weights' scales": "axis of the weights' scales: found 1, expected 0",
    "scale of the bias": "scale of the bias: found (0.25,), expected (0.0001220703125,)",
    "zero point of the bias": "zero point of the bias: found (1,), expected 0",
    "type of the bias": "type of the bias: found int8, expected int32",
    "bias": "bias: found b_codes, computed at run time, expected a constant",
    "shape of the bias": "shape of the bias: found (1,), expected (5,)",
    "alpha of addmm": "alpha: found 2, expected 1",
    "beta": "beta: found 0.5, expected 1",
    "groups of a transposed convolution": "groups: found 2, expected 1",
    "dilation of a transposed convolution": "dilation: found (1, 2), expected (1, 1)",
    "rank of the input of a convolution": "rank of the input: found 5, expected 3 or 4",
    "ceil_mode of a max pool": "ceil_mode: found True, expected False",
    "axis of scales": "axis of scales: found 0, expected 1",
    "operator": "operator: found aten.sin.default, expected one that the compiler knows",
    "real output": "output: found aten_abs_default, expected the result of a quantize node",
    "output without quantization": "result without quantization: "
    "found no quantize node after it, expected a quantize node",
    "no outputs": "outputs: found (), expected one or more nodes",
    "real input": "type of an input: found torch.float32, expected torch.int8",
    "unread input": "reader of an input: found none, expected a dequantize node",
    "operator between others": "operator: found aten.sin.default, expected one that the compiler knows",
    "operand that is no node": "operand: found 2, expected a tensor that the delegate computes",
    "no tensor": "result: found NoneType, expected a tensor",
    "dynamic sizes": "shape: found (2, s69), expected static sizes",
    "scale 0": f"scale: found 0.0, {FLOATS}",
    "scale of no number": f"scale: found nan, {FLOATS}",
    "scale that is 0 in float32": f"scale: found 1e-50, {FLOATS}",
    "subnormal scale": f"scale: found 1e-39, {FLOATS}",
    "scale that float32 lacks": f"scale: found 1e+39, {FLOATS}",
    "computed scale": "quantization that is not constant: found x_codes, -7, expected numbers",
    "computed zero point": "quantization that is not constant: found 0.03125, x_codes, expected numbers",
    "high zero point": "zero point: found 128, expected an int8 code",
    "low zero point": "zero point: found -129, expected an int8 code",
    "range without -128": "quantized type: found torch.int8 in [-127, 127], expected torch.int8 in [-128, 127]",
    "range without 127": "quantized type: found torch.int8 in [-128, 126], expected torch.int8 in [-128, 127]",
    "unsigned codes": "quantized type: found torch.uint8 in [-128, 127], expected torch.int8 in [-128, 127]",
    "codes read with another scale": "scale and zero point: "
    "found Quantisation(scales=(0.5,), zero_points=(3,), axis=0), "
    "expected Quantisation(scales=(0.05000000074505806,), zero_points=(3,), axis=0)",
    "indices of a pooling": "output of a pooling: found 1, expected 0, the maxima",
    "computed codes by channel": "quantization of a computed value: "
    "found quantized_decomposed.dequantize_per_channel.default, "
    "expected quantized_decomposed.dequantize_per_tensor.default",
    "computed scales by channel": "per-channel parameters: found x_codes, expected constants",
    "computed zero points by channel": "per-channel parameters: found x_codes, expected constants",
    "constant without data": "constant: found a tensor without data, expected a tensor with data",
    "reshaped constant by channel": "reshaped constant: found a scale per channel, expected one scale",
}
"""What the error of each program says, after the node and its operator."""
