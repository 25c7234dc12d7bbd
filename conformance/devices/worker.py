"""The process of a device: it answers jobs with a program's function, in whatever interpreter the program needs.

    python worker.py FILE.py:FUNCTION [DISTRIBUTION ...]

It needs Python 3.8 and numpy, and nothing of the suite. The function gets a model as bytes and arrays, and returns
arrays; without arrays for a model that takes some it only compiles. Messages go over the standard input and output, as
docs/devices.md says; what is printed goes to a file, whose last lines explain an error.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import platform
import re
import struct
import sys
import tempfile
from typing import IO, TYPE_CHECKING, Any, Callable, Sequence  # noqa: UP035  (of Python 3.8, too)

import numpy as np

PROTOCOL = 1
SIZE = struct.Struct(">Q")
HEADER, LONGEST = 2**22, 2**31  # bytes of a header, and of all that follows it
_BLOCK = 2**16
_PRINTED = 4096
_STAMP = re.compile(r"^\w \d\d:\d\d:\d\d\.\d+ executorch:|\[?\b[\w./-]+\.(?:cpp|h|cc):\d+\]? *")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
TYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "float16", "float32", "float64")

if TYPE_CHECKING:  # Python 3.8 reads annotations as text, and no such types elsewhere
    Array = np.ndarray[Any, Any]
    Message = tuple[dict[str, Any], list[bytes]]
    Function = Callable[[bytes, list[Array]], Sequence[Array]]

# ------------------------------------------------------------------------------------ messages


class NoiseError(ValueError):
    """Bytes that are no message."""


def message(header: dict[str, Any], parts: Sequence[bytes] = ()) -> bytes:
    """A message's bytes: the header's size, the header in JSON with the parts' sizes, the parts."""
    text = json.dumps({**header, "sizes": [len(part) for part in parts]}).encode()
    return b"".join((SIZE.pack(len(text)), text, *parts))


def taken(buffer: bytearray) -> Message | None:
    """The first message in a buffer, which loses it; None while it is not whole. Raises NoiseError."""
    if len(buffer) < SIZE.size:
        return None
    (length,) = SIZE.unpack(buffer[: SIZE.size])
    if length > HEADER:
        raise NoiseError(f"found a header of {length} bytes, expected at most {HEADER}")
    start = SIZE.size + length
    if len(buffer) < start:
        return None
    header, sizes = _read(bytes(buffer[SIZE.size : start]))
    end = start + sum(sizes)
    if len(buffer) < end:
        return None
    parts = []
    for size in sizes:
        parts.append(bytes(buffer[start : start + size]))
        start += size
    del buffer[:end]
    return header, parts


def _read(text: bytes) -> tuple[dict[str, Any], list[int]]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    sizes = header.pop("sizes", None) if isinstance(header, dict) else None
    if not isinstance(header, dict) or not isinstance(sizes, list):
        raise NoiseError("found no header with sizes")
    if not all(type(size) is int and size >= 0 for size in sizes) or sum(sizes) > LONGEST:
        raise NoiseError(f"found parts of more than {LONGEST} bytes, or of none that can be")
    return header, sizes


def arrays(kinds: Any, parts: Sequence[bytes]) -> list[Array]:
    """The arrays that a header describes by types and shapes. Raises NoiseError for what they are not."""
    if not isinstance(kinds, list) or len(kinds) != len(parts):
        raise NoiseError(f"found {len(parts)} arrays, expected as many as the header describes")
    return [_array(kind, part) for kind, part in zip(kinds, parts)]  # noqa: B905  (of Python 3.8, too)


def _array(kind: Any, data: bytes) -> Array:
    name, shape = kind if isinstance(kind, list) and len(kind) == 2 else (None, None)
    if not isinstance(name, str) or name not in TYPES:
        raise NoiseError(f"found an array of type {name!r}, expected one of {', '.join(TYPES)}")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise NoiseError(f"found an array of shape {shape!r}, expected a list of sizes")
    dtype, numbers = np.dtype(name).newbyteorder("<"), 1
    for size in shape:
        numbers *= size
    if len(data) != numbers * dtype.itemsize:
        raise NoiseError(f"found {len(data)} bytes, expected {numbers * dtype.itemsize} of {name} in shape {shape}")
    return np.frombuffer(data, dtype).astype(np.dtype(name)).reshape(shape)


def described(found: Sequence[Array]) -> tuple[list[Any], list[bytes]]:
    """Types and shapes of arrays, and their numbers in row-major order, low bytes first."""
    whole = [np.asarray(each) for each in found]
    kinds = [[each.dtype.name, list(each.shape)] for each in whole]
    return kinds, [each.astype(each.dtype.newbyteorder("<"), order="C").tobytes() for each in whole]


# ------------------------------------------------------------------------------------ the process


def main(program: str, distributions: Sequence[str]) -> None:
    """Answer jobs until the other end closes, in a folder of its own, where a program may leave files."""
    reading, writing = os.dup(0), os.dup(1)
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryDirectory() as folder:
        for stream in (1, 2):
            os.dup2(printed.fileno(), stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        program = os.path.abspath(program) if ".py:" in program else program
        os.chdir(folder)
        try:
            run = function(program)
        except Exception as error:  # noqa: BLE001  (a program may raise anything; the text goes to the other end)
            _send(writing, message({"error": explained(type(error).__name__, str(error), printed)}))
        else:
            _send(writing, message({"protocol": PROTOCOL, "versions": _versions(run, distributions)}))
            _serve(run, reading, writing, printed)
        os.chdir(os.path.dirname(folder))


def _serve(run: Function, reading: int, writing: int, printed: IO[bytes]) -> None:
    buffer = bytearray()
    while True:
        job = taken(buffer)
        if job is not None:
            _send(writing, _answer(run, job, printed))
            continue
        block = os.read(reading, _BLOCK)
        if not block:
            return
        buffer += block


def function(program: str) -> Function:
    """The function of a file, or of a module where there is no such file."""
    place, _, name = program.rpartition(":")
    if not place.endswith(".py"):
        return getattr(importlib.import_module(place), name)  # type: ignore[no-any-return]
    spec = importlib.util.spec_from_file_location("device_program", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["device_program"] = module
    spec.loader.exec_module(module)
    return getattr(module, name)  # type: ignore[no-any-return]


def _versions(run: Function, distributions: Sequence[str]) -> dict[str, str]:
    """Versions of distributions, and what the program says of itself; those of Python and numpy."""
    from importlib.metadata import PackageNotFoundError, version  # with torch, it takes longer than all else here

    found = {"python of the device": platform.python_version(), "numpy of the device": np.__version__}
    for name in distributions:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    told: dict[str, str] = getattr(sys.modules.get(run.__module__), "versions", dict)()
    return {**found, **{str(name): str(each) for name, each in told.items()}}


def _send(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _answer(run: Function, job: Message, printed: IO[bytes]) -> bytes:
    header, (model, *parts) = job
    printed.seek(0)
    printed.truncate()
    try:
        kinds, numbers = described(run(model, arrays(header["arrays"], parts)))
    except Exception as error:  # noqa: BLE001  (native code may raise anything; the text goes to the other end)
        sys.stderr.flush()
        return message({"number": header["number"], "error": explained(type(error).__name__, str(error), printed)})
    return message({"number": header["number"], "arrays": kinds}, numbers)


def explained(kind: str, said: str, printed: IO[bytes]) -> str:
    """An error with the lines that were printed last, without times, places in source files and addresses."""
    printed.seek(0)
    lines = printed.read(_PRINTED).decode("utf-8", "replace").splitlines()
    told = [text for line in lines if (text := _ADDRESS.sub("0x...", _STAMP.sub("", line)).strip())]
    whole = f"{kind}: {said}" if said else kind
    return f"{whole} ({'; '.join(dict.fromkeys(told))})" if told else whole


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
