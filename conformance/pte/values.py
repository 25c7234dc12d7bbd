"""Values that a method of a `.pte` file takes and returns, as bytes between processes: never objects.

A header in JSON says type by type what follows; numbers of tensors follow as `.npy` files.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from npu_assay.conformance.common.npy import npy_array

if TYPE_CHECKING:
    import torch

Array = npt.NDArray[Any]

_LENGTH: Final = struct.Struct("<Q")
_EXACT: Final = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64", "complex64", "complex128", "bool"),
)
NUMPY: Final = {
    **{name: name for name in _EXACT},
    "bfloat16": "float32",
    "complex32": "complex64",
    **dict.fromkeys(("float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz"), "float32"),
}
"""Numpy's type for torch's: the same, or a wider one that holds its numbers exactly."""

_PLAIN: Final = (bool, int, float, str, type(None))


@dataclass(frozen=True, eq=False)
class Output:
    """One value. type: torch's name of a tensor's dtype, else Python's; value: an array, a number, a text, a list."""

    type: str
    value: Any


def encode(values: Sequence[Any]) -> bytes:
    """Tensors, numbers, texts, None and lists of those as bytes. Raises TypeError for anything else."""
    arrays = list[bytes]()
    header = json.dumps([_entry(value, arrays) for value in values]).encode()
    return b"".join((_LENGTH.pack(len(header)), header, *arrays))


def _entry(value: Any, arrays: list[bytes]) -> dict[str, Any]:
    import torch  # slow to load

    if isinstance(value, torch.Tensor):
        data = _npy(value)
        arrays.append(data)
        return {"tensor": str(value.dtype).removeprefix("torch."), "bytes": len(data)}
    if isinstance(value, list):
        return {"list": [_entry(each, arrays) for each in value]}
    if type(value) not in _PLAIN:
        raise TypeError(f"output of type {type(value).__name__}")
    return {"plain": value}


def _npy(tensor: torch.Tensor) -> bytes:
    import torch  # slow to load

    wanted = getattr(torch, NUMPY[str(tensor.dtype).removeprefix("torch.")])
    file = io.BytesIO()
    np.lib.format.write_array(file, tensor.to(wanted).contiguous().numpy(), allow_pickle=False)
    return file.getvalue()


def decode(data: bytes) -> list[Output]:
    """The values that `encode` made bytes of. Raises ValueError for other bytes."""
    try:
        (length,) = _LENGTH.unpack_from(data)
        entries = json.loads(data[_LENGTH.size : _LENGTH.size + length])
        rest = _Rest(memoryview(data)[_LENGTH.size + length :])
        found = [_output(entry, rest) for entry in entries]
    except (struct.error, TypeError, LookupError, RecursionError) as error:
        raise ValueError(f"not values: {error}") from error
    if rest.data:
        raise ValueError(f"{len(rest.data)} bytes after the values")
    return found


@dataclass
class _Rest:
    """What is not decoded so far."""

    data: memoryview

    def take(self, size: int) -> bytes:
        if type(size) is not int or not 0 <= size <= len(self.data):
            raise ValueError(f"an array of {size} bytes, of which there are {len(self.data)}")
        taken, self.data = bytes(self.data[:size]), self.data[size:]
        return taken


def _output(entry: dict[str, Any], rest: _Rest) -> Output:
    if "tensor" in entry:
        array = npy_array(rest.take(entry["bytes"]))
        if array.dtype != np.dtype(NUMPY[entry["tensor"]]):
            raise ValueError(f"an array of {array.dtype} for a tensor of {entry['tensor']}")
        return Output(entry["tensor"], array)
    if "list" in entry:
        return Output("list", [_output(each, rest).value for each in entry["list"]])
    value = entry["plain"]
    if type(value) not in _PLAIN:
        raise ValueError(f"a plain value of type {type(value).__name__}")
    return Output("None" if value is None else type(value).__name__, value)


def saved(outputs: Sequence[Output]) -> Iterator[tuple[str, Array]]:
    """Arrays to be saved, by name: output_0, output_1, ... but for those that are None. Raises ValueError."""
    for index, output in enumerate(outputs):
        if output.value is not None:
            try:
                array = np.asarray(output.value)
            except (ValueError, OverflowError) as error:
                raise ValueError(f"output {index}: {error}") from error
            if array.dtype == object:
                raise ValueError(f"output {index}: expected a tensor, a number or a text, to be saved")
            yield f"output_{index}", array
