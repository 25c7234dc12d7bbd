"""Programs that the Ethos-U compiler refuses, one or more for each of its refusals, with what it says."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from ethosu_runs import blob_of, compiled
from lowering_graphs import IMAGE, OTHER, Operation, Q, X, activation, constant, convolution, graph
from refusing import Damaged, argument, forgotten, inserted, node, returned
from torch.export import ExportedProgram
from tosa_graph_families import TO_COPY, indices, integers, unary

from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step, Value

PLAIN = Quant(2.0**-8, 0, -127)
Z = activation("z", IMAGE, OTHER)
TRANSPOSED = convolution("", (1, 4, 5, 6), (2, 3), 4, groups=2, transposed=True, per_channel=False)

W = Quant((2.0**-8, 2.0**-7, 2.0**-6, 2.0**-5), 0, -127, axis=0)
INT16 = Quant(0.001, 0, -32767, 32767, None, "int16")
CONV = convolution("", (1, 4, 5, 6), (2, 3), 4)
TURNED = convolution("", (1, 4, 5, 6), (2, 3), 4, transposed=True, per_channel=False)


def step(op: str, *args: Any, values: tuple[Value, ...] = (activation("x", IMAGE),), **options: Any) -> Graph:
    """One operator on given values, of which none is quantized after it unless `y` says how."""
    op = op if op == TO_COPY else f"aten.{op}" if "." in op else f"aten.{op}.default"
    y, outputs, kwargs = options.pop("y", None), options.pop("outputs", 1), tuple(options.items())
    return graph(values, [Step("y", op, args, kwargs, y, outputs)], [Ref("y")])


def gaps(program: ExportedProgram) -> None:
    """An operand whose rows do not lie next to each other."""
    node(program, "dequantize").meta["val"] = torch.empty_strided((4, 6), (12, 2), device="meta")


def pair(name: str, second: Value, *rest: object, shape: tuple[int, ...] = IMAGE, **options: Any) -> Graph:
    """An operator on x and one more value."""
    return step(name, X, Ref(second.name), *rest, values=(activation("x", shape), second), **options)


MASK = integers("m", IMAGE, "bool", 0, 1)
CHANNELS = constant("w", (4, 3), W)
PROGRAMS: dict[str, Graph | Operation | Damaged] = {
    "numbers are converted": step(TO_COPY, X, dtype=torch.int32),
    "logic of numbers": pair("logical_and", activation("z", IMAGE)),
    "condition of integers": Damaged(
        step("where.self", Ref("m"), X, Ref("z"), values=(MASK, activation("x", IMAGE), activation("z", IMAGE)), y=Q),
        argument("where", 0, "x_codes"),
    ),
    "argmax of all": step("argmax", X, values=(integers("x", (2, 3), "int8"),)),
    "argmax of int32": step("argmax", X, 1, values=(integers("x", (2, 3)),)),
    "pool of int32": step("max_pool2d", X, (2, 2), (2, 2), values=(integers("x", (1, 2, 4, 4)),)),
    "rows of real numbers": step(
        "embedding", Ref("w"), Ref("i"), values=(Value("w", (4, 3), None, constant=True), indices("i", (2,), 4))
    ),
    "8-bit indices": Damaged(
        step(
            "index_select", X, 0, Ref("i"),
            values=(activation("x", (4, 3)), indices("i", (2,), 4), integers("k", (2,), "int8", 0, 3)), y=Q,
        ),
        argument("index_select", 2, "x_codes"),
    ),
    "gather along the first axis": step(
        "gather", X, 0, Ref("k"), values=(activation("x", (2, 5)), indices("k", (2, 5), 2)), y=Q
    ),
    "gather of fewer batches": step(
        "gather", X, 1, Ref("k"), values=(activation("x", (2, 5)), indices("k", (1, 3), 5)), y=Q
    ),
    "mask of several values": step(
        "index_put", X, (Ref("m"),), Ref("v"),
        values=(activation("x", (2, 3)), replace(MASK, shape=(2,)), activation("v", (1, 3))), y=Q,
    ),
    "16-bit weights": replace(CONV, more=(constant("w", (4, 4, 2, 3), INT16), CONV.more[1])).graph(),
    "8-bit bias": replace(CONV, more=(CONV.more[0], constant("b", (4,), Q))).graph(),
    "one axis, transposed": convolution("", (1, 3, 5), (4,), 2, transposed=True, per_channel=False).graph(),
    "weights at run time, transposed": replace(
        TURNED, more=(activation("w", (4, 4, 2, 3), PLAIN), TURNED.more[1])
    ).graph(),
    "a list of weights": step(
        "linear", X, Ref("w"), values=(activation("x", (2, 5)), constant("w", (5,), PLAIN)), y=Q
    ),
    "matrices of two types": pair("mm", activation("z", (5, 3), INT16), shape=(2, 5), y=Q),
    "unsigned result": step(TO_COPY, X, values=(integers("x", (2, 3)),), dtype=torch.uint8),
    "operand with scales": pair("add.Tensor", CHANNELS, shape=(4, 3), y=Q),
    "turned constant with scales": graph(
        [CHANNELS, activation("x", (4, 3))],
        [Step("p", "aten.flip.default", (Ref("w"), (1,))), Step("y", "aten.add.Tensor", (X, Ref("p")), (), Q)],
    ),
    "expanded constant with scales": graph(
        [CHANNELS, activation("x", (2, 4, 3))],
        [
            Step("p", "aten.expand_copy.default", (Ref("w"), (2, 4, 3))),
            Step("y", "aten.add.Tensor", (X, Ref("p")), (), Q),
        ],
    ),
    "indices of a pool": graph(
        [activation("x", (1, 2, 4, 4))],
        [Step("p", "aten.max_pool2d_with_indices.default", (X, (2, 2), (2, 2)), (), None, 2)],
        [Ref("p", 1)],
    ),
    "gaps in memory": Damaged(unary("as_strided_copy", (4, 6), (4, 6), (6, 1)).graph(), gaps),
    "negative borders": step("pad", X, (-1, 1, 0, 0), "circular", y=Q),
    "borders of real numbers": step(
        "constant_pad_nd", Ref("w"), (1, 1), values=(Value("w", (2, 3), None, constant=True),)
    ),
    "codes of another type": Damaged(
        unary("abs", (2, 3), x=Quant(0.05)).graph(), argument("dequantize", 5, torch.int16)
    ),
    "scales at run time": pair("mm", activation("w", (4, 3), W), shape=(2, 4), y=Q),
    "zero points per channel": pair("add.Tensor", constant("w", (4, 3), replace(W, zero_point=3)), shape=(4, 3), y=Q),
    "numbers beside integers": step(
        "where.self", Ref("m"), X, Ref("z"),
        values=(MASK, activation("x", IMAGE), integers("z", IMAGE, "int8")), y=Q,
    ),
    "few codes of 32 bits": Damaged(
        unary("abs", y=Quant(0.1, 0, -9, 9, None, "int32")).graph(), argument("decomposed_quantize", 3, -9)
    ),
    "constant without data": Damaged(CONV.graph(), forgotten),
    "unsigned constant": pair("add.Tensor", replace(integers("z", IMAGE, "uint8", 0, 3), constant=True)),
    "large constant": step("full", (2,), 2**40, values=(activation("x", (2,)),), dtype=torch.int64),
    "alpha": Operation("", "aten.add.Tensor", IMAGE, (Ref("z"),), more=(Z,), kwargs=(("alpha", 2),)),
    "second operand": Operation("", "aten.remainder.Tensor", IMAGE, (Ref("z"),), more=(Z,)),
    "operator": Operation("", "aten._softmax.default", IMAGE, (1, False)),
    "axis of the weights' scales": replace(
        CONV, more=(replace(CONV.more[0], quant=replace(PLAIN, scale=(2.0**-8,) * 4, axis=1)), CONV.more[1])
    ),
    "weights of groups": replace(
        convolution("", (1, 4, 5, 6), (2, 3), 4, groups=4), more=(activation("w", (4, 1, 2, 3), PLAIN), CONV.more[1])
    ),
    "dilation": convolution("", (1, 4, 5, 6), (2, 3), 4, dilation=(2, 2), transposed=True),
    "scales of the weights of groups": replace(
        TRANSPOSED,
        more=(replace(TRANSPOSED.more[0], quant=replace(PLAIN, scale=(0.1, 0.2), axis=1)), TRANSPOSED.more[1]),
    ),
    "size of the bias": replace(CONV, more=(CONV.more[0], constant("b", (3,), Quant(0.1, 0, -9, 9, None, "int32")))),
    "bias": replace(CONV, more=(CONV.more[0], activation("b", (4,), Q))),
    "stride of a dilated pool": unary("max_pool2d", (1, 3, 8, 8), (2, 2), (2, 2), (0, 0), (2, 2)),
    "accumulate": Operation(
        "",
        "aten.index_put.default",
        (3, 5),
        ((Ref("i"),), Ref("v"), True),
        more=(integers("i", (2,), "int32", 0, 2), activation("v", (2, 5))),
    ),
    "indices": Operation(
        "", "aten.index.Tensor", (3, 5), ((None, Ref("i")),), more=(integers("i", (2,), "int32", 0, 2),)
    ),
    "resizing": unary("upsample_nearest2d.vec", (1, 1, 1, 1), (1025, 1025), None),
    "storage_offset": unary("as_strided_copy", (4, 6), (2, 3), (3, 1), 1),
    "stride": unary("as_strided_copy", (4, 6), (2, 3), (6, 1)),
    "rank of the input": unary("sum.dim_IntList", (), ()),
    "scales of operands and result": unary("mul.Tensor", IMAGE, X, x=Quant(1e6), y=Quant(1e-6)),
    "operand": unary("any.dim", IMAGE, 1),
    "exact shrinking": unary("upsample_bilinear2d.vec", (1, 2, 16, 32), (1, 2), False, None),
    "shrinking between corners": unary("upsample_bilinear2d.vec", (1, 2, 32, 32), (2, 2), True, None),
    "large stride of windows apart": unary("max_pool2d", (1, 3, 9, 9), (5, 4), (4, 4)),
    "large stride with padding": unary("max_pool2d", (1, 3, 9, 9), (5, 5), (5, 5), (1, 1)),
    "a number that several codes equal": step("eq.Scalar", X, 0.0, values=(activation("x", IMAGE, Quant(1e-46)),)),
    "number beside an integer": pair("maximum", integers("z", IMAGE), y=Q),
    "wide result of an 8-bit table": unary("sigmoid", y=INT16),
    "shifted codes of 16 bits": Operation("", "aten.neg.default", IMAGE, y=replace(INT16, zero_point=5)),
    "gather of four dimensions": step(
        "gather", X, 1, Ref("k"), values=(activation("x", IMAGE), indices("k", IMAGE, 3)), y=Q
    ),
    "a mask and an index": step(
        "index_put", X, (Ref("m"), Ref("n")), Ref("v"),
        values=(activation("x", (2, 3)), replace(MASK, shape=(2,)), indices("n", (2,), 3), activation("v", ())), y=Q,
    ),
    "two masks": step(
        "index_put", X, (Ref("m"), Ref("n")), Ref("v"),
        values=(activation("x", (2, 3)), replace(MASK, shape=(2,)), replace(MASK, name="n", shape=(2,)),
                activation("v", ())), y=Q,
    ),
    "large negative constant": step("full", (2,), -(2**31) - 1, values=(activation("x", (2,)),), dtype=torch.int64),
    "large positive constant": step("full", (2,), 2**31, values=(activation("x", (2,)),), dtype=torch.int64),
    "plain bias": replace(CONV, more=(CONV.more[0], replace(integers("b", (4,)), constant=True))),
    "plain weights": replace(CONV, more=(replace(integers("w", (4, 4, 2, 3), "int8"), constant=True), CONV.more[1])),
    "real output": Damaged(unary("abs", (2, 3)).graph(), returned("aten_abs")),
    "real output of a copy": Damaged(unary("view_copy", (2, 3), (3, 2)).graph(), returned("aten_view")),
    "operand without codes": Damaged(unary("abs", (2, 3)).graph(), inserted("aten.neg.default", "aten_abs")),
    "no outputs": Damaged(unary("abs", (2, 3)).graph(), returned()),
    "computed scale": Damaged(unary("abs", (2, 3)).graph(), argument("dequantize", 1, "x_codes")),
    "scale 0": Damaged(unary("abs", (2, 3)).graph(), argument("decomposed_quantize", 1, 0.0)),
    "scale of no number": Damaged(unary("abs", (2, 3)).graph(), argument("decomposed_quantize", 1, math.nan)),
    "infinite scale": Damaged(unary("abs", (2, 3)).graph(), argument("decomposed_quantize", 1, math.inf)),
    "high zero point": Damaged(unary("abs", (2, 3)).graph(), argument("decomposed_quantize", 2, 128)),
    "low zero point": Damaged(unary("abs", (2, 3)).graph(), argument("decomposed_quantize", 2, -129)),
    "unsigned codes": Damaged(unary("abs", (2, 3)).graph(), argument("decomposed_quantize", 5, torch.uint8)),
    "64-bit output": step(TO_COPY, X, values=(integers("x", IMAGE),), dtype=torch.int64),
    "64-bit input": step("neg", X, values=(integers("x", IMAGE, "int64"),)),
    "real input": graph([Value("x", IMAGE, None)], [Step("y", "aten.neg.default", (X,))]),
}  # fmt: skip

ON_U55 = ("exact shrinking", "large stride of windows apart", "large stride with padding")
"""Programs that Ethos-U55 refuses and Ethos-U85 takes."""


def blob(name: str) -> bytes:
    """Compile a program of this name, which raises CompileError."""
    device, program = "u55" if name in ON_U55 else "u85", PROGRAMS[name]
    if isinstance(program, Damaged):
        return blob_of(program.program(), device)
    return compiled(program.graph() if isinstance(program, Operation) else program, device).blob


SAYS = {
    "numbers are converted": "operand: found quantized numbers, expected integers",
    "logic of numbers": "operands: found quantized numbers, expected integers or booleans",
    "condition of integers": "condition: found INT8, expected booleans",
    "argmax of all": "dim: found None, expected a number",
    "argmax of int32": "type of the input: found INT32, expected 8 or 16 bits",
    "pool of int32": "type of the input: found INT32, expected 8 or 16 bits",
    "rows of real numbers": "operand: found numbers that are not quantized, expected codes or integers",
    "8-bit indices": "type of the indices: found INT8, expected int32",
    "gather along the first axis": "dimension: found 0, expected 1 of 2 or 3",
    "gather of fewer batches": "shape of the index: found (1, 3), expected (2, 5)",
    "mask of several values": "mask: found 1 indices, expected one, and one number",
    "16-bit weights": "weights: found INT16, expected int8 codes",
    "8-bit bias": "bias: found INT8, expected int32 codes or numbers",
    "one axis, transposed": "rank of the input: found 3, expected 4",
    "weights at run time, transposed": "weights: found computed at run time, expected constants",
    "a list of weights": "rank of the weight: found 1, expected 2",
    "matrices of two types": "types of the operands: found (torch.int8, torch.int16), expected one type",
    "unsigned result": "type of the result: found torch.uint8, expected bool, int8, int16, int32, or quantized",
    "operand with scales": "quantization of an operand: found a scale per channel, expected one scale",
    "turned constant with scales": "constant: found a scale per channel, expected one scale",
    "expanded constant with scales": "constant: found a scale per channel, expected one scale",
    "indices of a pool": "result of several: found 1, expected 0",
    "gaps in memory": "memory of the operand: found with gaps, expected dense",
    "negative borders": "circular padding: found [-1, 1], expected nothing negative",
    "borders of real numbers": "operand: found numbers that are not quantized, expected codes or integers",
    "codes of another type": "type of the codes: found INT8, expected INT16",
    "scales at run time": "quantization per channel: found w_codes at run time, expected constants",
    "zero points per channel": "zero point per channel: found [3, 3, 3, 3], expected 0",
    "numbers beside integers": "operand: found z, which is not quantized, expected a dequantized tensor",
    "few codes of 32 bits": "range of int32 codes: found (-9, 2147483647), expected all of them",
    "constant without data": "constant: found a tensor without data, expected a tensor with data",
    "unsigned constant": "type of a constant: found torch.uint8, expected bool, int8, int16 or int32",
    "large constant": "int64 constant: found 1099511627776..1099511627776, expected numbers of 32 bits",
    "alpha": "alpha: found 2, expected 1",
    "second operand": "second operand: found z_codes, a tensor, expected a constant of one element",
    "operator": "operator: found aten._softmax.default, expected one that the compiler knows",
    "axis of the weights' scales": "axis of the weights' scales: found 1, expected 0",
    "weights of groups": "weights of groups: found computed at run time, expected constants",
    "dilation": "dilation: found (2, 2), expected (1, 1)",
    "scales of the weights of groups": "scales of the weights of groups: found 2, expected 1",
    "size of the bias": "size of the bias: found 3, expected 4",
    "bias": "bias: found b_codes, computed at run time, expected a constant",
    "stride of a dilated pool": "stride of a dilated pool: found (2, 2), expected 1 where the dilation is not",
    "accumulate": "accumulate: found True, expected False",
    "indices": "indices: found [None, i], expected one for each leading dimension",
    "resizing": "resizing: found scale 2050/2, expected one that RESIZE has",
    "storage_offset": "storage_offset: found 1, expected 0",
    "stride": "stride: found [6, 1], expected (3, 1)",
    "rank of the input": "rank of the input: found 0, expected 1 or more",
    "scales of operands and result": "scales of operands and result: found rescale ratio: "
    "found 1e+18, expected less than 2**29 for TOSA RESCALE, "
    "expected a ratio that RESCALE has",
    "operand": "operand: found quantized numbers, expected booleans or integers",
    "exact shrinking": "scale factor: found 0.0625, expected none below 1 on this device",
    "shrinking between corners": "resizing: found scale 2/62, expected one that RESIZE has",
    "large stride of windows apart": "stride above 3: found kernel (5, 4), padding (0, 0), "
    "expected kernel (4, 4), no padding",
    "large stride with padding": "stride above 3: found kernel (5, 5), padding (1, 1), "
    "expected kernel (5, 5), no padding",
    "a number that several codes equal": "number to compare with: found 0.0, expected one that a single code can equal",
    "number beside an integer": "operand: found z (INT32), expected a tensor quantized in 8 or 16 bits",
    "wide result of an 8-bit table": "result's type: found torch.int16, expected int8, as the operand's",
    "shifted codes of 16 bits": "zero point of torch.int16 codes: found 5, expected 0",
    "gather of four dimensions": "dimension: found 1, expected 1 of 2 or 3",
    "a mask and an index": "mask: found 2 indices, expected one, and one number",
    "two masks": "mask: found 2 indices, expected one, and one number",
    "large negative constant": "int64 constant: found -2147483649..-2147483649, expected numbers of 32 bits",
    "large positive constant": "int64 constant: found 2147483648..2147483648, expected numbers of 32 bits",
    "plain bias": "bias: found INT32, expected int32 codes or numbers",
    "plain weights": "weights: found INT8, expected int8 codes",
    "no outputs": "outputs: found (), expected one or more nodes",
    "real output": "result: found numbers without a quantize after them, expected a quantized result",
    "real output of a copy": "output: found aten_view_copy_default, expected codes or integers",
    "operand without codes": "result: found numbers without a quantize after them, expected a quantized result",
    "computed scale": "quantization: found parameters that are not constant, expected numbers",
    "scale 0": "scale: found 0.0, expected a positive number",
    "scale of no number": "scale: found nan, expected a positive number",
    "infinite scale": "scale: found inf, expected a positive number",
    "high zero point": "zero point: found 128, expected one of -128..127",
    "low zero point": "zero point: found -129, expected one of -128..127",
    "unsigned codes": "quantized type: found torch.uint8, expected int8, int16 or int32",
    "64-bit output": "type of an output: found int64, expected int32",
    "64-bit input": "type of an input: found torch.int64, expected bool, int8, int16 or int32",
    "real input": "type of an input: found torch.float32, expected bool, int8, int16 or int32",
}
"""What the error of each program says, after the node and its operator."""
