"""Where the fields of a flatbuffer's table lie, so that a whole table is put at once.

`flatbuffers.Builder` takes a table field by field, and computes the same layout for each. Here it is
computed once for the fields that are present, by the builder's own rules, so that the bytes are the builder's.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import flatbuffers

ALIGNMENT: Final = 8
"""Bytes of the largest number; what precedes a table matters modulo this."""


@dataclass(frozen=True)
class Field:
    """A field that is present: its slot, how its number is stored, and whether that is an offset."""

    slot: int
    code: str
    is_offset: bool


@dataclass(frozen=True)
class Layout:
    """The bytes of a table from its lowest address on: the offset of its vtable, then the fields, the last one first.

    `ends` holds, for each field, the bytes between the end of what precedes the table and the field's own start, or
    None for a number that is no offset. `vtable` is complete.
    """

    packing: struct.Struct
    ends: tuple[int | None, ...]
    vtable: bytes
    alignment: int

    def put(self, builder: flatbuffers.Builder, values: Sequence[float]) -> int:
        """Put the table before what the builder has, and its vtable before that unless one is there.

        Returns the table's place. `values` are in the order of the fields: numbers, and places of what offsets lead to.
        """
        size, start = self.packing.size, int(builder.Offset())
        builder.Prep(1, size + len(self.vtable))  # makes room
        builder.minalign = max(builder.minalign, self.alignment)
        place = start + size
        vtable = builder.vtables.setdefault(self.vtable, place + len(self.vtable))
        stored = [v if end is None else start + end - v for v, end in zip(values, self.ends, strict=True)]
        builder.head -= size
        self.packing.pack_into(builder.Bytes, builder.head, vtable - place, *reversed(stored))
        if vtable > place:
            builder.head -= len(self.vtable)
            builder.Bytes[builder.head : builder.head + len(self.vtable)] = self.vtable
        return place


def layout(fields: Sequence[Field], phase: int) -> Layout:
    """The layout of a table after `phase` bytes, modulo `ALIGNMENT`: each field is put before the last, aligned."""
    parts: list[str] = []
    ends: list[int] = []
    used = 0
    sizes = [struct.calcsize(f"<{field.code}") for field in fields]
    for code, size in [*((f.code, size) for f, size in zip(fields, sizes, strict=True)), ("i", 4)]:
        padding = -(phase + used + size) % size
        used += size + padding
        parts += [f"{padding}x", code]
        ends.append(used)
    starts = {field.slot: used - end for field, end in zip(fields, ends, strict=False)}
    slots = [starts.get(slot, 0) for slot in range(max(starts, default=-1) + 1)]
    return Layout(
        struct.Struct("<" + "".join(reversed(parts))),
        tuple(end if field.is_offset else None for field, end in zip(fields, ends, strict=False)),
        struct.pack(f"<{len(slots) + 2}H", 2 * len(slots) + 4, used, *slots),
        max([4, *sizes]),
    )
