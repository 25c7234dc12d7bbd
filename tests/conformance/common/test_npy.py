"""Reading `.npy` and `.npz` files that others wrote, or spoilt: an array, or one error."""

from __future__ import annotations

import contextlib
import io
import zipfile

import numpy as np
import pytest

from npu_assay.conformance.common.npy import Array, NpyError, npy_array, npy_arrays

KINDS = ("<f4", ">f4", ">i8", "<f2", "i1", "?", "<U3", ">c16")


def saved(array: Array) -> bytes:
    """An `.npy` file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def headed(header: str, version: int = 1) -> bytes:
    """An `.npy` file that is nothing but this header."""
    text = header.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text


def described(shape: str, kind: str = "'<f4'") -> str:
    """A header in the usual form."""
    return f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}}}\n"


def zipped(**members: bytes) -> bytes:
    """An archive of files whose names have a dot for each underscore."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("_", "."), data)
    return file.getvalue()


@pytest.mark.parametrize("kind", KINDS)
def test_every_byte_order_and_layout_is_read(kind: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(kind)
    for one in (array, np.asfortranarray(array), array[:, 1:], array[:0], np.array(array[0, 0])):
        found = npy_array(saved(one))
        assert found.dtype.isnative and found.flags.writeable
        assert found.shape == one.shape and np.array_equal(found, one)


@pytest.mark.parametrize(
    "header",
    [
        "(" * 5000,
        "((((",
        "{'descr': '<f4",
        "[1, 2]\n",
        "{b'descr': '<f4', 1: 2}\n",
        "\0",
        described("(10**12,)"),
        described("('a',)"),
        described("3"),
        described("(-1,)"),
        described("(True, 1180591620717411303424, 0)"),
        described("(1,)", "[1, 2]"),
        described("(1,)", "('<f4', 3, 4, 5)"),
        described("(1,)", "'<f4,,'"),
        described("(1,)", "'|O'"),
        described("(2,)", "'|V0'"),
        described("(" + "0, " * 99 + ")"),
        described("(9" + "9" * 5000 + ",)"),
    ],
    ids=lambda header: header[:40],
)
@pytest.mark.parametrize("version", [1, 2, 3, 9])
def test_malformed_headers_are_one_error(header: str, version: int) -> None:
    with pytest.raises(NpyError) as error:
        npy_array(headed(header, version))
    assert len(str(error.value).splitlines()) == 1 and "0x" not in str(error.value)


def test_sizes_are_compared_with_the_file_before_anything_is_allocated() -> None:
    with pytest.raises(NpyError, match=r"0 bytes, but sizes \[100000000000000\] of float32"):
        npy_array(headed(described("(100000000000000,)")))
    with pytest.raises(NpyError, match=r"'a\.npy': 0 bytes, but sizes"):
        npy_arrays(zipped(a_npy=headed(described("(100000000000000,)"))))


def test_archives_hold_arrays_in_order_and_nothing_else() -> None:
    x, y = np.arange(3), np.array(2, np.float32)
    found = npy_arrays(zipped(b_npy=saved(x), a_npy=saved(y)))
    assert [one.tolist() for one in found] == [[0, 1, 2], 2.0]
    assert npy_arrays(zipped()) == []
    with pytest.raises(NpyError, match=r"holds 'a\.txt', expected \.npy files only"):
        npy_arrays(zipped(a_txt=b"hello"))


def test_spoilt_archives_are_one_error() -> None:
    data = zipped(a_npy=saved(np.arange(3)))
    for length in range(4, len(data)):
        with pytest.raises(NpyError, match=r"not an \.npz file"):
            npy_arrays(data[:length])
    for place in range(4, len(data)):
        spoilt = data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]
        with contextlib.suppress(NpyError):
            npy_arrays(spoilt)
