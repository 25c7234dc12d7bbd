"""The bytes of a flatbuffer, which grows from its end: places are distances to the end, as in the format itself.

Same bytes as the builder of the package `flatbuffers`, which takes each number by itself.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

_OFFSET = struct.Struct("<I")
_SIGNED = struct.Struct("<i")
Place = int
Buffer = bytes | memoryview


class Bytes:
    """What is written so far, last first. alignment: the largest that anything asked for."""

    def __init__(self) -> None:
        self.size = 0
        self.alignment = 1
        self._parts = list[Buffer]()
        self._vtables = dict[tuple[int, ...], Place]()

    def put(self, raw: Buffer) -> Place:
        """Put bytes before all others; returns their place."""
        self._parts.append(raw)
        self.size += len(raw)
        return self.size

    def align(self, alignment: int, following: int = 0) -> None:
        """Zeros, after which `following` bytes end at a multiple of `alignment`."""
        self.alignment = max(self.alignment, alignment)
        lacking = -(self.size + following) % alignment
        if lacking:
            self.put(bytes(lacking))

    def scalar(self, raw: bytes) -> Place:
        """A number at a multiple of its size."""
        self.align(len(raw))
        return self.put(raw)

    def offset(self, place: Place) -> Place:
        """The distance from here to a place."""
        self.align(4)
        return self.put(_OFFSET.pack(self.size - place + 4))

    def vector(self, raw: Buffer, count: int, alignment: int) -> Place:
        """The number of elements, and the elements."""
        self.align(4, len(raw))
        self.align(alignment, len(raw))
        self.put(raw)
        return self.put(_OFFSET.pack(count))

    def offsets(self, places: Sequence[Place]) -> Place:
        """A vector of offsets, each the distance from itself to its place."""
        self.align(4, 4 * len(places))
        last = self.size + 4 * len(places)
        distances = [last - 4 * index - place for index, place in enumerate(places)]
        return self.vector(struct.pack(f"<{len(places)}I", *distances), len(places), 4)

    def string(self, text: str) -> Place:
        """A vector of characters, followed by a zero."""
        raw = text.encode()
        self.align(4, len(raw) + 1)
        self.put(b"\0")
        self.put(raw)
        return self.put(_OFFSET.pack(len(raw)))

    def table(self, end: Place, fields: Sequence[Place]) -> Place:
        """The head of a table whose fields stand after `end`, by slot; 0 for absent ones. Equal vtables are shared."""
        self.align(4)
        start = self.size + 4
        used = len(fields)
        while used and not fields[used - 1]:
            used -= 1
        entries = (2 * used + 4, start - end, *(start - place if place else 0 for place in fields[:used]))
        known = self._vtables.get(entries)
        if known is not None:
            return self.put(_SIGNED.pack(known - start))
        self.put(_SIGNED.pack(entries[0]))
        self._vtables[entries] = self.put(struct.pack(f"<{len(entries)}H", *entries))
        return start

    def finished(self, root: Place, identifier: bytes) -> bytes:
        """All bytes, with the place of the root and the file's identifier before them."""
        self.align(self.alignment, 8)
        self.put(identifier)
        self.offset(root)
        return b"".join(reversed(self._parts))
