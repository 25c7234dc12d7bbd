"""Broken graphs and bytes of TOSA flatbuffers are refused with what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tosa_blobs import ADD, _conv, _made, _same
from tosa_building import Building

from npu_assay.partitioners.ethosu import tosa_schema as schema
from npu_assay.partitioners.ethosu.tosa_format import FormatError, read, write
from npu_assay.partitioners.ethosu.tosa_model import TModel, TOperator, TShape, TTensor
from npu_assay.partitioners.exir import flatbuffer

MAX = _made("REDUCE_MAX", (np.zeros((2, 3)), "INT8"), axis=1)
CAT = _made("CONCAT", (np.zeros((2, 3)), "INT8"), (np.zeros((2, 1)), "INT8"), axis=1)
CLAMP = _made("CLAMP", ([1, 2], "INT8"), min_val=-5, max_val=5)
TURN = _made("TRANSPOSE", (np.zeros((2, 3)), "INT8"), perms=(1, 0))


def _scaled() -> TModel:
    b = Building()
    x = b.input(np.zeros((2, 3)), "INT32")
    constants = [
        b.constant(v, t) for v, t in (([5, 6, 7], "INT32"), ([30, 31, 32], "INT8"), ([0], "INT32"), ([9], "INT8"))
    ]
    attributes: dict[str, Any] = {"scale32": True, "rounding_mode": "SINGLE_ROUND", "per_channel": True}
    return b.program(b.apply("RESCALE", x, *constants, target="INT8", **attributes)).model


def _cut() -> TModel:
    b = Building()
    x = b.input(np.zeros((4, 5)), "INT16")
    return b.program(b.apply("SLICE", x, b.shape([1, 2]), b.shape([3, 3]))).model


CONV, SCALED, CUT = _conv(), _scaled(), _cut()


def _attributes(graph: TModel, **changes: Any) -> TModel:
    """The graph with other attributes of its only operator; None takes one away."""
    operator = graph.operators[0]
    attributes = {name: value for name, value in {**operator.attributes, **changes}.items() if value is not None}
    return replace(graph, operators=(replace(operator, attributes=attributes),))


def _operator(graph: TModel, **changes: Any) -> TModel:
    return replace(graph, operators=(replace(graph.operators[0], **changes),))


def _tensor(graph: TModel, index: int, **changes: Any) -> TModel:
    tensors = list(graph.tensors)
    tensors[index] = replace(tensors[index], **changes)
    return replace(graph, tensors=tuple(tensors))


def _data(graph: TModel, index: int, values: Any) -> TModel:
    tensor = graph.tensors[index]
    assert tensor.data is not None
    return _tensor(graph, index, data=np.asarray(values, tensor.data.dtype))


def _shape(graph: TModel, index: int, *values: int) -> TModel:
    shapes = list(graph.shapes)
    shapes[index] = TShape(shapes[index].name, values)
    return replace(graph, shapes=tuple(shapes))


BROKEN: list[tuple[TModel, str]] = [
    # tensors
    (_tensor(ADD, 0, name=""), "graph: name is '', expected one of its own"),
    (_tensor(ADD, 0, name="t1"), "graph: name is 't1'"),
    (_tensor(ADD, 0, dtype="FP32"), "dtype is FP32"),
    (_tensor(ADD, 0, shape=(1,) * 7), "rank is 7, expected at most 6"),
    (_tensor(ADD, 0, shape=(0, 3)), r"shape is \[0, 3\], expected sizes from 1"),
    (_tensor(ADD, 0, shape=(2**20, 2**20)), "at most 268435456 elements"),
    (_tensor(CONV, 2, data=np.zeros(4, np.int64)), r"data is int64 \[4\], expected int32 \[4\]"),
    (_tensor(CONV, 2, data=np.zeros(5, np.int32)), r"data is int32 \[5\], expected int32 \[4\]"),
    (_tensor(CONV, 2, dtype="INT48", data=np.full(4, 2**47)), "expected numbers of 48 bits"),
    (_shape(CUT, 0, *[0] * 17), "values is .*, expected at most 16"),
    (_shape(CUT, 0, 2**31, 0), "expected at most 16 of 32 bits"),
    # arguments
    (replace(ADD, inputs=("x",)), "argument is 'x', expected the name of a tensor"),
    (replace(ADD, inputs=("t0", "t0")), "input is 't0', expected given once"),
    (replace(CONV, inputs=("t0", "t1")), "input is 't1', expected given once, no constant"),
    (replace(ADD, outputs=()), "outputs is none"),
    (replace(ADD, operators=()), "output is 't2', expected defined by an operator"),
    # order
    (replace(ADD, inputs=("t0",)), "operator 0 ADD: operand is 't1', expected made before its use"),
    (replace(ADD, operators=ADD.operators * 2), "operator 1 ADD: result is 't2', expected made once"),
    (_operator(ADD, outputs=("t0",)), "result is 't0', expected made once"),
    (_operator(ADD, outputs=("t2", "t2")), "results is .'t2', 't2'., expected one tensor"),
    (_operator(ADD, outputs=()), r"results is \[\], expected one tensor"),
    (_operator(ADD, inputs=("t0", "t9")), "operand is 't9', expected the name"),
    # operands
    (_operator(ADD, inputs=("t0",)), "operands is t, expected tt"),
    (_operator(CUT, inputs=("t0", "t0", "t1")), "operands is tts, expected tss"),
    (_operator(CAT, inputs=()), "operands is , expected t$"),
    (_operator(CUT, outputs=("t1",)), "results is .'t1'., expected one tensor"),
    # attributes
    (_operator(ADD, code="ERF"), "operator is ERF, expected one of TOSA's integer profile"),
    (_attributes(ADD, axis=1), r"attributes is \['axis'\], expected \[\] of \[\]"),
    (_attributes(MAX, axis=None), "attributes is"),
    (_attributes(MAX, axis=2**31), "axis is 2147483648, expected a value of that attribute's type"),
    (_attributes(MAX, axis="1"), "axis is '1', expected a value of that attribute's type"),
    (_attributes(MAX, axis=True), "axis is True"),
    (_attributes(MAX, axis=2**31), "axis is 2147483648"),
    (_attributes(MAX, axis=2), "axis is 2, expected from 0 to 1"),
    (_attributes(MAX, axis=-1), "axis is -1"),
    (_attributes(MAX, nan_mode="MAYBE"), "nan_mode is 'MAYBE'"),
    (_attributes(CONV, pad=[1, 1, 0, 0]), "pad is .1, 1, 0, 0., expected a value of that attribute's type"),
    (_attributes(CONV, local_bound=0), "local_bound is 0"),
    # types and shapes
    (_tensor(ADD, 0, dtype="INT8"), "types is .'INT8', 'INT32'., expected one of"),
    (_tensor(ADD, 2, dtype="INT16"), r"result is INT16 \[2, 3\], expected INT32 \[2, 3\]"),
    (_tensor(ADD, 2, shape=(3, 2)), r"result is INT32 \[3, 2\], expected INT32 \[2, 3\]"),
    (_tensor(ADD, 0, shape=(1, 1, 3)), "shapes is .*, expected one rank, sizes equal or 1"),
    (_tensor(ADD, 1, shape=(2, 2)), "shapes is"),
    (_attributes(CLAMP, min_val=6), r"limits is \[6, 5\], expected ascending, of INT8"),
    (_attributes(CLAMP, max_val=128), r"limits is \[-5, 128\]"),
    (_attributes(TURN, perms=(0, 0)), r"perms is \(0, 0\), expected of 2 axes"),
    (_tensor(CAT, 1, shape=(3, 1)), "shapes is .*, expected equal but for axis 1"),
    (_shape(CUT, 0, 2, 2), "start and size is"),
    (_shape(CUT, 1, 0, 2), "start and size is"),
    # windows
    (
        _attributes(CONV, pad=(1, 0, 0, 0), stride=(2, 1)),
        "padded side less the window is 3, expected a multiple of the stride 2",
    ),
    (_attributes(CONV, dilation=(5, 1)), "padded side less the window is -4"),
    (_attributes(CONV, stride=(0, 1)), r"stride is \(0, 1\), expected 2 numbers from 1 to 8192"),
    (_attributes(CONV, pad=(1, 1, 0)), "pad is"),
    (_attributes(CONV, pad=(-1, 1, 0, 0)), "pad is"),
    (_attributes(CONV, dilation=(8192, 1)), r"dilation \* kernel is 24576"),
    (_attributes(CONV, acc_type="INT48"), "acc_type is INT48, expected INT32"),
    (_tensor(CONV, 1, shape=(4, 3, 2, 1), data=np.zeros((4, 3, 2, 1), np.int8)), "input channels of the weights is 1"),
    (_tensor(CONV, 2, shape=(3,), data=np.zeros(3, np.int32)), r"bias is INT32 \[3\], expected INT32 \[4\] or \[1\]"),
    (_tensor(CONV, 3, data=None), "operand is 't3', expected made before its use"),
    # rescales
    (_attributes(SCALED, rounding_mode="DOUBLE_ROUND"), "rounding_mode is DOUBLE_ROUND"),
    (_attributes(SCALED, per_channel=False), r"operand 1 is INT32 \[3\], expected INT32 \[1\]"),
    (_attributes(SCALED, scale32=False), r"operand 1 is INT32 \[3\], expected INT16 \[3\]"),
    (_attributes(SCALED, output_unsigned=True), "unsigned types is .'INT32', 'INT8'., expected INT8 and INT16"),
    (_attributes(SCALED, output_unsigned=True, input_unsigned=True), "unsigned is input and output"),
    (_data(SCALED, 1, [5, -1, 7]), "multiplier is -1, expected at least 0"),
    (_data(SCALED, 2, [30, 1, 32]), "shift is 1, expected from 2 to 62"),
    (_data(SCALED, 2, [30, 63, 32]), "shift is 63"),
    (_data(SCALED, 3, [1]), "zero point of INT32 is 1, expected one of .0."),
]


@pytest.mark.parametrize(("graph", "message"), BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_graph_is_refused(graph: TModel, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        write(graph)


@pytest.mark.parametrize("graph", [ADD, MAX, CAT, CLAMP, TURN, CONV, SCALED, CUT])
def test_what_the_broken_graphs_were_made_of_is_accepted(graph: TModel) -> None:
    assert write(graph)


# ------------------------------------------------------------------------------------------------ broken bytes


def _block(record: dict[str, Any]) -> dict[str, Any]:
    block: dict[str, Any] = record["regions"][0]["blocks"][0]
    return block


def _last(record: dict[str, Any]) -> dict[str, Any]:
    operator: dict[str, Any] = _block(record)["operators"][-1]
    return operator


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r["version"].update(_minor=1), "version is"),
        (lambda r: r["version"].update(_draft=True), "version is"),
        (lambda r: r.update(version=None), "version is None"),
        (lambda r: r.update(regions=r["regions"] * 2), "regions is .'main', 'main'., expected one"),
        (lambda r: r.update(regions=None), "regions is"),
        (lambda r: r["regions"][0].update(name="other"), "regions is .'other'."),
        (lambda r: r["regions"][0].update(blocks=[]), r"blocks is \[\], expected one"),
        (lambda r: _block(r).update(tensors=None), "argument is 't0', expected the name of a tensor"),
        (lambda r: _block(r)["tensors"][0].update(name=None), "tensor 0: name is absent"),
        (lambda r: _block(r)["tensors"][0].update(type=7), "type is 7"),
        (lambda r: _block(r)["tensors"][0].update(variable=True), "tensor is variable"),
        (lambda r: _block(r)["tensors"][0].update(is_unranked=True), "tensor is variable"),
        (lambda r: _block(r)["tensors"][0].update(offset=8), "tensor is variable"),
        (lambda r: _block(r)["tensors"][0].update(shape=(2**30, 2**30, 2**30)), "shape is"),
        (lambda r: _block(r)["tensors"][0].update(shape=(-1,)), "shape is"),
        (lambda r: _block(r)["tensors"][1].update(shape=(2**31 - 1,) * 6), "tensor 1: shape is"),
        (lambda r: _block(r)["tensors"][1].update(shape=(1,) * 70), "tensor 1: rank is 70, expected at most 6"),
        (lambda r: _block(r)["tensors"][1].update(shape=(2**31 - 1,) * 500), "tensor 1: rank is 500"),
        (lambda r: _block(r)["tensors"][1].update(data=(1, 2, 3)), "size of the data is 3, expected 72 bytes for INT8"),
        (lambda r: _block(r)["tensors"][3].update(data=None), "operand is 't3', expected made before its use"),
        (lambda r: _last(r).update(op=12), "operator is 12"),
        (lambda r: _last(r).update(op=99), "operator is 99"),
        (lambda r: _last(r).update(op=5), "type of the attributes is 3, expected 5"),
        (lambda r: _last(r).update(attribute=None), "type of the attributes"),
        (lambda r: _last(r).update(inputs=None), "operands is , expected tttcc"),
        (lambda r: _last(r).update(outputs=None), "results is"),
        (lambda r: _last(r)["attribute"].update(acc_type=7), "acc_type is 7, expected one of .5, 6."),
        (lambda r: _last(r)["attribute"].update(pad=None), r"pad is \(\)"),
        (
            lambda r: _block(r)["operators"].pop(0),
            "operator 2: operands is .*, expected constants made before their use",
        ),
        (lambda r: _block(r)["operators"].append(_block(r)["operators"].pop(0)), "operands is .*, expected constants"),
        (
            lambda r: _block(r)["operators"].insert(0, _block(r)["operators"][0]),
            "constant is .*, expected one with data",
        ),
        (lambda r: _block(r)["operators"][0].update(outputs=("t0",)), "constant is"),
        (lambda r: _block(r)["operators"][0].update(outputs=None), "constant is"),
        (lambda r: _block(r)["operators"][0].update(outputs=_block(r)["operators"][0]["outputs"] * 2), "constant is"),
        (lambda r: _block(r)["operators"][0].update(inputs=("t0",)), "constant is"),
        (lambda r: _block(r)["operators"][0].update(attribute_type=75), "attributes is 75, expected 67"),
    ],
)
def test_flatbuffers_that_lie_are_refused(change: Callable[[dict[str, Any]], Any], message: str) -> None:
    record = flatbuffer.read(schema.GRAPH, write(CONV), schema.IDENTIFIER)
    assert _same(CONV, read(flatbuffer.write(schema.GRAPH, record, schema.IDENTIFIER)))
    change(record)
    with pytest.raises(FormatError, match=message):
        read(flatbuffer.write(schema.GRAPH, record, schema.IDENTIFIER))


@pytest.mark.parametrize(("data", "refused"), [((0, 0, 0, 0), False), ((0, 0, 1, 0), True), ((0, 0, 0, 1), True)])
def test_a_weight_zero_point_may_be_there_once_for_every_output(data: tuple[int, ...], refused: bool) -> None:
    record = flatbuffer.read(schema.GRAPH, write(CONV), schema.IDENTIFIER)
    zero = next(op["inputs"][4] for op in _block(record)["operators"] if op["op"] == schema.OPERATORS["CONV2D"].number)
    next(tensor for tensor in _block(record)["tensors"] if tensor["name"] == zero)["data"] = data
    blob = flatbuffer.write(schema.GRAPH, record, schema.IDENTIFIER)
    if refused:
        with pytest.raises(FormatError, match="size of the data is 4, expected 1 bytes for INT8"):
            read(blob)
    else:
        assert _same(CONV, read(blob))


def test_booleans_are_0_or_1() -> None:
    graph = TModel(
        (TTensor("x", (2,), "BOOL", np.array([True, False])), TTensor("y", (2,), "BOOL")),
        (),
        (TOperator("LOGICAL_NOT", ("x",), ("y",)),),
        (),
        ("y",),
    )
    record = flatbuffer.read(schema.GRAPH, write(graph), schema.IDENTIFIER)
    _block(record)["tensors"][0]["data"] = (1, 2)
    with pytest.raises(FormatError, match="data is 2, expected 0 or 1"):
        read(flatbuffer.write(schema.GRAPH, record, schema.IDENTIFIER))
