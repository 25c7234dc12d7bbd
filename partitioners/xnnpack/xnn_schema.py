"""The XNNPACK delegate's flatbuffer schema (file identifier XN01), as ExecuTorch 1.5 stores subgraphs.

Names, slots, union members and enum values are those of ExecuTorch's `schema.fbs`; XN01 says that the data of the
constants lie outside the flatbuffer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from npu_assay.partitioners.exir.flatbuffer import Kind, Nested, Numbers, Scalar, String, Table, Tables, Union, in_order

IDENTIFIER: Final = b"XN01"
VERSION: Final = "0"

INVALID_ID: Final = 2**32 - 1
"""Stands for a value that is not there, and for the external id of a value inside."""

NO_OFFSET: Final = 2**64 - 1
"""Offset of a constant that is found by its key instead."""

EXTERNAL_INPUT: Final = 0x01
EXTERNAL_OUTPUT: Final = 0x02

DTYPES: Final = {
    "fp32": 1,
    "fp16": 2,
    "qint8": 3,
    "qint32": 5,
    "qcint8": 6,
    "qcint32": 7,
    "qcint4": 8,
    "qdint8": 9,
    "qbint4": 10,
    "bf16": 14,
}
"""Value types by name, without XNNPACK's prefix; those that no supported operator uses are left out."""

_UINT: Final = Scalar("uint32")
_INT: Final = Scalar("int32")
_FLOAT: Final = Scalar("float32")
_UINTS: Final = Numbers("uint32")


# ------------------------------------------------------------------------------------------------ operators


@dataclass(frozen=True)
class Operator:
    """What a node of one operator holds.

    `number` is its place in the union, `inputs` and `outputs` are the fields with value ids (`optional` of
    the last inputs may be absent), `options` the other fields; `derived` maps a field that only repeats the
    length of a list to that list's option. `clamped` says whether limits on the result are kept.
    """

    number: int
    table: Table
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: tuple[str, ...]
    derived: Mapping[str, str]
    optional: int = 0
    clamped: bool = False
    flags: int = 0


_PADDING: Final = ("padding_top", "padding_right", "padding_bottom", "padding_left")
_WINDOW: Final = (
    *_PADDING,
    "kernel_height",
    "kernel_width",
    "subsampling_height",
    "subsampling_width",
    "dilation_height",
    "dilation_width",
    "group_input_channels",
    "group_output_channels",
    "groups",
    "adjustment_height",
    "adjustment_width",
)
_POOL: Final = (
    *_PADDING,
    "pooling_height",
    "pooling_width",
    "stride_height",
    "stride_width",
    "dilation_height",
    "dilation_width",
)
_CONV_IDS: Final = ("input1_id", "filter_id", "bias_id")
_CAT_IDS: Final = ("input1_id", "input2_id", "input3_id", "input4_id", "input5_id")


def _operator(
    number: int,
    order: Sequence[str],
    inputs: tuple[str, ...] = ("input_id",),
    outputs: tuple[str, ...] = ("output_id",),
    kinds: Mapping[str, Kind] = {},
    derived: Mapping[str, str] = {},
    optional: int = 0,
    clamped: bool = False,
    flags: int = 0,
) -> Operator:
    """An operator whose table has the fields of `order`: numbers from 0, unless `kinds` says another kind."""
    table = in_order("XNode", **{name: kinds.get(name, _UINT) for name in order})
    taken = {*inputs, *outputs, *derived, "flags", *_CAT_IDS}
    options = tuple(name for name in order if name not in taken)
    return Operator(number, table, inputs, outputs, options, derived, optional, clamped, flags)


def _unary(number: int, clamped: bool = False, flags: int = 0) -> Operator:
    return _operator(number, ("input_id", "output_id", "flags"), clamped=clamped, flags=flags)


def _binary(number: int, clamped: bool = False) -> Operator:
    ids = ("input1_id", "input2_id")
    return _operator(number, (*ids, "output_id", "flags"), ids, clamped=clamped)


def _convolution(number: int) -> Operator:
    return _operator(number, (*_WINDOW, *_CONV_IDS, "output_id", "flags"), _CONV_IDS, optional=1, clamped=True)


def _concatenation(number: int, count: int) -> Operator:
    order = ("axis", *_CAT_IDS[:4], "output_id", "flags", _CAT_IDS[4])
    return _operator(number, order, _CAT_IDS[:count])


_KEEP_DIMS: Final = 0x40
_FULLY_CONNECTED: Final = (*_CONV_IDS, "output_id", "flags")
_TRANSPOSE: Final = ("num_dims", "perm", "input_id", "output_id", "flags")
_RESIZE: Final = ("new_height", "new_width", "input_id", "output_id", "flags")
_CONSTANT_PAD: Final = ("pre_paddings", "post_paddings", "padding_value", "input_id", "output_id", "flags")
_RESHAPE: Final = ("num_dims", "new_shape", "input_id", "output_id", "flags")
_SLICE: Final = ("num_dims", "offsets", "sizes", "input_id", "output_id", "flags")

OPERATORS: Final[Mapping[str, Operator]] = {
    "Add": _binary(1, clamped=True),
    "FullyConnected": _operator(2, _FULLY_CONNECTED, _CONV_IDS, optional=1, clamped=True, flags=0x01),
    "Softmax": _unary(3),
    "Sigmoid": _unary(4),
    "StaticTranspose": _operator(5, _TRANSPOSE, kinds={"perm": _UINTS}, derived={"num_dims": "perm"}),
    "Clamp": _unary(6, clamped=True),
    "Conv2d": _convolution(7),
    "Div": _binary(8, clamped=True),
    "StaticResizeBilinear2D": _operator(9, _RESIZE, flags=0x08),
    "StaticConstantPad": _operator(
        10, _CONSTANT_PAD, kinds={"pre_paddings": _UINTS, "post_paddings": _UINTS, "padding_value": _FLOAT}
    ),
    "AvgPooling2d": _operator(11, (*_POOL, "input_id", "output_id", "flags"), clamped=True, flags=_KEEP_DIMS),
    "Minimum": _binary(12),
    "DepthwiseConv2d": _convolution(13),
    "MaxPooling2d": _operator(14, (*_POOL, "input_id", "output_id", "flags"), clamped=True, flags=_KEEP_DIMS),
    "Multiply": _binary(15, clamped=True),
    "Subtract": _binary(16, clamped=True),
    "Floor": _unary(17),
    "Convert": _unary(18),
    "GlobalAvgPooling2d": _unary(19, clamped=True, flags=_KEEP_DIMS),
    "StaticReshape": _operator(20, _RESHAPE, kinds={"new_shape": _UINTS}, derived={"num_dims": "new_shape"}),
    "SquareRoot": _unary(22),
    "Ceiling": _unary(23),
    "Hardswish": _unary(24),
    "LeakyReLU": _operator(25, ("negative_slope", "input_id", "output_id", "flags"), kinds={"negative_slope": _FLOAT}),
    "Maximum": _binary(26),
    "Negate": _unary(27),
    "Square": _unary(28),
    "ELU": _operator(29, ("alpha", "input_id", "output_id", "flags"), kinds={"alpha": _FLOAT}),
    "Abs": _unary(30),
    "PReLU": _binary(31),
    "Concatenate2": _concatenation(32, 2),
    "Concatenate3": _concatenation(33, 3),
    "Concatenate4": _concatenation(34, 4),
    "StaticSlice": _operator(35, _SLICE, kinds={"offsets": _UINTS, "sizes": _UINTS}, derived={"num_dims": "offsets"}),
    "BatchMatrixMultiply": _binary(37),
    "Concatenate5": _concatenation(38, 5),
    "ConvTranspose2d": _convolution(39),
    "ReciprocalSquareRoot": _unary(40),
    "Log": _unary(41),
    "Gelu": _unary(42),
    "Tanh": _unary(43),
    "Exp": _unary(44),
    "Sin": _unary(45),
    "Copy": _unary(46),
    "Cos": _unary(47),
}

CODES: Final = {operator.number: op for op, operator in OPERATORS.items()}

# ------------------------------------------------------------------------------------------------ values

PER_CHANNEL: Final = 1
PER_TENSOR: Final = 2
PER_TOKEN: Final = 3
PER_GROUP: Final = 4

QUANTISATIONS: Final = {
    PER_CHANNEL: in_order(
        "PerChannelQuant", scale=Numbers("float32"), channel_dim=_INT, scale_buffer_idx=_UINT, num_scales=_UINT
    ),
    PER_TENSOR: in_order("PerTensorQuant", scale=_FLOAT, zero_point=_INT),
    PER_TOKEN: in_order("PerTokenDynamicQuant", num_nonbatch_dims=_INT),
    PER_GROUP: in_order(
        "PerChannelGroupQuant",
        scale=Numbers("float32"),
        channel_dim=_INT,
        group_size=_INT,
        scale_bf16=Numbers("uint16"),
        scale_buffer_idx=_UINT,
        num_scales=_UINT,
    ),
}

TENSOR: Final = in_order(
    "XNNTensorValue",
    datatype=Scalar("int16"),
    num_dims=_UINT,
    dims=_UINTS,
    constant_buffer_idx=_UINT,
    external_id=_UINT,
    flags=_UINT,
    id_out=_UINT,
    dq_datatype=Scalar("int16"),
)
_QUANTISED_TENSOR: Final = in_order(
    "XNNQuantizedTensorValue", tensor_value=Nested(TENSOR), quant_params=Union("quant_params_type", QUANTISATIONS)
)

PLAIN_VALUE: Final = 1
QUANTISED_VALUE: Final = 2

# ------------------------------------------------------------------------------------------------ the subgraph

_NODE: Final = in_order(
    "XNode",
    xnode_union=Union("xnode_union_type", {each.number: each.table for each in OPERATORS.values()}),
    debug_handle=_UINT,
    output_min_max=Nested(in_order("OutputMinMax", output_min=_FLOAT, output_max=_FLOAT)),
)
_VALUE: Final = in_order(
    "XValue", xvalue_union=Union("xvalue_union_type", {PLAIN_VALUE: TENSOR, QUANTISED_VALUE: _QUANTISED_TENSOR})
)
_CONSTANT: Final = in_order("ConstantDataOffset", offset=Scalar("uint64"), size=Scalar("uint64"), named_key=String())

GRAPH: Final = in_order(
    "XNNGraph",
    version=String(),
    xnodes=Tables(_NODE),
    xvalues=Tables(_VALUE),
    num_externs=_UINT,
    input_ids=_UINTS,
    output_ids=_UINTS,
    constant_buffer=Tables(in_order("Buffer", storage=Numbers("uint8", align=16))),
    mem_buffer_sizes=_UINTS,
    constant_data=Tables(_CONSTANT),
    channels_last_ids=_UINTS,
    scalar_ids=_UINTS,
)
"""The root table. The last two fields are not ExecuTorch's, whose readers skip them: see `XModel`."""
