"""Flatbuffers from declarative schemas: one table declaration serves the writer and the reader.

A `Table` names its fields, each with the slot it has in the schema (`.fbs`) file. Values are plain dicts:
scalars are numbers, vectors of numbers numpy arrays, strings `str`, tables dicts, vectors of tables lists.
An absent scalar takes its default; any other absent field is None.

The reader trusts nothing. Every offset and every length is checked against the blob before it is followed,
nesting is limited, and the bytes visited in total are limited to a multiple of the blob's size, so that
offsets that point many times to one place cannot make it slow. The layout is that of
https://flatbuffers.dev/internals: little endian, 32-bit offsets, a vtable of 16-bit field offsets per table.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import flatbuffers
import numpy as np

DEPTH_LIMIT: Final = 32
"""Tables inside tables; the formats read here need at most 6."""

REVISIT_FACTOR: Final = 16
"""Bytes visited, as a multiple of the blob's size, before a blob counts as hostile."""

_CODES: Final = {
    "bool": "<?",
    "int8": "<b",
    "uint8": "<B",
    "int16": "<h",
    "uint16": "<H",
    "int32": "<i",
    "uint32": "<I",
    "int64": "<q",
    "uint64": "<Q",
    "float32": "<f",
    "float64": "<d",
}
_STRUCTS: Final = {name: struct.Struct(code) for name, code in _CODES.items()}
_DTYPES: Final = {name: np.dtype(code) for name, code in _CODES.items()}
_LIMITS: Final = {name: (int(np.iinfo(name).min), int(np.iinfo(name).max)) for name in _CODES if "int" in name}
_UINT16, _INT32, _UINT32 = _STRUCTS["uint16"], _STRUCTS["int32"], _STRUCTS["uint32"]
_FLAGS: Final = {name: getattr(flatbuffers.number_types, f"{name.title()}Flags") for name in _CODES}


class FormatError(ValueError):
    """A blob or a value that does not follow its format: what, found, expected, where."""

    def __init__(self, what: str, found: object, expected: str, where: str) -> None:
        super().__init__(f"{where}: {what} is {found}, expected {expected}")
        self.what, self.found, self.expected, self.where = what, str(found), expected, where


@dataclass(frozen=True)
class Scalar:
    """A number stored in the table itself. `type` is a key of the number types ("int32", "bool", ...)."""

    type: str
    default: float = 0


@dataclass(frozen=True)
class String:
    """A UTF-8 string."""


@dataclass(frozen=True)
class Numbers:
    """A vector of numbers whose first element starts at a multiple of `align` bytes (0: the number's size)."""

    type: str
    align: int = 0


@dataclass(frozen=True)
class Table:
    """A table; `fields` maps each field's name to its slot and kind."""

    name: str
    fields: Mapping[str, tuple[int, Kind]]


@dataclass(frozen=True)
class Nested:
    """A table that another table refers to."""

    table: Table


@dataclass(frozen=True)
class Tables:
    """A vector of tables."""

    table: Table


@dataclass(frozen=True)
class Union:
    """A table whose type is named by the scalar field `tag`; `members` maps the tag's values to tables."""

    tag: str
    members: Mapping[int, Table]


Kind = Scalar | String | Numbers | Nested | Tables | Union
Record = dict[str, Any]


# ------------------------------------------------------------------------------------------------ writing


def write(table: Table, value: Mapping[str, Any], identifier: bytes) -> bytes:
    """The flatbuffer of `value`, with a 4-byte file identifier; equal values give equal bytes.

    Raises FormatError for a key that the table does not have or a number that its type cannot hold.
    """
    builder = flatbuffers.Builder(1024)
    root = _put_table(builder, table, value)
    builder.Finish(root, file_identifier=identifier)
    return bytes(builder.Output())


def _put_table(builder: Any, table: Table, value: Mapping[str, Any]) -> int:
    for key in value:
        if key not in table.fields:
            raise FormatError("field", repr(key), f"one of {sorted(table.fields)}", table.name)
    children = {
        name: _put_child(builder, kind, value, value[name])
        for name, (_, kind) in table.fields.items()
        if not isinstance(kind, Scalar) and value.get(name) is not None
    }
    builder.StartObject(1 + max((slot for slot, _ in table.fields.values()), default=-1))
    for name, (slot, kind) in table.fields.items():
        if isinstance(kind, Scalar):
            number = _fitting(value.get(name, kind.default), kind.type, f"{table.name}.{name}")
            builder.PrependSlot(_FLAGS[kind.type], slot, number, kind.default)
        elif name in children:
            builder.PrependUOffsetTRelativeSlot(slot, children[name], 0)
    return int(builder.EndObject())


def _put_child(builder: Any, kind: Kind, record: Mapping[str, Any], value: Any) -> int:
    match kind:
        case String():
            return int(builder.CreateString(value))
        case Numbers():
            return _put_numbers(builder, kind, value)
        case Nested():
            return _put_table(builder, kind.table, value)
        case Union():
            return _put_table(builder, kind.members[record[kind.tag]], value)
        case Tables():
            return _put_offsets(builder, [_put_table(builder, kind.table, each) for each in value])
        case Scalar():
            raise AssertionError("scalars live in the table itself")


def _put_offsets(builder: Any, offsets: list[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _put_numbers(builder: Any, kind: Numbers, value: Any) -> int:
    array = _vector(value, kind.type)
    raw = array.tobytes()
    builder.StartVector(array.itemsize, array.size, max(kind.align, array.itemsize))
    builder.head -= len(raw)
    builder.Bytes[builder.head : builder.head + len(raw)] = raw
    return int(builder.EndVector())


def _vector(value: Any, type_: str) -> np.ndarray[Any, Any]:
    """The numbers in the vector's type; an array that has it already is taken as it is."""
    dtype = _DTYPES[type_]
    if isinstance(value, np.ndarray) and value.dtype == dtype:
        return value
    numbers = value.tolist() if isinstance(value, np.ndarray) else value
    return np.array([_fitting(number, type_, "vector element") for number in numbers], dtype)


def _fitting(number: Any, type_: str, where: str) -> Any:
    """`number` as the type stores it. Raises FormatError for an integer that does not fit."""
    if type_ in _LIMITS:
        low, high = _LIMITS[type_]
        if (isinstance(number, float) and not number.is_integer()) or not low <= number <= high:
            raise FormatError("number", number, f"an integer from {low} to {high}", where)
        return int(number)
    return bool(number) if type_ == "bool" else float(number)


# ------------------------------------------------------------------------------------------------ reading

_Path = tuple[Any, ...]


def read(table: Table, data: bytes, identifier: bytes) -> Record:
    """The value of a flatbuffer. Vectors of numbers are read-only views of `data`.

    Raises FormatError for anything that is not a well-formed flatbuffer of this table.
    """
    if len(data) < 8:
        raise FormatError("length", f"{len(data)} bytes", "at least 8 bytes", "file")
    if data[4:8] != identifier:
        raise FormatError("file identifier", repr(data[4:8]), repr(identifier), "byte 4")
    reader = _Reader(data)
    return reader.table(table, reader.offset(0, (table.name,)), (table.name,), 0)


class _Reader:
    """A blob and what may still be visited of it. A path is a linked tuple, spelled out only in errors."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.budget = REVISIT_FACTOR * len(data)

    def error(self, what: str, found: object, expected: str, path: _Path, at: int) -> FormatError:
        return FormatError(what, found, expected, f"{_spelled(path)} at byte {at}")

    def span(self, at: int, size: int, path: _Path) -> None:
        """Check that `size` bytes from `at` lie in the blob, and pay for visiting them."""
        if at < 0 or at + size > len(self.data):
            raise self.error("extent", f"bytes {at} to {at + size}", f"within {len(self.data)} bytes", path, at)
        self.budget -= size
        if self.budget < 0:
            raise self.error("sharing of data", "excessive", f"at most {REVISIT_FACTOR} visits per byte", path, at)

    def number(self, code: struct.Struct, at: int, path: _Path) -> Any:
        self.span(at, code.size, path)
        return code.unpack_from(self.data, at)[0]

    def offset(self, at: int, path: _Path) -> int:
        """The place that the 32-bit offset at `at` points to."""
        distance = self.number(_UINT32, at, path)
        if distance < 4:
            raise self.error("offset", distance, "at least 4", path, at)
        return at + int(distance)

    def table(self, table: Table, at: int, path: _Path, depth: int) -> Record:
        if depth > DEPTH_LIMIT:
            raise self.error("nesting", f"deeper than {DEPTH_LIMIT}", f"at most {DEPTH_LIMIT} tables", path, at)
        places = self.places(at, path)
        record: Record = {}
        for name, (slot, kind) in table.fields.items():
            place = places[slot] if slot < len(places) else 0
            if isinstance(kind, Scalar):
                record[name] = self.scalar(kind, at, place, (path, name))
            else:
                record[name] = self.child(kind, at + place, record, (path, name), depth) if place else None
        return record

    def places(self, at: int, path: _Path) -> tuple[int, ...]:
        """A table's field offsets by slot (0 = absent) from its vtable, each inside the table."""
        vtable = at - self.number(_INT32, at, path)
        size = self.number(_UINT16, vtable, path)
        if size < 4 or size % 2:
            raise self.error("vtable size", size, "an even number from 4", path, vtable)
        self.span(vtable, size, path)
        extent, *places = struct.unpack_from(f"<{size // 2 - 1}H", self.data, vtable + 2)
        self.span(at, extent, path)
        if extent < 4 or max(places, default=0) >= extent:
            raise self.error("table size", extent, "to enclose every field", path, at)
        return tuple(places)

    def scalar(self, kind: Scalar, at: int, place: int, path: _Path) -> Any:
        if not place:
            return _fitting(kind.default, kind.type, "default")
        number = self.number(_STRUCTS["uint8" if kind.type == "bool" else kind.type], at + place, path)
        if kind.type == "bool":
            if number > 1:
                raise self.error("bool", number, "0 or 1", path, at + place)
            return bool(number)
        return number

    def child(self, kind: Kind, at: int, record: Record, path: _Path, depth: int) -> Any:
        match kind:
            case Nested():
                return self.table(kind.table, self.offset(at, path), path, depth + 1)
            case Union():
                return self.union(kind, at, record, path, depth)
            case Tables():
                return self.tables(kind, at, path, depth)
            case String():
                return self.string(at, path)
            case Numbers():
                return self.numbers(kind, at, path)
            case Scalar():
                raise AssertionError("scalars are read from the table itself")

    def union(self, kind: Union, at: int, record: Record, path: _Path, depth: int) -> Record:
        tag = record[kind.tag]
        if tag not in kind.members:
            raise self.error(f"union type {kind.tag}", tag, f"one of {sorted(kind.members)}", path, at)
        return self.table(kind.members[tag], self.offset(at, path), path, depth + 1)

    def vector(self, at: int, itemsize: int, path: _Path) -> tuple[int, int]:
        """First byte and length of the vector that the offset at `at` points to."""
        start = self.offset(at, path)
        count = self.number(_UINT32, start, path)
        self.span(start + 4, count * itemsize, path)
        return start + 4, count

    def numbers(self, kind: Numbers, at: int, path: _Path) -> np.ndarray[Any, Any]:
        dtype = _DTYPES[kind.type]
        start, count = self.vector(at, dtype.itemsize, path)
        return np.frombuffer(self.data, dtype, count, start)

    def string(self, at: int, path: _Path) -> str:
        start, count = self.vector(at, 1, path)
        try:
            return self.data[start : start + count].decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.error("string", error.reason, "UTF-8", path, start + error.start) from error

    def tables(self, kind: Tables, at: int, path: _Path, depth: int) -> list[Record]:
        start, count = self.vector(at, 4, path)
        places = range(start, start + 4 * count, 4)
        paths = [(path, f"[{index}]") for index in range(count)]
        return [self.table(kind.table, self.offset(p, q), q, depth + 1) for p, q in zip(places, paths, strict=True)]


def _spelled(path: _Path) -> str:
    """`Model.subgraphs[0].tensors` for a linked path."""
    if len(path) == 1:
        return str(path[0])
    head, name = path
    return f"{_spelled(head)}{'' if name.startswith('[') else '.'}{name}"
