"""Records to flatbuffers: children go before what refers to them, and equal vtables are written once."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np

from npu_assay.partitioners.exir.flatbuffer.layout import ALIGNMENT
from npu_assay.partitioners.exir.flatbuffer.schema import (
    CODES,
    DTYPES,
    STRUCTS,
    Buffer,
    FormatError,
    Kind,
    Nested,
    Numbers,
    Scalar,
    String,
    Strings,
    Table,
    Tables,
    Union,
    fitting,
)


def write(table: Table, value: Mapping[str, Any], identifier: bytes) -> bytes:
    """The flatbuffer of `value`, with a 4-byte file identifier; equal values give equal bytes.

    Raises FormatError for a key that the table does not have or a number that its type cannot hold.
    """
    writer = _Writer()
    writer.builder.Finish(writer.table(table, value), file_identifier=identifier)
    return bytes(writer.builder.Output())


class _Writer:
    """Records into a builder, which grows a flatbuffer from its end: children go before what refers to them."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1024)

    def table(self, table: Table, value: Mapping[str, Any]) -> int:
        """Put a table after everything it refers to; returns its place."""
        if not value.keys() <= table.fields.keys():
            unknown = next(key for key in value if key not in table.fields)
            raise FormatError("field", repr(unknown), f"one of {sorted(table.fields)}", table.name)
        names: list[str] = []
        stored: list[float] = []
        for name, (_, kind) in table.fields.items():
            if isinstance(kind, Scalar):
                if name in value:
                    number = fitting(value[name], kind.type, f"{table.name}.{name}")
                    if number != kind.default:
                        names.append(name)
                        stored.append(number)
            elif value.get(name) is not None:
                names.append(name)
                stored.append(self.child(kind, value, value[name]))
        return table.layout_of(tuple(names), self.builder.Offset() % ALIGNMENT).put(self.builder, stored)

    def child(self, kind: Kind, record: Mapping[str, Any], value: Any) -> int:
        match kind:
            case Tables():
                return self.offsets([self.table(kind.table, each) for each in value])
            case Numbers():
                raw, size = _packed(value, kind.type), STRUCTS[kind.type].size
                return self.vector(raw, size, max(kind.align, size))
            case Nested():
                return self.table(kind.table, value)
            case Union():
                return self.table(kind.members[record[kind.tag]], value)
            case String():
                return int(self.builder.CreateString(value))
            case Strings():
                return self.offsets([self.builder.CreateString(each) for each in value])
            case Scalar():
                raise AssertionError("scalars live in the table itself")

    def offsets(self, places: Sequence[int]) -> int:
        """Put a vector of offsets, each the distance from itself to its place."""
        self.builder.StartVector(4, len(places), 4)
        last = self.builder.Offset() + 4 * len(places)
        distances = [last - 4 * index - place for index, place in enumerate(places)]
        return self.elements(struct.pack(f"<{len(places)}I", *distances))

    def vector(self, raw: Buffer, size: int, alignment: int) -> int:
        """Put a vector of numbers of `size` bytes each."""
        self.builder.StartVector(size, len(raw) // size, alignment)
        return self.elements(raw)

    def elements(self, raw: Buffer) -> int:
        """Put all elements of a vector at once, and end it: the builder would take them one by one."""
        builder = self.builder
        builder.head -= len(raw)
        builder.Bytes[builder.head : builder.head + len(raw)] = raw
        return int(builder.EndVector())


def _packed(value: Any, type_: str) -> Buffer:
    """The numbers in the vector's type; bytes, and an array that has it already, are taken as they are."""
    if isinstance(value, Buffer) and type_ == "uint8":
        return value
    if isinstance(value, np.ndarray) and value.dtype == DTYPES[type_]:
        return value.tobytes()
    given = value.tolist() if isinstance(value, np.ndarray) else value
    numbers = [fitting(number, type_, "vector element") for number in given]
    return struct.pack(f"<{len(numbers)}{CODES[type_][1]}", *numbers)
