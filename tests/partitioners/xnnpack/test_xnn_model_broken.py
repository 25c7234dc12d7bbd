"""Broken subgraphs and bytes of XNNPACK's blobs are refused with what is wrong."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from xnn_blobs import ABS, NUMBERS, _blob, _header, _record, _same
from xnn_models import (
    CONVOLUTION,
    INFINITY,
    POOL,
    X,
    Y,
    bias,
    coded,
    dynamic,
    model,
    number,
    one,
    unary,
    weights,
)

from npu_assay.partitioners.xnnpack.xnn_format import FormatError, read, write
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
)
from npu_assay.partitioners.xnnpack.xnn_shapes import output_shape

NAN = float("nan")


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


def _data(blob: bytes) -> bytes:
    behind, extent = struct.unpack_from("<IQ", blob, 18)
    return blob[behind : behind + extent]


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
        (lambda r: _tensor(r, 0).update(dims=(), num_dims=0), "num_dims is 0"),
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
