"""What a flatbuffer's tables are made of: a declaration serves the writer and the reader."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from npu_assay.partitioners.exir.flatbuffer.layout import Field, Layout, layout

CODES: Final = {
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
STRUCTS: Final = {name: struct.Struct(code) for name, code in CODES.items()}
DTYPES: Final = {name: np.dtype(code) for name, code in CODES.items()}
LIMITS: Final = {name: (int(np.iinfo(name).min), int(np.iinfo(name).max)) for name in CODES if "int" in name}


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
    def stored(self) -> tuple[tuple[str, int, Kind, struct.Struct | None], ...]:
        """Name, slot and kind of each field, and how a scalar is stored."""
        return tuple(
            (name, slot, kind, STRUCTS[kind.type] if isinstance(kind, Scalar) else None)
            for name, (slot, kind) in self.fields.items()
        )

    @cached_property
    def _layouts(self) -> dict[tuple[tuple[str, ...], int], Layout]:
        return {}

    def layout_of(self, names: tuple[str, ...], phase: int) -> Layout:
        """Where these fields lie when they are all that is present, and `phase` bytes precede the table."""
        key = names, phase
        if key not in self._layouts:
            fields = [
                Field(slot, CODES[kind.type][1], False) if isinstance(kind, Scalar) else Field(slot, "I", True)
                for slot, kind in map(self.fields.__getitem__, names)
            ]
            self._layouts[key] = layout(fields, phase)
        return self._layouts[key]

    @cached_property
    def empty(self) -> Record:
        """What is read when no field is present."""
        return {
            name: fitting(kind.default, kind.type, "default") if isinstance(kind, Scalar) else None
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


def fitting(number: Any, type_: str, where: str) -> Any:
    """`number` as the type stores it. Raises FormatError for an integer that does not fit."""
    if type_ in LIMITS:
        low, high = LIMITS[type_]
        if (isinstance(number, float) and not number.is_integer()) or not low <= number <= high:
            raise FormatError("number", number, f"an integer from {low} to {high}", where)
        return int(number)
    return bool(number) if type_ == "bool" else float(number)
