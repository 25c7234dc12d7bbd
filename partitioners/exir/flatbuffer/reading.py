"""Flatbuffers to records. Nothing in a blob is trusted.

Every offset and every length is checked against the blob before it is followed,
nesting is limited, and the bytes visited in total are limited to a multiple of the blob's size, so that
offsets that point many times to one place cannot make it slow.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from npu_assay.partitioners.exir.flatbuffer.schema import (
    DTYPES,
    STRUCTS,
    Buffer,
    FormatError,
    Kind,
    Nested,
    Numbers,
    Record,
    String,
    Strings,
    Table,
    Tables,
    Union,
)

DEPTH_LIMIT: Final = 32
"""Tables inside tables; the formats read here need at most 6."""

REVISIT_FACTOR: Final = 16
"""Bytes visited, as a multiple of the blob's size, before a blob counts as hostile."""

VTABLES: Final = 256
VTABLE_SIZE: Final = 256
"""How many vtables are kept while a blob is read, and how many bytes each may have."""

_BOOL, _UINT8, _UINT16 = STRUCTS["bool"], STRUCTS["uint8"], STRUCTS["uint16"]
_INT32, _UINT32 = STRUCTS["int32"], STRUCTS["uint32"]
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
        for name, slot, kind, code in table.stored:
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
        dtype = DTYPES[kind.type]
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
