"""Flatbuffers from declarative schemas: one table declaration serves the writer and the reader.

A `Table` names its fields, each with the slot it has in the schema (`.fbs`) file. Values are plain dicts:
scalars are numbers, vectors of numbers numpy arrays, strings `str`, tables dicts, vectors of tables lists.
An absent scalar takes its default; any other absent field is None. The layout is that of
https://flatbuffers.dev/internals: little endian, 32-bit offsets, a vtable of 16-bit field offsets per table.
"""

from npu_assay.partitioners.exir.flatbuffer.reading import Limits, read
from npu_assay.partitioners.exir.flatbuffer.schema import (
    Buffer,
    FormatError,
    Kind,
    Nested,
    Numbers,
    Record,
    Scalar,
    String,
    Strings,
    Table,
    Tables,
    Union,
    in_order,
)
from npu_assay.partitioners.exir.flatbuffer.writing import write

__all__ = [
    "Buffer",
    "FormatError",
    "Kind",
    "Limits",
    "Nested",
    "Numbers",
    "Record",
    "Scalar",
    "String",
    "Strings",
    "Table",
    "Tables",
    "Union",
    "in_order",
    "read",
    "write",
]
