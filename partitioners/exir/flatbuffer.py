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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import flatbuffers
import numpy as np
from flatbuffers import number_types

DEPTH_LIMIT: Final = 32
"""Tables inside tables; the formats read here need at most 6."""

REVISIT_FACTOR: Final = 16
"""Bytes visited, as a multiple of the blob's size, before a blob counts as hostile."""

VTABLES: Final = 256
VTABLE_SIZE: Final = 256
"""How many vtables are kept while a blob is read, and how many bytes each may have."""

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
_FLAGS: Final = {name: getattr(number_types, f"{name.title()}Flags") for name in _CODES}
_BOOL, _UINT8, _UINT16 = _STRUCTS["bool"], _STRUCTS["uint8"], _STRUCTS["uint16"]
_INT32, _UINT32 = _STRUCTS["int32"], _STRUCTS["uint32"]


Buffer = bytes | memoryview


class FormatError(ValueError):
    """A blob or a value that does not follow its format: what, found, expected, where."""

    def __init__(self, what: str, found: object, expected: str, where: str) -> None:
        super().__init__(f"{where}: {what} is {found}, expected {expected}")
        self.what, self.found, self.expected, self.where = what, str(found), expected, where


@dataclass(frozen=True)
class Scalar:
    """A number stored in the table itself. `type` is a name that flatbuffers has for it ("int32", "bool", ...)."""

    type: str
    default: float = 0


@dataclass(frozen=True)
class String:
    """A UTF-8 string."""


@dataclass(frozen=True)
class Strings:
    """A vector of strings."""


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

    @cached_property
    def slots(self) -> int:
        """How many slots the fields need."""
        return max((slot + 1 for slot, _ in self.fields.values()), default=0)

    @cached_property
    def layout(self) -> tuple[tuple[str, int, Kind, struct.Struct | None], ...]:
        """Name, slot and kind of each field, and how a scalar is stored."""
        return tuple(
            (name, slot, kind, _STRUCTS[kind.type] if isinstance(kind, Scalar) else None)
            for name, (slot, kind) in self.fields.items()
        )

    @cached_property
    def empty(self) -> Record:
        """What is read when no field is present."""
        return {
            name: _fitting(kind.default, kind.type, "default") if isinstance(kind, Scalar) else None
            for name, (_, kind) in self.fields.items()
        }


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


Kind = Scalar | String | Strings | Numbers | Nested | Tables | Union
Record = dict[str, Any]


def in_order(name: str, /, **kinds: Kind) -> Table:
    """A table whose fields take the slots in order; a union takes two, the first for its tag."""
    fields: dict[str, tuple[int, Kind]] = {}
    slot = 0
    for field, kind in kinds.items():
        if isinstance(kind, Union):
            fields[kind.tag] = (slot, Scalar("uint8"))
            slot += 1
        fields[field] = (slot, kind)
        slot += 1
    return Table(name, fields)


# ------------------------------------------------------------------------------------------------ writing


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
        children = {
            name: self.child(kind, value, value[name])
            for name, (_, kind) in table.fields.items()
            if value.get(name) is not None and not isinstance(kind, Scalar)
        }
        builder = self.builder
        builder.StartObject(table.slots)
        for name, (slot, kind) in table.fields.items():
            if name in children:
                builder.PrependUOffsetTRelativeSlot(slot, children[name], 0)
            elif name in value and isinstance(kind, Scalar):
                number = _fitting(value[name], kind.type, f"{table.name}.{name}")
                if number != kind.default:
                    builder.Prepend(_FLAGS[kind.type], number)
                    builder.Slot(slot)
        return int(builder.EndObject())

    def child(self, kind: Kind, record: Mapping[str, Any], value: Any) -> int:
        match kind:
            case Tables():
                return self.offsets([self.table(kind.table, each) for each in value])
            case Numbers():
                raw, size = _packed(value, kind.type), _STRUCTS[kind.type].size
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
    if isinstance(value, np.ndarray) and value.dtype == _DTYPES[type_]:
        return value.tobytes()
    given = value.tolist() if isinstance(value, np.ndarray) else value
    numbers = [_fitting(number, type_, "vector element") for number in given]
    return struct.pack(f"<{len(numbers)}{_CODES[type_][1]}", *numbers)


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


@dataclass(frozen=True)
class Limits:
    """How much may be made of a blob: bytes visited as a multiple of its size, tables, bytes of strings."""

    visits: int = REVISIT_FACTOR
    tables: int = 2**32
    text: int = 2**32


def read(table: Table, data: Buffer, identifier: bytes, limits: Limits = Limits()) -> Record:
    """The value of a flatbuffer. Vectors of numbers are read-only views of `data`.

    Raises FormatError for anything that is not a well-formed flatbuffer of this table, within the limits.
    """
    if len(data) < 8:
        raise FormatError("length", f"{len(data)} bytes", "at least 8 bytes", "file")
    if data[4:8] != identifier:
        raise FormatError("file identifier", repr(bytes(data[4:8])), repr(identifier), "byte 4")
    reader = _Reader(data, limits)
    return reader.table(table, reader.offset(0, (table.name,)), (table.name,), 0)


class _Reader:
    """A blob and what may still be visited of it. A path is a linked tuple, spelled out only in errors."""

    def __init__(self, data: Buffer, limits: Limits) -> None:
        self.data, self.size, self.limits = data, len(data), limits
        self.vtables: dict[int, tuple[int, int, tuple[int, ...]]] = {}
        self.budget, self.tables_left, self.text_left = limits.visits * len(data), limits.tables, limits.text

    def error(self, what: str, found: object, expected: str, path: _Path, at: int) -> FormatError:
        return FormatError(what, found, expected, f"{_spelled(path)} at byte {at}")

    def span(self, at: int, size: int, path: _Path) -> None:
        """Check that `size` bytes from `at` lie in the blob, and pay for visiting them."""
        if at < 0 or at + size > self.size:
            raise self.error("extent", f"bytes {at} to {at + size}", f"within {self.size} bytes", path, at)
        self.budget -= size
        if self.budget < 0:
            raise self.error("sharing of data", "excessive", f"at most {self.limits.visits} visits per byte", path, at)

    def number(self, code: struct.Struct, at: int, path: _Path) -> Any:
        self.span(at, code.size, path)
        return code.unpack_from(self.data, at)[0]

    def offset(self, at: int, path: _Path) -> int:
        """The place that the 32-bit offset at `at` points to."""
        self.span(at, 4, path)
        distance: int = _UINT32.unpack_from(self.data, at)[0]
        if distance < 4:
            raise self.error("offset", distance, "at least 4", path, at)
        return at + distance

    def table(self, table: Table, at: int, path: _Path, depth: int) -> Record:
        if depth > DEPTH_LIMIT:
            raise self.error("nesting", f"deeper than {DEPTH_LIMIT}", f"at most {DEPTH_LIMIT} tables", path, at)
        self.tables_left -= 1
        if self.tables_left < 0:
            raise self.error("number of tables", "excessive", f"at most {self.limits.tables}", path, at)
        places = self.places(at, path)
        record, count = dict(table.empty), len(places)
        for name, slot, kind, code in table.layout:
            if slot >= count or not places[slot]:
                continue
            place = at + places[slot]
            if code is None:
                record[name] = self.child(kind, place, record, (path, name), depth)
            else:
                record[name] = self.scalar(code, place, (path, name))
        return record

    def places(self, at: int, path: _Path) -> tuple[int, ...]:
        """A table's field offsets by slot (0 = absent) from its vtable, each inside the table."""
        self.span(at, 4, path)
        vtable = at - _INT32.unpack_from(self.data, at)[0]
        size, extent, places = self.vtables.get(vtable) or self.vtable(vtable, path)
        self.span(vtable, size, path)
        self.span(at, extent, path)
        if extent < 4 or max(places, default=0) >= extent:
            raise self.error("table size", extent, "to enclose every field", path, at)
        return places

    def vtable(self, at: int, path: _Path) -> tuple[int, int, tuple[int, ...]]:
        """A vtable's own size, that of its tables, and the fields' offsets; kept, as many tables share one."""
        size = self.number(_UINT16, at, path)
        if size < 4 or size % 2:
            raise self.error("vtable size", size, "an even number from 4", path, at)
        self.span(at, size, path)
        extent, *places = struct.unpack_from(f"<{size // 2 - 1}H", self.data, at + 2)
        found = size, extent, tuple(places)
        if size <= VTABLE_SIZE and len(self.vtables) < VTABLES:  # honest files have few and short ones
            self.vtables[at] = found
        return found

    def scalar(self, code: struct.Struct, at: int, path: _Path) -> Any:
        if code is not _BOOL:
            return self.number(code, at, path)
        number = self.number(_UINT8, at, path)
        if number > 1:
            raise self.error("bool", number, "0 or 1", path, at)
        return bool(number)

    def child(self, kind: Kind, at: int, record: Record, path: _Path, depth: int) -> Any:
        if isinstance(kind, Numbers):
            return self.numbers(kind, at, path)
        if isinstance(kind, String):
            return self.string(at, path)
        if isinstance(kind, Strings):
            return self.strings(at, path)
        if isinstance(kind, Tables):
            return self.tables(kind, at, path, depth)
        if isinstance(kind, Union):
            return self.union(kind, at, record, path, depth)
        assert isinstance(kind, Nested)  # scalars are read from the table itself
        return self.table(kind.table, self.offset(at, path), path, depth + 1)

    def union(self, kind: Union, at: int, record: Record, path: _Path, depth: int) -> Record:
        tag = record[kind.tag]
        if tag not in kind.members:
            raise self.error(f"union type {kind.tag}", tag, f"one of {sorted(kind.members)}", path, at)
        return self.table(kind.members[tag], self.offset(at, path), path, depth + 1)

    def vector(self, at: int, itemsize: int, path: _Path) -> tuple[int, int]:
        """First byte and length of the vector that the offset at `at` points to."""
        start = self.offset(at, path)
        self.span(start, 4, path)
        count: int = _UINT32.unpack_from(self.data, start)[0]
        self.span(start + 4, count * itemsize, path)
        return start + 4, count

    def numbers(self, kind: Numbers, at: int, path: _Path) -> np.ndarray[Any, Any]:
        dtype = _DTYPES[kind.type]
        start, count = self.vector(at, dtype.itemsize, path)
        return np.frombuffer(self.data, dtype, count, start)

    def string(self, at: int, path: _Path) -> str:
        start, count = self.vector(at, 1, path)
        self.text_left -= count
        if self.text_left < 0:
            raise self.error("text", "excessive", f"at most {self.limits.text} bytes in all", path, at)
        try:
            return str(self.data[start : start + count], "utf-8")
        except UnicodeDecodeError as error:
            raise self.error("string", error.reason, "UTF-8", path, start + error.start) from error

    def strings(self, at: int, path: _Path) -> list[str]:
        return [self.string(place, where) for place, where in self.elements(at, path)]

    def tables(self, kind: Tables, at: int, path: _Path, depth: int) -> list[Record]:
        return [self.table(kind.table, self.offset(p, q), q, depth + 1) for p, q in self.elements(at, path)]

    def elements(self, at: int, path: _Path) -> Iterator[tuple[int, _Path]]:
        """Where the offsets of a vector of offsets lie, each with its path."""
        start, count = self.vector(at, 4, path)
        return ((start + 4 * index, (path, index)) for index in range(count))


def _spelled(path: _Path) -> str:
    """`Model.subgraphs[0].tensors` for a linked path."""
    if len(path) == 1:
        return str(path[0])
    head, name = path
    return f"{_spelled(head)}[{name}]" if isinstance(name, int) else f"{_spelled(head)}.{name}"
