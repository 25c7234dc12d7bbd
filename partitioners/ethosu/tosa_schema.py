"""The TOSA flatbuffer schema (file identifier TOSA, version 1.0): the integer profile's part of it.

Names, slots, union members and enum values are those of `tosa.fbs` in Arm's TOSA serialization library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from npu_assay.partitioners.exir.flatbuffer import (
    Kind,
    Nested,
    Numbers,
    Scalar,
    String,
    Strings,
    Table,
    Tables,
    Union,
    in_order,
)

IDENTIFIER: Final = b"TOSA"
VERSION: Final = {"_major": 1, "_minor": 0, "_patch": 0, "_draft": False}

MAIN: Final = "main"
"""The name of the only region and of its only block."""

DTYPES: Final = {"BOOL": 1, "INT8": 3, "INT16": 4, "INT32": 5, "INT48": 6}
"""Types of tensors; those outside the integer profile are left out."""

INT48_BYTES: Final = 6
"""What a number of an INT48 constant takes."""

CONST: Final = 67
CONST_SHAPE: Final = 75

_INT: Final = Scalar("int32")
_ENUM: Final = Scalar("uint32")
_BOOL: Final = Scalar("bool")
_INTS: Final = Numbers("int32")
_RAW: Final = Numbers("uint8", align=8)


@dataclass(frozen=True)
class Attribute:
    """One attribute of an operator: how it is stored, what its enumerators are, what an absent one stands for.

    `kind` None stands for an integer stored as the bytes of the input's type. `default` None: never absent.
    """

    kind: Kind | None
    names: Mapping[str, int] | None = None
    default: object = None

    @property
    def stored(self) -> Kind:
        return _RAW if self.kind is None else self.kind


@dataclass(frozen=True)
class Operator:
    """An operator: its number in `Op` and in the union of attributes (they agree), and its attributes."""

    number: int
    attributes: Mapping[str, Attribute]
    table: Table


_AXIS: Final = {"axis": Attribute(_INT)}
_NAN: Final = {"nan_mode": Attribute(_ENUM, {"PROPAGATE": 1, "IGNORE": 2}, "PROPAGATE")}
_LOCAL: Final = {"local_bound": Attribute(_BOOL, default=False)}
_ACC: Final = {"acc_type": Attribute(_ENUM, {"INT32": DTYPES["INT32"], "INT48": DTYPES["INT48"]})}
_PAD, _STRIDE, _KERNEL = {"pad": Attribute(_INTS)}, {"stride": Attribute(_INTS)}, {"kernel": Attribute(_INTS)}
_CONV: Final = {**_PAD, **_STRIDE, "dilation": Attribute(_INTS), **_LOCAL, **_ACC}
_ROUNDING: Final = Attribute(_ENUM, {"SINGLE_ROUND": 1, "INEXACT_ROUND": 2, "DOUBLE_ROUND": 3})
_UNSIGNED: Final = Attribute(_BOOL, default=False)
_RESCALE: Final = {
    "scale32": Attribute(_BOOL),
    "rounding_mode": _ROUNDING,
    "per_channel": Attribute(_BOOL),
    "input_unsigned": _UNSIGNED,
    "output_unsigned": _UNSIGNED,
}


def _operator(number: int, attributes: Mapping[str, Attribute] = {}) -> Operator:
    """Attributes take the slots of the operator's table in order."""
    return Operator(
        number, attributes, in_order("Attribute", **{name: each.stored for name, each in attributes.items()})
    )


OPERATORS: Final[Mapping[str, Operator]] = {
    "ARGMAX": _operator(1, {**_AXIS, **_NAN}),
    "AVG_POOL2D": _operator(2, {**_KERNEL, **_STRIDE, **_PAD, **_ACC}),
    "CONV2D": _operator(3, _CONV),
    "CONV3D": _operator(4, _CONV),
    "DEPTHWISE_CONV2D": _operator(5, _CONV),
    "MATMUL": _operator(7),
    "MAX_POOL2D": _operator(8, {**_KERNEL, **_STRIDE, **_PAD, **_NAN}),
    "TRANSPOSE_CONV2D": _operator(10, {"out_pad": Attribute(_INTS), **_STRIDE, **_LOCAL, **_ACC}),
    "CLAMP": _operator(11, {"min_val": Attribute(None), "max_val": Attribute(None), **_NAN}),
    "ADD": _operator(15),
    "ARITHMETIC_RIGHT_SHIFT": _operator(16, {"round": Attribute(_BOOL)}),
    "BITWISE_AND": _operator(17),
    "BITWISE_OR": _operator(18),
    "BITWISE_XOR": _operator(19),
    "INTDIV": _operator(20),
    "LOGICAL_AND": _operator(21),
    "LOGICAL_LEFT_SHIFT": _operator(22),
    "LOGICAL_RIGHT_SHIFT": _operator(23),
    "LOGICAL_OR": _operator(24),
    "LOGICAL_XOR": _operator(25),
    "MAXIMUM": _operator(26, _NAN),
    "MINIMUM": _operator(27, _NAN),
    "MUL": _operator(28),
    "SUB": _operator(30),
    "TABLE": _operator(31),
    "ABS": _operator(32),
    "BITWISE_NOT": _operator(33),
    "CLZ": _operator(35),
    "LOGICAL_NOT": _operator(40),
    "NEGATE": _operator(41),
    "SELECT": _operator(45),
    "EQUAL": _operator(46),
    "GREATER": _operator(47),
    "GREATER_EQUAL": _operator(48),
    "REDUCE_ALL": _operator(49, _AXIS),
    "REDUCE_ANY": _operator(50, _AXIS),
    "REDUCE_MAX": _operator(51, {**_AXIS, **_NAN}),
    "REDUCE_MIN": _operator(52, {**_AXIS, **_NAN}),
    "REDUCE_SUM": _operator(54, _AXIS),
    "CONCAT": _operator(55, _AXIS),
    "PAD": _operator(56),
    "RESHAPE": _operator(57),
    "REVERSE": _operator(58, _AXIS),
    "SLICE": _operator(59),
    "TILE": _operator(60),
    "TRANSPOSE": _operator(61, {"perms": Attribute(_INTS)}),
    "GATHER": _operator(62),
    "SCATTER": _operator(63),
    "RESIZE": _operator(64, {"mode": Attribute(_ENUM, {"NEAREST": 1, "BILINEAR": 2})}),
    "CAST": _operator(65),
    "RESCALE": _operator(66, _RESCALE),
    "IDENTITY": _operator(68),
}

CODES: Final = {operator.number: code for code, operator in OPERATORS.items()}

# ------------------------------------------------------------------------------------------------ the graph

_EMPTY: Final = in_order("Attribute")
_ATTRIBUTES: Final = {**{each.number: each.table for each in OPERATORS.values()}, CONST: _EMPTY, CONST_SHAPE: _EMPTY}

_OPERATOR: Final = in_order(
    "TosaOperator",
    op=_ENUM,
    attribute=Union("attribute_type", _ATTRIBUTES),
    inputs=Strings(),
    outputs=Strings(),
    location=Nested(in_order("OpLocation", text=String())),
)
_TENSOR: Final = in_order(
    "TosaTensor",
    name=String(),
    shape=_INTS,
    type=_ENUM,
    data=_RAW,
    variable=_BOOL,
    is_unranked=_BOOL,
    variable_name=String(),
    offset=Scalar("uint64"),
    size=Scalar("uint64"),
)
_SHAPE: Final = in_order("TosaShape", name=String(), rank=_ENUM, data=_RAW)
_BLOCK: Final = in_order(
    "TosaBasicBlock",
    name=String(),
    operators=Tables(_OPERATOR),
    tensors=Tables(_TENSOR),
    inputs=Strings(),
    outputs=Strings(),
    shapes=Tables(_SHAPE),
)
_VERSION: Final = in_order(
    "Version",
    _major=Scalar("int32", -1),
    _minor=Scalar("int32", -1),
    _patch=Scalar("int32", -1),
    _draft=Scalar("bool", True),
)

GRAPH: Final = in_order(
    "TosaGraph",
    version=Nested(_VERSION),
    regions=Tables(in_order("TosaRegion", name=String(), blocks=Tables(_BLOCK))),
)
"""The root table."""
