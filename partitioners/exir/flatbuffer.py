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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

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
_UINT8, _UINT16, _INT32, _UINT32 = (_STRUCTS[name] for name in ("uint8", "uint16", "int32", "uint32"))


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

    The bytes are those of Google's `flatbuffers.Builder`. Raises FormatError for a key that the table does
    not have or a number that its type cannot hold.
    """
    writer = _Writer()
    root = writer.table(table, value)
    writer.pad(writer.alignment, 8)
    writer.put(identifier)
    writer.offset(root)
    return b"".join(reversed(writer.pieces))


class _Writer:
    """A flatbuffer that grows from its end to its start: places are distances from the end."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.place = 0  # of what was put last
        self.alignment = 4  # the largest so far: that of the whole
        self.vtables: dict[bytes, int] = {}

    def put(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self.place += len(piece)

    def pad(self, alignment: int, following: int = 0) -> None:
        """Put zeros so that after `following` more bytes the place is a multiple of `alignment`."""
        if alignment > self.alignment:
            self.alignment = alignment
        gap = -(self.place + following) % alignment
        if gap:
            self.put(bytes(gap))

    def offset(self, place: int) -> None:
        """Put the distance to what is at `place`."""
        self.pad(4)
        self.put(_UINT32.pack(self.place + 4 - place))

    def table(self, table: Table, value: Mapping[str, Any]) -> int:
        """Put a table behind everything it refers to; returns its place."""
        if not value.keys() <= table.fields.keys():
            unknown = next(key for key in value if key not in table.fields)
            raise FormatError("field", repr(unknown), f"one of {sorted(table.fields)}", table.name)
        children = {
            name: self.child(kind, value, value[name])
            for name, (_, kind) in table.fields.items()
            if value.get(name) is not None and not isinstance(kind, Scalar)
        }
        end, fields = self.place, {}
        for name, (slot, kind) in table.fields.items():
            if name in children:
                self.offset(children[name])
                fields[slot] = self.place
            elif name in value and isinstance(kind, Scalar) and self.scalar(kind, value[name], table.name, name):
                fields[slot] = self.place
        return self.start(fields, end)

    def scalar(self, kind: Scalar, value: Any, table: str, name: str) -> bool:
        """Put a number of a table; returns whether it had to be, as it is not the default."""
        number = _fitting(value, kind.type, f"{table}.{name}")
        if number == kind.default:
            return False
        code = _STRUCTS[kind.type]
        self.pad(code.size)
        self.put(code.pack(number))
        return True

    def start(self, fields: Mapping[int, int], end: int) -> int:
        """Put the start of a table: its distance from its vtable, and the vtable unless an equal one is there.

        `fields` holds the places of the table's fields by slot, `end` the place behind the table.
        """
        self.pad(4)
        start = self.place + 4
        places = [start - fields[slot] if slot in fields else 0 for slot in range(max(fields, default=-1) + 1)]
        vtable = struct.pack(f"<{len(places) + 2}H", 2 * len(places) + 4, start - end, *places)
        if vtable in self.vtables:
            self.put(_INT32.pack(self.vtables[vtable] - start))
            return start
        self.put(_INT32.pack(len(vtable)))
        self.put(vtable)
        self.vtables[vtable] = self.place
        return start

    def child(self, kind: Kind, record: Mapping[str, Any], value: Any) -> int:
        match kind:
            case Tables():
                return self.offsets([self.table(kind.table, each) for each in value])
            case Numbers():
                raw, size = _packed(value, kind.type), _STRUCTS[kind.type].size
                return self.vector(raw, len(raw) // size, max(kind.align, size))
            case Nested():
                return self.table(kind.table, value)
            case Union():
                return self.table(kind.members[record[kind.tag]], value)
            case String():
                return self.text(value)
            case Strings():
                return self.offsets([self.text(each) for each in value])
            case Scalar():
                raise AssertionError("scalars live in the table itself")

    def text(self, text: str) -> int:
        """Put a string and the zero behind it."""
        raw = text.encode()
        return self.vector(raw + b"\0", len(raw), 1)

    def offsets(self, places: Sequence[int]) -> int:
        """Put a vector of offsets."""
        self.pad(4)
        last = self.place + 4 * len(places)
        distances = [last - 4 * index - place for index, place in enumerate(places)]
        return self.vector(struct.pack(f"<{len(places)}I", *distances), len(places), 4)

    def vector(self, raw: bytes, count: int, alignment: int) -> int:
        """Put `count` elements of a vector and their number before them."""
        self.pad(4, len(raw))
        self.pad(alignment, len(raw))
        self.put(raw)
        self.put(_UINT32.pack(count))
        return self.place


def _packed(value: Any, type_: str) -> bytes:
    """The numbers in the vector's type; an array that has it already is taken as it is."""
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
        record = dict(table.empty)
        for name, (slot, kind) in table.fields.items():
            if slot >= len(places) or not places[slot]:
                continue
            place = at + places[slot]
            if isinstance(kind, Scalar):
                record[name] = self.scalar(kind, place, (path, name))
            else:
                record[name] = self.child(kind, place, record, (path, name), depth)
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

    def scalar(self, kind: Scalar, at: int, path: _Path) -> Any:
        if kind.type != "bool":
            return self.number(_STRUCTS[kind.type], at, path)
        number = self.number(_UINT8, at, path)
        if number > 1:
            raise self.error("bool", number, "0 or 1", path, at)
        return bool(number)

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
            case Strings():
                return self.strings(at, path)
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

    def strings(self, at: int, path: _Path) -> list[str]:
        return [self.string(place, where) for place, where in self.elements(at, path)]

    def tables(self, kind: Tables, at: int, path: _Path, depth: int) -> list[Record]:
        return [self.table(kind.table, self.offset(p, q), q, depth + 1) for p, q in self.elements(at, path)]

    def elements(self, at: int, path: _Path) -> list[tuple[int, _Path]]:
        """Where the offsets of a vector of offsets lie, each with its path."""
        start, count = self.vector(at, 4, path)
        return [(start + 4 * index, (path, f"[{index}]")) for index in range(count)]


def _spelled(path: _Path) -> str:
    """`Model.subgraphs[0].tensors` for a linked path."""
    if len(path) == 1:
        return str(path[0])
    head, name = path
    return f"{_spelled(head)}{'' if name.startswith('[') else '.'}{name}"
