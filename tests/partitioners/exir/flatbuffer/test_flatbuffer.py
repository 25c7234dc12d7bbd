"""The flatbuffer writer and reader: round trips, determinism, and every way a blob can lie."""

from __future__ import annotations

import random
import struct
from typing import Any

import flatbuffers
import numpy as np
import pytest

from npu_assay.partitioners.exir.flatbuffer import (
    FormatError,
    Nested,
    Numbers,
    Scalar,
    String,
    Strings,
    Table,
    Tables,
    Union,
    in_order,
    read,
    write,
)

LEAF = Table("Leaf", {"size": (0, Scalar("int32")), "flag": (2, Scalar("bool", True))})
OTHER = Table("Other", {"text": (0, String())})
ROOT = Table(
    "Root",
    {
        "count": (0, Scalar("uint16", 7)),
        "ratio": (1, Scalar("float32")),
        "name": (2, String()),
        "codes": (3, Numbers("int8", align=16)),
        "wide": (4, Numbers("int64")),
        "leaf": (5, Nested(LEAF)),
        "leaves": (6, Tables(LEAF)),
        "kind": (7, Scalar("uint8")),
        "body": (8, Union("kind", {1: LEAF, 2: OTHER})),
        "names": (9, Strings()),
    },
)
VALUE: dict[str, Any] = {
    "count": 65535,
    "ratio": 0.5,
    "name": "größe",
    "codes": np.arange(-3, 4, dtype=np.int8),
    "wide": [2**40, -1],
    "leaf": {"size": -5, "flag": False},
    "leaves": [{"size": 1}, {}],
    "kind": 2,
    "body": {"text": "x"},
    "names": ["a", "", "naïve"],
}
TREE_FIELDS: dict[str, Any] = {}
TREE = Table("Tree", TREE_FIELDS)
TREE_FIELDS["children"] = (0, Tables(TREE))


def _blob() -> bytes:
    return write(ROOT, VALUE, b"TEST")


def test_round_trip() -> None:
    found = read(ROOT, _blob(), b"TEST")
    assert found.pop("codes").tolist() == [-3, -2, -1, 0, 1, 2, 3]
    assert found.pop("wide").tolist() == [2**40, -1]
    leaves = [{"size": 1, "flag": True}, {"size": 0, "flag": True}]
    expected = {key: value for key, value in VALUE.items() if key not in ("codes", "wide")} | {"leaves": leaves}
    assert found == expected


def test_what_is_absent_has_its_default_or_none() -> None:
    found = read(ROOT, write(ROOT, {}, b"TEST"), b"TEST")
    assert found["count"] == 7
    assert found["leaf"] is found["name"] is found["codes"] is found["leaves"] is found["body"] is None


def test_fields_in_order_take_the_slots_one_by_one_and_a_union_two() -> None:
    table = in_order("Both", name=String(), body=Union("kind", {1: LEAF}), size=Scalar("int32"))
    assert {name: slot for name, (slot, _) in table.fields.items()} == {"name": 0, "kind": 1, "body": 2, "size": 3}


def test_same_value_same_bytes() -> None:
    assert _blob() == _blob()


def _by_builder(builder: Any, table: Table, value: dict[str, Any]) -> int:
    """Write a record with Google's builder: children first, then the table's own fields in order."""
    children = {n: _child_by_builder(builder, table.fields[n][1], value, v) for n, v in value.items()}
    builder.StartObject(1 + max(slot for slot, _ in table.fields.values()))
    for name, (slot, kind) in table.fields.items():
        if isinstance(kind, Scalar):
            flags = getattr(flatbuffers.number_types, f"{kind.type.title()}Flags")
            builder.PrependSlot(flags, slot, value.get(name, kind.default), kind.default)
        elif name in value:
            builder.PrependUOffsetTRelativeSlot(slot, children[name], 0)
    return int(builder.EndObject())


def _child_by_builder(builder: Any, kind: Any, record: dict[str, Any], value: Any) -> int:
    match kind:
        case Scalar():
            return 0
        case String():
            return int(builder.CreateString(value))
        case Numbers():
            array = np.asarray(value, kind.type)
            builder.StartVector(array.itemsize, array.size, max(kind.align, array.itemsize))
            for number in reversed(array.tolist()):
                builder.Place(number, getattr(flatbuffers.number_types, f"{kind.type.title()}Flags"))
        case Strings() | Tables():
            places = [
                builder.CreateString(each) if isinstance(kind, Strings) else _by_builder(builder, kind.table, each)
                for each in value
            ]
            builder.StartVector(4, len(places), 4)
            for place in reversed(places):
                builder.PrependUOffsetTRelative(place)
        case Nested() | Union():
            return _by_builder(
                builder, kind.table if isinstance(kind, Nested) else kind.members[record[kind.tag]], value
            )
    return int(builder.EndVector())


@pytest.mark.parametrize("absent", [(), ("codes", "name"), ("leaf", "kind", "body"), tuple(VALUE)])
def test_the_bytes_are_those_of_googles_builder(absent: tuple[str, ...]) -> None:
    value = {name: VALUE[name] for name in ROOT.fields if name in VALUE and name not in absent}
    builder = flatbuffers.Builder(64)
    builder.Finish(_by_builder(builder, ROOT, value), file_identifier=b"TEST")
    assert write(ROOT, value, b"TEST") == bytes(builder.Output())


WIDE = in_order("Wide", a=Scalar("int8"), b=Scalar("int64"), c=Scalar("int16"), d=Scalar("float64"), e=String())
MANY = in_order("Many", first=Scalar("uint8"), tables=Tables(WIDE), last=Nested(WIDE))


@pytest.mark.parametrize("seed", range(40))
def test_tables_of_any_fields_are_those_of_googles_builder(seed: int) -> None:
    """Numbers of 8 bytes after any count of bytes, and tables with equal vtables, which are written once."""
    draw = random.Random(seed)

    def wide() -> dict[str, Any]:
        value = {"a": 1, "b": 2**40, "c": 3, "d": 0.5, "e": "x" * draw.randrange(9)}
        return {name: value[name] for name in value if draw.random() < 0.6}

    value = {"first": 1, "tables": [wide() for _ in range(draw.randrange(12))], "last": wide()}
    builder = flatbuffers.Builder(64)
    builder.Finish(_by_builder(builder, MANY, value), file_identifier=b"TEST")
    assert write(MANY, value, b"TEST") == bytes(builder.Output())


def test_vectors_are_read_only_views_that_start_aligned() -> None:
    blob = _blob()
    codes = read(ROOT, blob, b"TEST")["codes"]
    assert not codes.flags.writeable
    assert blob.index(codes.tobytes()) % 16 == 0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"counts": 1}, "Root: field is 'counts'"),
        ({"count": 65536}, "Root.count: number is 65536, expected an integer from 0 to 65535"),
        ({"count": 1.5}, "Root.count: number is 1.5"),
        ({"codes": [200]}, "vector element: number is 200, expected an integer from -128 to 127"),
    ],
)
def test_the_writer_refuses_what_the_schema_cannot_hold(value: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message.replace("[", r"\[")):
        write(ROOT, value, b"TEST")


def test_every_truncation_is_an_error_or_loses_only_padding() -> None:
    blob = _blob()
    whole = repr(read(ROOT, blob, b"TEST"))
    for length in range(len(blob)):
        try:
            found = read(ROOT, blob[:length], b"TEST")
        except FormatError:
            continue
        assert repr(found) == whole and not any(blob[length:])


@pytest.mark.parametrize(("data", "message"), [(b"", "length is 0"), (b"\0" * 12, "file identifier")])
def test_what_is_no_flatbuffer_is_named(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(ROOT, data, b"TEST")


def _patched(find: bytes, replacement: bytes) -> bytes:
    blob = _blob()
    assert blob.count(find) == 1
    return blob.replace(find, replacement)


def test_a_vector_longer_than_the_blob_is_refused_before_it_is_read() -> None:
    prefix = struct.pack("<I", 7) + np.arange(-3, 4, dtype=np.int8).tobytes()
    blob = _patched(prefix, struct.pack("<I", 2**32 - 1) + prefix[4:])
    with pytest.raises(FormatError, match=r"Root\.codes at byte \d+: extent is bytes"):
        read(ROOT, blob, b"TEST")


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(FormatError, match=r"Root\.name at byte \d+: string is"):
        read(ROOT, _patched("größe".encode(), b"gr\xff\xffsse"), b"TEST")


def test_an_unknown_union_type_is_refused() -> None:
    record = VALUE | {"kind": 1, "body": {"size": 3}}
    foreign = Table("Root", {**ROOT.fields, "body": (8, Union("kind", {1: LEAF, 9: LEAF}))})
    with pytest.raises(FormatError, match=r"Root\.body at byte \d+: union type kind is 9, expected one of \[1, 2\]"):
        read(ROOT, write(foreign, record | {"kind": 9}, b"TEST"), b"TEST")


def _tree(children: int, levels: int) -> bytes:
    """A tree in which every level's children are one and the same table."""
    builder = flatbuffers.Builder(64)
    node = None
    for _ in range(levels):
        vector = None
        if node is not None:
            builder.StartVector(4, children, 4)
            for _ in range(children):
                builder.PrependUOffsetTRelative(node)
            vector = builder.EndVector()
        builder.StartObject(1)
        if vector is not None:
            builder.PrependUOffsetTRelativeSlot(0, vector, 0)
        node = builder.EndObject()
    builder.Finish(node, file_identifier=b"TEST")
    return bytes(builder.Output())


def test_sharing_that_grows_exponentially_ends_soon() -> None:
    """Read whole, it would be a billion nodes."""
    with pytest.raises(FormatError, match="sharing of data is excessive"):
        read(TREE, _tree(2, 30), b"TEST")


def test_nesting_has_a_limit() -> None:
    with pytest.raises(FormatError, match="nesting is deeper than 32"):
        read(TREE, _tree(1, 40), b"TEST")


def test_modest_nesting_and_sharing_are_read() -> None:
    assert len(read(TREE, _tree(2, 3), b"TEST")["children"]) == 2


def test_a_cycle_ends() -> None:
    blob = bytearray(_tree(1, 2))
    root = struct.unpack_from("<I", blob)[0]
    for at in range(root, len(blob) - 4, 4):
        patched = bytearray(blob)
        struct.pack_into("<I", patched, at, (root - at) % 2**32)
        try:
            read(TREE, bytes(patched), b"TEST")
        except FormatError:
            continue


@pytest.mark.parametrize("kind", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_every_integer_type_keeps_its_limits(kind: str) -> None:
    low, high = (0, 1) if kind == "bool" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    table = Table("T", {"low": (0, Scalar(kind)), "high": (1, Scalar(kind)), "all": (2, Numbers(kind))})
    found = read(table, write(table, {"low": low, "high": high, "all": [low, high]}, b"TEST"), b"TEST")
    assert (found["low"], found["high"], found["all"].tolist()) == (low, high, [low, high])
