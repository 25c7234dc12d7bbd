"""XNNPACK delegate blobs: round trips, the layout of the bytes, the rules that any subgraph keeps, hostile bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from hostile import outcomes
from xnn_models import (
    CONVOLUTION,
    INFINITY,
    MODELS,
    POOL,
    X,
    Y,
    bias,
    chain,
    coded,
    dynamic,
    model,
    number,
    one,
    unary,
    weights,
)

from npu_assay.partitioners.common.machine import InputError
from npu_assay.partitioners.exir import flatbuffer
from npu_assay.partitioners.xnnpack import xnn_schema as schema
from npu_assay.partitioners.xnnpack.runtime import Port, XnnpackRuntime
from npu_assay.partitioners.xnnpack.xnn_format import FormatError, parts, read, write
from npu_assay.partitioners.xnnpack.xnn_model import (
    ABSENT,
    KEEP_DIMS,
    PerChannel,
    PerGroup,
    PerTensor,
    PerToken,
    Quantisation,
    XModel,
    XNode,
    XValue,
    packed_int4,
    unpacked_int4,
)
from npu_assay.partitioners.xnnpack.xnn_shapes import output_shape

NUMBERS = number("fp32", 2, 3)
ABS = unary("Abs", NUMBERS, NUMBERS)
NAN = float("nan")


# ------------------------------------------------------------------------------------------------ round trips


def _same(a: object, b: object) -> bool:
    """Equality that looks into records and arrays."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, (XValue, PerChannel, PerGroup, XNode, XModel)) and type(a) is type(b):
        return all(_same(getattr(a, field.name), getattr(b, field.name)) for field in fields(a))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return a == b


@pytest.mark.parametrize("name", MODELS)
def test_round_trip(name: str) -> None:
    blob = write(MODELS[name])
    assert _same(read(blob), MODELS[name])
    assert write(read(blob)) == blob == write(MODELS[name])


def test_the_models_use_every_operator_and_type() -> None:
    assert {node.op for graph in MODELS.values() for node in graph.nodes} == set(schema.OPERATORS)
    assert {value.dtype for graph in MODELS.values() for value in graph.values} == set(schema.DTYPES)


def test_a_difference_is_noticed() -> None:
    other = replace(MODELS["0-Softmax-fp32"], channels_last=(0,))
    assert not _same(other, MODELS["0-Softmax-fp32"])
    values = (weights("qcint8", 3, 4), weights("qcint8", 3, 4, axis=1))
    assert not _same(*values)


@pytest.mark.parametrize("columns", [1, 2, 5, 32])
def test_pairs_of_four_bit_codes(columns: int) -> None:
    """Even columns are the low halves, codes are stored with 8 added, and 8 fills an odd row."""
    found = (np.arange(3 * columns) % 16 - 8).astype(np.int8).reshape(3, columns)
    pairs = packed_int4(found)
    assert pairs.shape == (3, (columns + 1) // 2) and np.array_equal(unpacked_int4(pairs, columns), found)
    assert int(pairs[0, 0]) == int(found[0, 0] + 8) | (int(found[0, 1] + 8 if columns > 1 else 8) << 4)


# ------------------------------------------------------------------------------------------------ the bytes


def test_the_header_says_where_the_parts_are() -> None:
    """Magic at byte 4, then u16 size, u32 place and size of the flatbuffer, u32 place and u64 size of constants."""
    first, second = weights("qcint8", 3, 5), bias("fp32", 3)
    blob = write(dynamic(first, second))
    magic, size, start, length, behind, extent = struct.unpack_from("<4x4sHIIIQ", blob)
    assert (magic, size, start) == (b"XH00", 30, 32) and blob[:4] == bytes(4) and blob[30:32] == bytes(2)
    assert blob[start + 4 : start + 8] == b"XN01"
    assert behind % 16 == 0 and set(blob[start + length : behind]) <= {0}
    assert behind + extent == len(blob)


def test_a_header_may_reach_to_the_flatbuffer_and_a_graph_have_no_constants() -> None:
    graph = dynamic(weights("qcint8", 3, 5), bias("fp32", 3))
    blob = write(graph)
    assert write(read(_header(size=32)(blob))) == blob


def test_inputs_and_outputs_have_their_flag() -> None:
    record, _ = parts(write(chain(NUMBERS, [(XNode("Abs", (0,), ()), NUMBERS), (XNode("Negate", (1,), ()), NUMBERS)])))
    assert [each["xvalue_union"]["flags"] for each in record["xvalues"]] == [1, 0, 2]


def test_constants_are_aligned_padded_and_stored_once() -> None:
    """Codes 15 bytes, scales 12, bias 12; each from a multiple of 16, and 128 zeros to read past the end."""
    matrix, added = weights("qcint8", 3, 5), bias("fp32", 3)
    graph = dynamic(matrix, added)
    blob = write(graph)
    behind, extent = struct.unpack_from("<IQ", blob, 18)
    assert extent == 3 * 16 + 128 and blob[-128:] == bytes(128)
    assert matrix.data is not None and blob[behind : behind + 15] == matrix.data.tobytes()
    assert blob[behind + 15] == 0
    twice = chain(NUMBERS, [(XNode("Add", (0, 1), ()), NUMBERS), (XNode("Add", (3, 2), ()), NUMBERS)], *_equal_rows())
    assert struct.unpack_from("<Q", write(twice), 22) == (16 + 128,)


def _equal_rows() -> tuple[XValue, XValue]:
    return bias("fp32", 3), bias("fp32", 3)


def test_a_model_without_constants_has_no_data() -> None:
    assert struct.unpack_from("<Q", write(ABS), 22) == (0,)


def test_constants_that_the_blob_only_names() -> None:
    """ExecuTorch's compiler stores data elsewhere: they are read from what goes with the blob."""
    graph = one("Add", NUMBERS, bias("fp32", 3))
    record = _record(write(graph))
    record["constant_data"][1] |= {"named_key": "b", "offset": schema.NO_OFFSET}
    data = graph.values[1].data
    assert data is not None
    blob = _blob(record, b"")
    assert _same(read(blob, {"b": data.tobytes() + b"more"}), graph)
    for named in ({}, {"b": b"short"}):
        with pytest.raises(FormatError, match="named constant"):
            read(blob, named)


# ------------------------------------------------------------------------------------------------ broken subgraphs


def _at(index: int, graph: XModel = ABS, **changes: Any) -> XModel:
    """The subgraph with fields of one value replaced."""
    values = list(graph.values)
    values[index] = replace(values[index], **changes)
    return replace(graph, values=tuple(values))


def _quant(quant: Quantisation | None, dtype: str = "qint8") -> XModel:
    value = XValue(dtype, (2, 3), quant)
    return unary("Copy", value, value)


def _node(graph: XModel, **changes: Any) -> XModel:
    (node,) = graph.nodes
    return replace(graph, nodes=(replace(node, **changes),))


def _option(graph: XModel, **options: Any) -> XModel:
    return _node(graph, options={**graph.nodes[0].options, **options})


ADD = one("Add", NUMBERS, NUMBERS)
CODES = one("Add", coded(X, 2, 3), coded(X, 2, 3))
CONV = one("Conv2d", number("fp32", 1, 4, 5, 3), weights("fp32", 4, 3, 3, 3), bias("fp32", 4), **CONVOLUTION)
CAT = one("Concatenate2", NUMBERS, NUMBERS, axis=1)
FULL = one("FullyConnected", coded(X, 2, 4), weights("qcint8", 3, 4), bias("qcint32", 3), y=coded(Y))
CLAMP = one("Clamp", NUMBERS, limits=(0.0, 6.0))
POOLED = one("MaxPooling2d", number("fp32", 1, 4, 5, 3), flags=KEEP_DIMS, **POOL)
MOVED = one("StaticTranspose", NUMBERS, perm=(1, 0))
SLICED = one("StaticSlice", NUMBERS, offsets=(0, 1), sizes=(2, 2))
SHAPED = one("StaticReshape", NUMBERS, new_shape=(0, 2))
PADDED = one("StaticConstantPad", NUMBERS, pre_paddings=(0, 1), post_paddings=(1, 0), padding_value=0.0)
GROUPS = dynamic(weights("qbint4", 3, 64))
ONES = np.ones(3, np.float32)

BROKEN: list[tuple[XModel, str]] = [
    # values
    (_at(0, dtype="fp64"), "value 0: dtype is fp64"),
    (_at(0, shape=()), "value 0: rank is 0, expected from 1 to 6"),
    (_at(0, shape=(1,) * 7), "value 0: rank is 7"),
    (_at(0, shape=(2, 0)), r"value 0: shape is \[2, 0\], expected sizes from 1"),
    (_at(0, shape=(2, -3)), "value 0: shape is"),
    (_at(0, shape=(2**15, 2**15)), "at most 268435456 elements"),
    (_at(2, one("Add", NUMBERS, NUMBERS), data=np.zeros((2, 3), np.float64)), "value 2: data is float64"),
    (_at(1, ADD, data=np.zeros((3, 2), np.float32)), r"data is float32 \[3, 2\], expected float32 \[2, 3\]"),
    (_at(1, ADD, data=np.zeros((2, 3), np.float32)), "constant is argument 1"),
    (_at(0, quant=PerTensor(1.0, 0)), "value 0: quantization is PerTensor, expected none on fp32"),
    # quantization
    (_quant(None), "quantization of qint8 is absent, expected PerTensor"),
    (_quant(PerToken(1)), "quantization of qint8 is PerToken, expected PerTensor"),
    *((_quant(PerTensor(scale, 0)), "scale is") for scale in (0.0, -1.0, NAN, INFINITY, 1e-40, 1e39)),
    *((_quant(PerTensor(1.0, point)), f"zero point is {point}, expected from -128 to 127") for point in (-129, 128)),
    (_quant(PerTensor(1.0, 1), "qint32"), "zero point is 1, expected from 0 to 0"),
    (_quant(PerToken(0), "qdint8"), "nonbatch_dims is 0, expected from 1 to 2"),
    (_quant(PerToken(3), "qdint8"), "nonbatch_dims is 3, expected from 1 to 2"),
    (_quant(PerChannel(ONES, 2), "qcint8"), "axis is 2, expected from 0 to 1"),
    (_quant(PerChannel(ONES, -1), "qcint8"), "axis is -1, expected from 0 to 1"),
    (_quant(PerChannel(ONES, 0), "qcint8"), r"scales is float32 \(3,\), expected float32 \(2,\)"),
    (_quant(PerChannel(ONES.astype("f8"), 1), "qcint8"), "scales is float64"),
    (_quant(PerChannel(np.array([1, 0, 1], np.float32), 1), "qcint8"), "scale is 0.0"),
    (_quant(PerGroup(ONES.reshape(1, 3), 1), "qbint4"), "group is 1, expected a multiple of 32 that divides 3"),
    (
        _at(1, GROUPS, quant=PerGroup(np.full((3, 2), np.nextafter(np.float32(1), np.float32(2))), 32)),
        "more than 8 bits of mantissa",
    ),
    # arguments
    (replace(ABS, inputs=(2,)), "arguments: value id is 2, expected from 0 to 1"),
    (replace(ABS, inputs=(0, 0)), "arguments by value is"),
    (replace(ABS, inputs=()), "arguments by value is"),
    (replace(ABS, outputs=()), "arguments by value is"),
    (_at(0, external=None), "arguments by value is"),
    (_at(1, _at(0, external=1), external=0), "arguments by value is"),
    (replace(ABS, channels_last=(0,)), "channels-last value is 0, expected an argument with 4 axes"),
    (replace(ABS, channels_last=(7,)), "arguments: value id is 7"),
    (replace(ABS, scalars=(0,)), r"scalar value is 0, expected an argument of shape \(1,\)"),
    # nodes
    (_node(ABS, op="Erf"), "operator is Erf"),
    (_node(ABS, inputs=(0, 0)), "arity is 2 to 1, expected 1 to 1"),
    (_node(ABS, outputs=()), "arity is 1 to 0"),
    (_node(ABS, inputs=(2,)), "node 0 Abs: input value is 2, expected from 0 to 1"),
    (_node(ABS, inputs=(ABSENT,)), "input value is -1, expected from 0 to 1"),
    (_node(ABS, outputs=(-1,)), "output value is -1, expected from 0 to 1"),
    (_node(ABS, flags=1), "flags is 0x1, expected no bits but those of 0x0"),
    (_node(ABS, limits=(0.0, 1.0)), "limits is .0.0, 1.0., expected none"),
    (_node(CLAMP, limits=None), "limits is absent"),
    *((_node(CLAMP, limits=pair), "limits is") for pair in ((2.0, 1.0), (NAN, 1.0), (0.0, NAN))),
    (_node(ABS, options={"axis": 1}), r"options is \['axis'\], expected exactly \[\]"),
    (_node(CAT, options={}), r"options is \[\], expected exactly \['axis'\]"),
    # order
    (replace(ABS, nodes=()), "output value is 1, expected defined by a node"),
    (replace(ABS, nodes=ABS.nodes * 2), "output value is 1, expected defined once"),
    (_node(ABS, inputs=(1,)), "input value is 1, expected defined before its use"),
    (_node(ABS, outputs=(0,)), "output value is 0, expected defined once"),
    (
        model(
            [NUMBERS] * 4, [XNode("Add", (0, 2), (1,)), XNode("Abs", (1,), (2,)), XNode("Abs", (2,), (3,))], (0,), (3,)
        ),
        "node 0 Add: input value is 2, expected defined before its use",
    ),
    # options
    (_option(CAT, axis=2), "axis is 2, expected below 2"),
    (_option(CAT, axis=-1), "axis is -1, expected from 0"),
    (_option(CAT, axis="1"), "axis is 1, expected a number"),
    (_option(CONV, kernel_height=0), "kernel_height is 0, expected from 1 to 1048576"),
    (_option(CONV, subsampling_width=0), "subsampling_width is 0"),
    (_option(CONV, dilation_height=0), "dilation_height is 0"),
    (_option(CONV, groups=0), "groups is 0"),
    (_option(CONV, padding_top=2**32 - 1), "padding_top is 4294967295, expected from 0 to 1048576"),
    (_option(CONV, groups=2), "input channels is 3, expected 6"),
    (_option(CONV, kernel_width=2), "shape of the filter"),
    (_option(CONV, dilation_width=4), "padded width is 7, expected at least 9"),
    (_option(POOLED, pooling_height=9), "padded height is 5, expected at least 9"),
    (_option(POOLED, stride_width=3), "shape of the result"),
    (_option(MOVED, perm=(0, 0)), r"perm is \(0, 0\), expected of 2 axes"),
    (_option(MOVED, perm=(0, 1, 2)), "perm is"),
    (_option(MOVED, perm=()), "perm is .., expected 1 to 6 numbers"),
    (_option(SLICED, offsets=(0, 2)), "end of the slice is 4, expected at most 3"),
    (_option(SLICED, offsets=(0,)), "length of offsets is 1, expected 2"),
    (_option(SLICED, sizes=(0, 2)), "sizes is .0, 2., expected 1 to 6 numbers from 1"),
    (_option(SHAPED, new_shape=(0, 0)), "new_shape is .0, 0., expected at most one size 0"),
    (_option(SHAPED, new_shape=(0, 4)), "new_shape is .0, 4., expected sizes that divide 6 elements"),
    (_option(SHAPED, new_shape=(2, 4)), "elements of new_shape is 8, expected 6"),
    (_option(PADDED, pre_paddings=(0, 1, 1)), "length of pre_paddings is 3"),
    (_option(PADDED, pre_paddings=(0, 2**31)), "pre_paddings is"),
    (_option(PADDED, padding_value=NAN), "padding_value is nan, expected a finite number"),
    (_option(one("ELU", NUMBERS, alpha=1.0), alpha=INFINITY), "alpha is inf, expected a finite number"),
    # types and shapes
    (_at(0, dtype="fp16"), r"types is \(fp16\) to fp32, expected one float type"),
    (_at(0, ADD, dtype="fp16"), "types is .fp16, fp32. to fp32"),
    (_at(0, _quant(PerTensor(1.0, 0)), quant=PerTensor(0.5, 0)), "quantization of the result"),
    (unary("Abs", coded(X, 2, 3), coded(X, 2, 3)), "types is .qint8. to qint8, expected one float type"),
    (_at(2, ADD, shape=(3, 2)), r"shape of the result is \[3, 2\], expected \[2, 3\]"),
    (_at(1, ADD, shape=(2, 2)), "expected shapes that broadcast"),
    (_at(0, one("FullyConnected", NUMBERS, weights("fp32", 2, 3)), shape=(2, 2)), "input channels is 2"),
    (_at(3, FULL, quant=PerTensor(1e-6, 0)), "input scale . filter scale / output scale is .*, expected below 256.0"),
    (_at(1, FULL, quant=PerChannel(np.ones(4, np.float32), 1)), "axis of the filter's scales is 1, expected 0"),
    (_at(2, FULL, dtype="qint32", quant=PerTensor(1.0, 0)), "type of the bias is qint32, expected qcint32"),
    (_at(2, FULL, shape=(1,), data=np.zeros(1, np.int32), quant=PerChannel(ONES[:1], 0)), "shape of the bias"),
    (_at(0, FULL, dtype="fp32", quant=None), "types is .fp32, qcint8, .* to qint8, expected float, static or dynamic"),
    (_node(FULL, flags=1), "flags is 0x1, expected 0 with quantized weights"),
    (
        one("FullyConnected", coded(X, 2, 4), replace(weights("qint8", 3, 4), data=None), y=coded(Y)),
        "filter is computed, expected a constant",
    ),
    (
        one("FullyConnected", coded(X, 2, 4), replace(weights("qint8", 3, 4), quant=PerTensor(0.5, 1)), y=coded(Y)),
        "zero point of the filter is 1",
    ),
    (one("Conv2d", number("fp32", 1, 4, 5, 3), number("fp32", 4, 3, 3, 3), **CONVOLUTION), "filter is computed"),
    (unary("Convert", NUMBERS, number("fp16", 2, 3)), "types is .fp32. to fp16"),
    (unary("Convert", coded(X, 2, 3), coded(Y, 2, 3)), "types is .qint8. to qint8"),
    (unary("Convert", XValue("qdint8", (2, 3), PerToken(1)), NUMBERS), "types is .qdint8. to fp32"),
]


@pytest.mark.parametrize(("graph", "message"), BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_subgraph_is_refused(graph: XModel, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        write(graph)


# ------------------------------------------------------------------------------------------------ broken bytes


def _record(blob: bytes) -> dict[str, Any]:
    """The flatbuffer of a blob as records."""
    _, _, start, length, *_ = struct.unpack_from("<4x4sHIIIQ", blob)
    return flatbuffer.read(schema.GRAPH, blob[start : start + length], schema.IDENTIFIER)


def _blob(record: dict[str, Any], data: bytes) -> bytes:
    """A blob of records and constants."""
    graph = flatbuffer.write(schema.GRAPH, record, schema.IDENTIFIER)
    return struct.pack("<4x4sHIIIQ", b"XH00", 30, 32, len(graph), 32 + len(graph), len(data)) + b"\0\0" + graph + data


def _data(blob: bytes) -> bytes:
    behind, extent = struct.unpack_from("<IQ", blob, 18)
    return blob[behind : behind + extent]


def _header(**changes: int) -> Callable[[bytes], bytes]:
    names = {"size": ("<H", 8), "start": ("<I", 10), "length": ("<I", 14), "behind": ("<I", 18), "extent": ("<Q", 22)}

    def change(blob: bytes) -> bytes:
        data = bytearray(blob)
        for name, value in changes.items():
            struct.pack_into(names[name][0], data, names[name][1], value)
        return bytes(data)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda blob: b"", "header: length is 0 bytes, expected at least 30 bytes"),
        (lambda blob: blob[:29], "length is 29 bytes"),
        (lambda blob: blob.replace(b"XH00", b"XH01"), "magic is b'XH01', expected b'XH00'"),
        (lambda blob: blob.replace(b"XN01", b"XN00"), "identifier"),
        (_header(size=29), "header is 29 bytes"),
        (_header(start=0), "header is 30 bytes, flatbuffer at 0"),
        (_header(length=0), "expected parts one after the other"),
        (_header(length=2**32 - 1), "expected one after the other"),
        (_header(behind=40), "expected one after the other"),
        (_header(behind=2**32 - 1), "expected one after the other"),
        (_header(extent=2**64 - 1), "expected one after the other"),
        (_header(extent=0), "extent is 16 to 28, expected within 0 bytes"),
        (lambda blob: blob[:-1], "expected one after the other"),
    ],
)
def test_headers_that_lie_are_refused(change: Callable[[bytes], bytes], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(change(write(dynamic(weights("qcint8", 3, 5)))))


def _tensor(record: dict[str, Any], index: int) -> dict[str, Any]:
    union: dict[str, Any] = record["xvalues"][index]["xvalue_union"]
    return union.get("tensor_value") or union


@pytest.mark.parametrize(("op", "options"), [("Conv2d", CONVOLUTION), ("MaxPooling2d", POOL)])
def test_images_have_four_dimensions(op: str, options: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match=r"rank is 3, expected 4 \(NHWC\)"):
        output_shape(XNode(op, (0, 1), (2,), options), [(4, 5, 3), (4, 3, 3, 3)])


@pytest.mark.parametrize("stated", [(1, 4, 3, 3), (9, 9, 9, 9), (7,)])
def test_shapes_of_results_follow_from_the_inputs(stated: tuple[int, ...]) -> None:
    """XNNPACK reads them nowhere, and ExecuTorch's compiler writes some in torch's order of axes."""
    graph = one("Conv2d", number("fp32", 1, 5, 5, 3), weights("fp32", 4, 3, 3, 3), **CONVOLUTION)
    blob = write(graph)
    record = _record(blob)
    _tensor(record, graph.outputs[0]).update(dims=stated, num_dims=len(stated))
    assert [value.shape for value in read(_blob(record, _data(blob))).values] == [value.shape for value in graph.values]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r["constant_data"][1].update(offset=2**63), "extent is"),
        (lambda r: r["constant_data"][1].update(size=2**64 - 1), "extent is"),
        (lambda r: r["constant_data"][1].update(size=3), "size of the constant is 3, expected 15 bytes for int8"),
        (lambda r: r["constant_data"].clear(), "constant is"),
        (lambda r: _tensor(r, 1).update(constant_buffer_idx=9), "constant is 9, expected from 1 to 2"),
        (lambda r: _tensor(r, 1).update(datatype=4), "datatype is 4"),
        (lambda r: _tensor(r, 1).update(dq_datatype=3), "datatype is"),
        (lambda r: _tensor(r, 1).update(num_dims=3), "num_dims is 3, expected 2"),
        (lambda r: _tensor(r, 1).update(dims=(2**32 - 1, 2**32 - 1)), "size of the constant is 15"),
        (lambda r: _tensor(r, 0).update(dims=(2**32 - 1, 2**32 - 1)), "shape is .4294967295, 4294967295."),
        (lambda r: _tensor(r, 0).update(dims=(1,) * 7, num_dims=7), "num_dims is 7"),
        (lambda r: _tensor(r, 0).update(flags=2), "flags is 0x2, expected 0x1"),
        (lambda r: _tensor(r, 0).update(id_out=1), "id is 1, expected 0"),
        (lambda r: _tensor(r, 0).update(external_id=1), "flags is|arguments by value|flags"),
        (lambda r: r.update(num_externs=3), "num_externs is 3"),
        (lambda r: r.update(input_ids=(77,)), "input_ids: value id is 77"),
        (lambda r: r.update(input_ids=(1,)), "input_ids: value id is 1, expected that of a value with an external id"),
        (lambda r: r.update(channels_last_ids=(77,)), "value id is 77"),
        (lambda r: r.update(constant_buffer=[{"storage": b"x"}]), "constant_buffer is present"),
        (lambda r: r["xnodes"][0]["xnode_union"].update(input_id=5), "input value is 5"),
        (
            lambda r: r["xvalues"][1]["xvalue_union"]["quant_params"].update(num_scales=4),
            "num_scales|size of the const",
        ),
        (lambda r: r["xvalues"][1]["xvalue_union"]["quant_params"].update(scale_buffer_idx=0), "constant is 0"),
        (lambda r: r["xvalues"][1]["xvalue_union"]["quant_params"].update(scale=(1.0,)), "scales is in the flatbuffer"),
    ],
)
def test_flatbuffers_that_lie_are_refused(change: Callable[[dict[str, Any]], None], message: str) -> None:
    blob = write(dynamic(weights("qcint8", 3, 5)))
    record = _record(blob)
    assert _same(read(_blob(record, _data(blob))), read(blob))
    change(record)
    with pytest.raises(FormatError, match=message):
        read(_blob(record, _data(blob)))


# ------------------------------------------------------------------------------------------------ fuzz

RUNTIME = XnnpackRuntime()
RUN_LIMIT = 2**20
"""Elements of inputs up to which a mutated model is run."""


def _input(port: Port, generator: torch.Generator) -> torch.Tensor:
    shape = [port.bounds[axis] for axis in (0, 3, 1, 2)] if port.channels_last else port.bounds
    if port.dtype == torch.int8:
        return torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8)
    return torch.randn(tuple(shape), generator=generator).to(port.dtype)


def _outcome(blob: bytes, generator: torch.Generator) -> str:
    """What a blob ends in; anything but a FormatError or a model that runs is a failure of the test."""
    try:
        program = RUNTIME.load(blob)
    except FormatError as error:
        assert error.what and error.expected and error.where
        return "refused"
    outputs = RUNTIME.execute(program, [_input(port, generator) for port in program.inputs])
    for port, output in zip(program.outputs, outputs, strict=True):
        assert output.dtype == port.dtype
        assert output.numel() == torch.Size(port.bounds).numel()
    return "ran"


@pytest.mark.parametrize(
    ("graph", "work"),
    [
        (unary("Sin", number("fp32", 2, 2**24 - 1), number("fp32", 2, 2**24 - 1)), 2**33 - 512),
        (one("BatchMatrixMultiply", number("fp32", 2**12, 2**12), number("fp32", 2**12, 2**12)), 2**36),
        (one("BatchMatrixMultiply", number("fp16", 2**10, 2**10), number("fp16", 2**10, 2**10)), 2**33),
    ],
    ids=("function", "products", "half"),
)
def test_a_small_blob_that_would_compute_for_long_is_refused(graph: XModel, work: int) -> None:
    blob = write(graph)
    assert len(blob) < 600
    with pytest.raises(FormatError, match=f"model: multiplications, .* is {work}, expected at most 4294967296"):
        RUNTIME.load(blob)


def test_many_weights_may_compute_more() -> None:
    """512 rows by a filter of 64 MiB are 2^33 multiplications, which a small blob is refused for."""
    filters = replace(number("fp32", 2**12, 2**12), data=np.zeros((2**12, 2**12), np.float32))
    graph = one("FullyConnected", number("fp32", 2**9, 2**12), filters, y=number("fp32", 2**9, 2**12))
    assert RUNTIME.load(write(graph)).calls


def test_work_is_that_of_the_inputs_sizes() -> None:
    program = RUNTIME.load(write(one("BatchMatrixMultiply", number("fp32", 8, 8), number("fp32", 8, 8))))
    wide = torch.zeros(2**12, 2**12)
    with pytest.raises(InputError, match=r"multiplications, .* is 68719476736"):
        RUNTIME.execute(program, [wide, wide])


def test_ten_thousand_mutated_blobs_are_refused_or_run() -> None:
    """In bounded time each, and in bounded memory together."""
    found = outcomes([write(graph) for graph in MODELS.values()], _outcome)
    assert found.total() >= 10_000
    assert found["refused"] > 1_000 and found["ran"] > 400


def test_every_truncation_is_refused() -> None:
    blob = write(MODELS["81-Negate-fp32"])
    for length in range(len(blob)):
        assert _outcome(blob[:length], torch.Generator().manual_seed(0)) == "refused"


def test_random_bytes_behind_a_right_header_are_refused() -> None:
    random = np.random.default_rng(5)
    for _ in range(500):
        graph = b"\x08\0\0\0XN01" + random.integers(0, 256, int(random.integers(0, 200)), np.uint8).tobytes()
        blob = struct.pack("<4x4sHIIIQ", b"XH00", 30, 32, len(graph), 32 + len(graph), 0) + b"\0\0" + graph
        assert _outcome(blob, torch.Generator().manual_seed(0)) == "refused"


# ------------------------------------------------------------------------------------------------ sizes at run time


def test_outputs_follow_the_inputs_sizes() -> None:
    """Less and more than the blob's shapes are computed, nothing and what does not fit are refused."""
    program = RUNTIME.load(write(dynamic(weights("qcint8", 3, 32), bias("fp32", 3), rows=8)))
    for rows in (1, 5, 8, 9, 1000):
        (output,) = RUNTIME.execute(program, [torch.ones(rows, 32)])
        assert output.shape == (rows, 3)
    for shape in ((0, 32), (8, 31), (8, 1, 32)):
        with pytest.raises(InputError, match=r"expected torch.float32 of rank 2|input channels is 31"):
            RUNTIME.execute(program, [torch.ones(shape)])
