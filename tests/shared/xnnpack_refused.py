"""Programs that the XNNPACK compiler refuses, one or more for each of its refusals, with what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from refusing import Damaged, argument, attached, forgotten, node, valued
from torch.export import ExportedProgram
from xnnpack_graphs import WEIGHT, Q, coded, graph, program, real, step

from npu_assay.conformance.programs.graph import Graph, Quant
from npu_assay.partitioners.exir.ops import edge_op
from npu_assay.partitioners.xnnpack import XnnpackBackend

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
ROWS = replace(WEIGHT, scale=(0.01, 0.02, 0.03), axis=0)
ABS = graph([coded("x", 2, 3)], [step("y", "abs", "x", quant=Q)])
TWICE = graph([coded("x", 2, 3)], [step("v", "abs", "x", quant=Q), step("y", "abs", "v", quant=Q)])
W = coded("w", 3, 4, quant=WEIGHT, constant=True)


def retargeted(program: ExportedProgram) -> None:
    """Another operator with the same arguments."""
    node(program, "aten_abs").target = edge_op("aten.erf.default")


PROGRAMS: dict[str, Graph | Damaged] = {
    "operator": unary("erf"),
    "alpha": graph([real("x", 2), real("z", 2)], [step("y", "add.Tensor", "x", "z", alpha=2)]),
    "scales of elu": unary("elu", 1.0, 2.0),
    "approximate gelu": unary("gelu", approximate="tanh"),
    "cube": unary("pow.Tensor_Scalar", 3),
    "softmax over rows": unary("_softmax", 0, False),
    "prelu of a matrix": graph([real("x", 2, 3), real("s", 3, constant=True)], [step("y", "prelu", "x", "s")]),
    "computed slopes": graph([real("x", *IMAGE), real("s", 3)], [step("y", "prelu", "x", "s")]),
    "step of a slice": unary("slice_copy.Tensor", 1, 0, 3, 2),
    "open slice": unary("slice_copy.Tensor", 1, 0, 2, dynamic=(0,)),
    "negative padding": unary("constant_pad_nd", [-1, 1], 0.0),
    "counted padding": unary("avg_pool2d", [2, 2], [2, 2], [1, 1], shape=IMAGE),
    "ceil_mode": unary("avg_pool2d", [2, 2], [2, 2], [0, 0], True, shape=IMAGE),
    "divisor": unary("avg_pool2d", [3, 2], [2, 2], [0, 0], False, True, 3, shape=IMAGE),
    "pool of rank 3": unary("avg_pool2d", [2, 2], [2, 2], shape=IMAGE[1:]),
    "open ceil_mode": unary("max_pool2d", [2, 2], [2, 2], [0, 0], [1, 1], True, shape=IMAGE, dynamic=(2,)),
    "mean of rows": unary("mean.dim", [1], True, shape=IMAGE),
    "mean without its axes": unary("mean.dim", [2, 3], False, shape=IMAGE),
    "mean in another type": unary("mean.dim", [2, 3], True, shape=IMAGE, dtype=torch.float32),
    "maximum over channels": unary("max.dim", 1, True, shape=IMAGE),
    "open resize": unary("upsample_bilinear2d.vec", None, False, [2.0, 2.0], shape=IMAGE, dynamic=(2,)),
    "weights of a convolution": convolved(real("w", 4, 3, 2, 2)),
    "zero point of the weights": product(replace(W, quant=replace(WEIGHT, zero_point=1))),
    "computed codes": product(replace(W, constant=False)),
    "a product of codes without codes behind it": product(W, quant=None),
    "factor of addmm": graph(
        [real("x", 2, 4), real("w", 4, 3, constant=True), real("b", 3, constant=True)],
        [step("y", "addmm", "b", "x", "w", beta=2)],
    ),
    "requantisation": product(replace(W, quant=replace(WEIGHT, scale=300.0)), quant=replace(Q, scale=0.05)),
    "open sizes": unary("unsqueeze_copy", 0, shape=(2, 3, 4), dynamic=(0, 1)),
    "a batch norm of rank 5": normalised((2, 3, 4, 5, 6)),
    "computed mean": normalised((2, 3), computed=("m",)),
    "computed variance": normalised((2, 3), computed=("v",)),
    "8 bits by group": graph(
        [coded("x", 2, 64), coded("w", 3, 64, quant=GROUPS, constant=True)],
        [step("y", "linear", "x", "w", quant=Q)],
    ),
    "rank 7": unary("abs", shape=(1,) * 7),
    "float64": graph([real("x", 2, dtype="float64")], [step("y", "abs", "x")]),
    "computed scale": Damaged(ABS, argument("decomposed_quantize", 1, "x_codes")),
    "scale 0": Damaged(ABS, argument("decomposed_quantize", 1, 0.0)),
    "codes read with another scale": Damaged(TWICE, argument("dequantize_per_tensor_default_1", 1, 0.25)),
    "codes that nothing reads": Damaged(ABS, argument("dequantize", 1, "x_codes")),
    "computed scales by channel": Damaged(product(replace(W, quant=ROWS)), argument("per_channel", 1, "x_codes")),
    "zero points by channel": product(replace(W, quant=replace(ROWS, zero_point=1))),
    "constant of another type": graph(
        [real("x", 2), real("z", 2, dtype="float64", constant=True)], [step("y", "add.Tensor", "x", "z")]
    ),
    "kind of node": Damaged(ABS, attached),
    "operand that is no node": Damaged(ABS, argument("aten_abs", 0, 2.0)),
    "second of several": Damaged(unary("max.dim", 2, True, shape=IMAGE), argument("getitem", 1, 1)),
    "no outputs": Damaged(ABS, argument("output", 0, ())),
    "another operator": Damaged(ABS, retargeted),
    "no tensor": Damaged(ABS, valued("x_codes", None)),
    "constant without data": Damaged(product(W), forgotten),
}


def blob(name: str) -> bytes:
    """Compile a program of this name, which raises CompileError."""
    made = PROGRAMS[name]
    found = made.program() if isinstance(made, Damaged) else program(made)
    return XnnpackBackend.preprocess(found, []).processed_bytes


SAYS = {
    "operator": "operator: found aten.erf.default, expected one that the compiler knows",
    "alpha": "alpha: found 2, expected 1",
    "scales of elu": "scales: found (2.0, 1), expected (1, 1)",
    "approximate gelu": "approximate: found tanh, expected none",
    "cube": "exponent: found 3, expected 2",
    "softmax over rows": "dim: found 0, expected the last one",
    "prelu of a matrix": "operands: found other ones, expected rank 4, a constant",
    "computed slopes": "operands: found other ones, expected rank 4, a constant",
    "step of a slice": "step: found 2, expected 1",
    "open slice": "dynamic sizes: found (0,), expected none",
    "negative padding": "pad: found negative, expected 0 or more",
    "counted padding": "padding: found counted, expected not counted",
    "ceil_mode": "padding: found counted, expected not counted",
    "divisor": "divisor: found 3, expected 6",
    "pool of rank 3": "rank: found 3, expected 4",
    "open ceil_mode": "sizes in ceil_mode: found open, expected fixed",
    "mean of rows": "reduction: found dims [1], keepdim True, expected [2, 3], True",
    "mean without its axes": "reduction: found dims [2, 3], keepdim False, expected [2, 3], True",
    "mean in another type": "reduction: found dims [2, 3], keepdim True, expected [2, 3], True",
    "maximum over channels": "reduction: found dim 1, keepdim True, expected a fixed spatial one",
    "open resize": "output size: found open, expected fixed",
    "weights of a convolution": "weights: found computed, expected constants of the input's rank, 3 or 4",
    "zero point of the weights": "zero point of the weights: found 1, expected 0",
    "computed codes": "quantized weights: found computed ones, expected int8 constants",
    "a product of codes without codes behind it": "result on codes: "
    "found output, expected a quantize node alone after it",
    "factor of addmm": "beta: found 2, expected 1",
    "requantisation": "input scale * filter scale / output scale: found 300.0, expected below 256.0",
    "open sizes": "dynamic sizes: found 2, expected at most one",
    "a batch norm of rank 5": "rank: found 5, expected 2 to 4",
    "computed mean": "statistics: found computed, expected constants",
    "computed variance": "statistics: found computed, expected constants",
    "8 bits by group": "weights with a scale per group: found 8 bits, expected 4 bits",
    "rank 7": "rank: found 7, expected from 1 to 6",
    "float64": "type of the result: "
    "found torch.float64, expected [torch.float32, torch.float16, torch.bfloat16, torch.int8]",
    "computed scale": "quantization: "
    "found parameters that are not constant, expected int8, a positive float32 scale, an int8 zero point",
    "scale 0": "quantization: found scale 0.0, expected int8, a positive float32 scale, an int8 zero point",
    "codes read with another scale": "scale and zero point: "
    "found PerTensor(scale=0.25, zero_point=3), expected PerTensor(scale=0.05000000074505806, zero_point=3)",
    "codes that nothing reads": "reader of codes: found none, expected a dequantize with constant parameters",
    "computed scales by channel": "scales of the weights: found computed ones, expected constants",
    "zero points by channel": "zero points of the weights: found other numbers, expected 0",
    "constant of another type": "type of a constant: "
    "found torch.float64, expected [torch.float32, torch.float16, torch.bfloat16, torch.int8]",
    "kind of node": "node: found get_attr, expected a function call",
    "operand that is no node": "operand: found 2.0, expected a tensor that the delegate computes",
    "second of several": "result of several: found 1, expected 0",
    "no outputs": "outputs: found (), expected one or more nodes",
    "another operator": "operator: found aten.erf.default, expected one that the compiler knows",
    "no tensor": "result: found NoneType, expected a tensor",
    "constant without data": "constant: found a tensor without data, expected a tensor with data",
}
"""What the error of each program says, after the node and its operator."""
