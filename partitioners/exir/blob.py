"""A small container for compiled delegates: a JSON header and arrays of numbers, checked when it is read.

Layout: the magic `NPUBLOB1`, the header's size in bytes (uint32, little endian), the header, the arrays one after
another. The header is the backend's own, with the arrays' types and shapes under "arrays". No code is in it.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

MAGIC = b"NPUBLOB1"
DTYPES = MappingProxyType(
    {
        "int8": torch.int8,
        "int16": torch.int16,
        "int32": torch.int32,
        "int64": torch.int64,
        "float16": torch.float16,
        "float32": torch.float32,
        "float64": torch.float64,
    }
)
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_START = len(MAGIC) + 4


class BlobError(ValueError):
    """Bytes are not such a container, or it cannot hold the content; says what was found and what was expected."""


def pack(header: dict[str, Any], arrays: Sequence[torch.Tensor] = ()) -> bytes:
    """The container's bytes, the same ones for the same content.

    Numbers of a header may be infinite or NaN, as arguments of operators are, in the way that Python writes them.

    Raises BlobError for an array that is empty or of none of DTYPES, for a header with a key "arrays", and for
    a header that JSON cannot hold.
    """
    if "arrays" in header:
        raise BlobError("blob header: found the key 'arrays', expected it free for the arrays' types and shapes")
    for array in arrays:
        if array.dtype not in _NAMES:
            raise BlobError(f"blob array: found {array.dtype}, expected one of {', '.join(DTYPES)}")
        if array.numel() == 0:
            raise BlobError(f"blob array: found shape {list(array.shape)}, expected sizes of at least 1")
    described = [{"dtype": _NAMES[a.dtype], "shape": list(a.shape)} for a in arrays]
    try:
        text = json.dumps(header | {"arrays": described}, sort_keys=True).encode()
    except (TypeError, ValueError) as error:
        raise BlobError(f"blob header: {error}") from error
    data = (array.contiguous().numpy().astype(_format(array.dtype)).tobytes() for array in arrays)
    return b"".join((MAGIC, struct.pack("<I", len(text)), text, *data))


def unpack(data: bytes) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """The header (without "arrays") and the arrays. Raises BlobError for bytes that `pack` does not write."""
    if data[: len(MAGIC)] != MAGIC or len(data) < _START:
        raise BlobError(f"blob: found {bytes(data[: len(MAGIC)])!r}, expected {MAGIC!r} and a size")
    (size,) = struct.unpack("<I", data[len(MAGIC) : _START])
    header, at = _header(bytes(data[_START : _START + size]), size), _START + size
    arrays = []
    for index, entry in enumerate(header.pop("arrays")):
        dtype, shape = _described(entry, f"blob array {index}")
        end = at + dtype.itemsize * math.prod(shape)
        if end > len(data):
            raise BlobError(f"blob array {index}: found {len(data) - at} bytes, expected {end - at}")
        arrays.append(_array(bytes(data[at:end]), dtype, shape))
        at = end
    if at != len(data):
        raise BlobError(f"blob: found {len(data) - at} bytes after the last array, expected none")
    return header, arrays


def _header(text: bytes, size: int) -> dict[str, Any]:
    if len(text) != size:
        raise BlobError(f"blob header: found {len(text)} bytes, expected {size}")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BlobError(f"blob header: {error}") from error
    if not isinstance(header, dict) or not isinstance(header.get("arrays"), list):
        raise BlobError("blob header: found no key 'arrays', expected one with a list")
    return header


def _described(entry: Any, where: str) -> tuple[torch.dtype, list[int]]:
    dtype, shape = (entry.get("dtype"), entry.get("shape")) if isinstance(entry, dict) else (None, None)
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise BlobError(f"{where}: found type {dtype!r}, expected one of {', '.join(DTYPES)}")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 1 for n in shape):
        raise BlobError(f"{where}: found shape {shape!r}, expected a list of sizes, at least 1")
    return DTYPES[dtype], shape


def _array(data: bytes, dtype: torch.dtype, shape: list[int]) -> torch.Tensor:
    """A tensor of its own memory."""
    little = np.frombuffer(data, _format(dtype))
    return torch.from_numpy(little.astype(little.dtype.newbyteorder("="))).reshape(shape)


def _format(dtype: torch.dtype) -> str:
    return f"<{'f' if dtype.is_floating_point else 'i'}{dtype.itemsize}"
