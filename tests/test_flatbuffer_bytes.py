"""The writer of flatbuffers beside the builder of the package `flatbuffers`: the same bytes for random records."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np
import pytest
from flatbuffers import number_types

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
    write,
)

TYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64")
INNER = in_order("Inner", a=Scalar("int8"), b=Scalar("int64", 3), c=String(), d=Scalar("bool"))
LEAF = in_order("Leaf", x=Numbers("float32"), y=Scalar("uint16"))
OUTER = in_order(
    "Outer",
    **{f"s_{name}": Scalar(name) for name in TYPES},
    text=String(),
    texts=Strings(),
    **{f"n_{name}": Numbers(name) for name in TYPES if name != "bool"},
    aligned=Numbers("uint8", 16),
    inner=Nested(INNER),
    many=Tables(INNER),
    leaf=Union("leaf_type", {1: LEAF, 2: INNER}),
)


class Theirs:
    """A record in the package's builder, number by number."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1)

    def written(self, table: Table, value: Mapping[str, Any], identifier: bytes) -> bytes:
        self.builder.Finish(self.table(table, value), file_identifier=identifier)
        return bytes(self.builder.Output())

    def table(self, table: Table, value: Mapping[str, Any]) -> int:
        children = {
            name: self.child(kind, value, value[name])
            for name, (_, kind) in table.fields.items()
            if name in value and not isinstance(kind, Scalar)
        }
        self.builder.StartObject(table.slots)
        for name, (slot, kind) in table.fields.items():
            if name in children:
                self.builder.PrependUOffsetTRelativeSlot(slot, children[name], 0)
            elif name in value and isinstance(kind, Scalar) and value[name] != kind.default:
                self.builder.Prepend(getattr(number_types, f"{kind.type.title()}Flags"), value[name])
                self.builder.Slot(slot)
        return int(self.builder.EndObject())

    def child(self, kind: Kind, record: Mapping[str, Any], value: Any) -> int:
        match kind:
            case Tables():
                return self.offsets([self.table(kind.table, each) for each in value])
            case Nested():
                return self.table(kind.table, value)
            case Union():
                return self.table(kind.members[record[kind.tag]], value)
            case String():
                return int(self.builder.CreateString(value))
            case Strings():
                return self.offsets([self.builder.CreateString(each) for each in value])
        assert isinstance(kind, Numbers)
        flags = getattr(number_types, f"{kind.type.title()}Flags")
        self.builder.StartVector(flags.bytewidth, len(value), max(kind.align, flags.bytewidth))
        for number in reversed(value.tolist()):
            self.builder.Place(number, flags)
        return int(self.builder.EndVector())

    def offsets(self, places: Sequence[int]) -> int:
        self.builder.StartVector(4, len(places), 4)
        for place in reversed(places):
            self.builder.PrependUOffsetTRelative(place)
        return int(self.builder.EndVector())


class Drawn:
    """Random records of a table, some of whose fields are absent or at their defaults."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def record(self, table: Table) -> dict[str, Any]:
        tags = {kind.tag for _, kind in table.fields.values() if isinstance(kind, Union)}
        found: dict[str, Any] = {}
        for name, (_, kind) in table.fields.items():
            if name not in tags and self.random.random() < 0.7:
                if isinstance(kind, Union):
                    found[kind.tag] = self.random.choice(list(kind.members))
                found[name] = self.value(kind, found)
        return found

    def value(self, kind: Kind, record: Mapping[str, Any]) -> Any:
        few = self.random.randrange(5)
        match kind:
            case Scalar():
                return self.number(kind.type) if self.random.random() < 0.8 else kind.default
            case Numbers():
                return np.array([self.number(kind.type) for _ in range(few)], kind.type)
            case String():
                return self.text()
            case Strings():
                return [self.text() for _ in range(few)]
            case Nested():
                return self.record(kind.table)
            case Tables():
                return [self.record(kind.table) for _ in range(few)]
            case Union():
                return self.record(kind.members[record[kind.tag]])

    def number(self, type_: str) -> Any:
        if type_ == "bool":
            return self.random.random() < 0.5
        if "float" in type_:
            return struct.unpack("<f", struct.pack("<f", self.random.uniform(-9, 9)))[0]
        return self.random.randint(int(np.iinfo(type_).min), int(np.iinfo(type_).max))

    def text(self) -> str:
        return "".join(self.random.choices("abcdé", k=self.random.randrange(9)))


@pytest.mark.parametrize("seed", range(200))
def test_bytes_are_those_of_the_package(seed: int) -> None:
    record = Drawn(seed).record(OUTER)
    assert write(OUTER, record, b"TEST") == Theirs().written(OUTER, record, b"TEST")
