"""Blobs of XNNPACK, as they are and with broken parts."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from xnn_models import (
    number,
    unary,
)

from npu_assay.partitioners.exir import flatbuffer
from npu_assay.partitioners.xnnpack import xnn_schema as schema
from npu_assay.partitioners.xnnpack.xnn_model import (
    PerChannel,
    PerGroup,
    XModel,
    XNode,
    XValue,
)

NUMBERS = number("fp32", 2, 3)
ABS = unary("Abs", NUMBERS, NUMBERS)


# ------------------------------------------------------------------------------------------------ round trips


def _same(a: object, b: object) -> bool:
    """Equality that looks into records and arrays."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, (XValue, PerChannel, PerGroup, XNode, XModel)) and type(a) is type(b):
        return all(_same(getattr(a, field.name), getattr(b, field.name)) for field in fields(a))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return a == b


# ------------------------------------------------------------------------------------------------ broken bytes


def _record(blob: bytes) -> dict[str, Any]:
    """The flatbuffer of a blob as records."""
    _, _, start, length, *_ = struct.unpack_from("<4x4sHIIIQ", blob)
    return flatbuffer.read(schema.GRAPH, blob[start : start + length], schema.IDENTIFIER)


def _blob(record: dict[str, Any], data: bytes) -> bytes:
    """A blob of records and constants."""
    graph = flatbuffer.write(schema.GRAPH, record, schema.IDENTIFIER)
    return struct.pack("<4x4sHIIIQ", b"XH00", 30, 32, len(graph), 32 + len(graph), len(data)) + b"\0\0" + graph + data


def _header(**changes: int) -> Callable[[bytes], bytes]:
    names = {"size": ("<H", 8), "start": ("<I", 10), "length": ("<I", 14), "behind": ("<I", 18), "extent": ("<Q", 22)}

    def change(blob: bytes) -> bytes:
        data = bytearray(blob)
        for name, value in changes.items():
            struct.pack_into(names[name][0], data, names[name][1], value)
        return bytes(data)

    return change
