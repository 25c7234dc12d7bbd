"""Numpy's `.npy` and `.npz` files from anybody: plain arrays, or one error that says what is wrong with the file."""

from __future__ import annotations

import io
import lzma
import re
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from npu_assay.conformance.common.files import unpacked

Array = npt.NDArray[Any]
ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
SUFFIX = ".npy"
MOST = 4096  # files in an archive
LARGEST = 2**31  # bytes that they unpack to
RATIO = 200  # bytes from one compressed byte, and the bytes of a file to which that does not apply: zeros give 1,000
FREE = 2**26
FILE = LARGEST + MOST * 2**10  # bytes of a file, with the headers of all
_MALFORMED = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    SyntaxError,
    EOFError,
    MemoryError,
    RecursionError,
    tokenize.TokenError,
)
"""What numpy raises on headers that it did not write: it parses them as Python literals."""
_BAD_ARCHIVE = (
    OSError,
    ValueError,
    EOFError,
    MemoryError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
"""What reading a member raises: RuntimeError is for encrypted ones and for unknown kinds of compression."""


class NpyError(ValueError):
    """A file that holds no plain arrays; the message says why."""


def npy_array(data: bytes) -> Array:
    """The array in an `.npy` file's bytes, with its numbers in this machine's byte order.

    Nothing is allocated before the sizes are compared with the bytes that there are. Raises NpyError.
    """
    try:
        shape, fortran, dtype, start = _header(data)
        _check_size(shape, dtype, len(data) - start)
        flat = np.frombuffer(data, dtype, count=prod(shape), offset=start)
        array = flat.reshape(shape, order="F" if fortran else "C")
        return array.astype(dtype.newbyteorder("="))
    except _MALFORMED as error:
        if isinstance(error, NpyError):
            raise
        raise NpyError(f"not an .npy file: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Numpy's words in one line, without the addresses that Python's parser puts there."""
    return re.sub(r" at 0x\w+", "", " ".join(str(error).split())) or type(error).__name__


def _header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Sizes, whether the first of them runs fastest, dtype, and where the numbers start."""
    file = io.BytesIO(data)
    version = npy_format.read_magic(file)
    read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a header is Python 2's, which is read all the same
        shape, fortran, dtype = read(file)
    return shape, fortran, dtype, file.tell()


def _check_size(shape: tuple[int, ...], dtype: np.dtype[Any], found: int) -> None:
    if dtype.hasobject:
        raise NpyError("holds Python objects, which are not read")
    if any(size < 0 for size in shape):
        raise NpyError(f"sizes {list(shape)}")
    if prod(shape) * dtype.itemsize != found:
        raise NpyError(f"{found} bytes, but sizes {list(shape)} of {dtype}: cut short, or not whole")


def npy_arrays(data: bytes) -> list[Array]:
    """The array of an `.npy` file, or those of an `.npz` file in its order. Raises NpyError."""
    return list(_members(data)) if data.startswith(ZIP_MAGICS) else [npy_array(data)]


def npy_names(data: bytes) -> list[str]:
    """The names of the arrays of an `.npz` file, in its order; empty for an `.npy` file. Raises NpyError."""
    if not data.startswith(ZIP_MAGICS):
        return []
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return [name.removesuffix(SUFFIX) for name in archive.namelist()]
    except _BAD_ARCHIVE as error:
        raise NpyError(f"not an .npz file: {_reason(error)}") from error


def _members(data: bytes) -> Iterator[Array]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            _check_members(infos)
            for info in infos:
                yield _member(info.filename, unpacked(archive, info))
    except _BAD_ARCHIVE as error:
        if isinstance(error, NpyError):
            raise
        raise NpyError(f"not an .npz file: {_reason(error)}") from error


def _check_members(infos: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse other files, too many, and those that unpack to far more than they are, before any is unpacked."""
    if len(infos) > MOST:
        raise NpyError(f"holds {len(infos)} files, expected at most {MOST}")
    total = sum(info.file_size for info in infos)
    if total > LARGEST:
        raise NpyError(f"unpacks to {total} bytes, expected at most {LARGEST}")
    for info in infos:
        if not info.filename.endswith(SUFFIX):
            raise NpyError(f"holds {info.filename!r}, expected {SUFFIX} files only")
        if info.file_size > FREE + RATIO * info.compress_size:
            raise NpyError(f"{info.filename!r}: {info.compress_size} bytes that unpack to {info.file_size}")


def _member(name: str, data: bytes) -> Array:
    try:
        return npy_array(data)
    except NpyError as error:
        raise NpyError(f"{name!r}: {error}") from error
