"""Tensors in files: ONNX's TensorProto (`.pb`) and numpy's `.npy`, written here and read from anybody."""

from __future__ import annotations

import io
from math import prod
from pathlib import Path

import numpy as np
import torch
from google.protobuf.message import DecodeError
from onnx import TensorProto, numpy_helper
from torch import Tensor

from npu_assay.conformance.common.npy import NpyError, npy_array
from npu_assay.conformance.interchange.onnx_writer import TYPES, numpy_type
from npu_assay.files import read_regular
from npu_assay.reference.onnx_forms.site import Array

KINDS = (".pb", ".npy")
LARGEST = 2**28  # bytes of a file; a case has tensors of 2**24 numbers at most
RAW = "raw_data"
FIELDS = (RAW, "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
"""The fields of a TensorProto that can hold its numbers."""
_BY_NUMBER = {number: dtype for dtype, (number, _) in TYPES.items()}
_BY_NUMPY = {np.dtype(kind): dtype for dtype, (_, kind) in TYPES.items()}


class TensorFileError(ValueError):
    """A file without a valid tensor; the message says what is wrong with it."""


def tensor_bytes(tensor: Tensor, name: str, kind: str) -> bytes:
    """A file's bytes; `kind` is one of KINDS. Raises FormError for a dtype that files do not have."""
    numpy_type(tensor.dtype)
    array: Array = tensor.detach().contiguous().numpy().reshape(tuple(tensor.shape))
    if kind == ".pb":
        return bytes(numpy_helper.from_array(array, name).SerializeToString(deterministic=True))
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def read_tensor(path: Path, folder: Path) -> Tensor:
    """Read the tensor in a `.pb` or `.npy` file below this folder. Raises TensorFileError."""
    try:
        data = read_regular(path, LARGEST, folder)
    except OSError as error:
        raise TensorFileError(f"cannot be read: {error.strerror}") from error
    return tensor_from(data, path.suffix)


def tensor_from(data: bytes, kind: str) -> Tensor:
    """The tensor in a file's bytes. Raises TensorFileError."""
    try:
        array = _from_proto(data) if kind == ".pb" else npy_array(data)
    except NpyError as error:
        raise TensorFileError(str(error)) from error
    dtype = _BY_NUMPY.get(array.dtype)
    if dtype is None:
        raise TensorFileError(f"found numbers of type {array.dtype}, which no output has")
    return torch.from_numpy(np.array(array, order="C", copy=True))


def _from_proto(data: bytes) -> Array:
    proto = TensorProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        raise TensorFileError("not a TensorProto, or truncated") from error
    if proto.data_location != TensorProto.DEFAULT or proto.external_data:
        raise TensorFileError("its numbers are in another file, expected them in this one")
    if proto.data_type not in _BY_NUMBER:
        raise TensorFileError(f"found numbers of ONNX type {proto.data_type}, which no output has")
    _check_once(proto)
    _check_size(proto)
    try:
        return np.asarray(numpy_helper.to_array(proto))
    except (ValueError, TypeError) as error:
        raise TensorFileError(f"not a whole tensor: {error}") from error


def _check_once(proto: TensorProto) -> None:
    """Raise TensorFileError for numbers in several fields: readers would choose different ones."""
    found = [field for field in FIELDS if (proto.HasField(field) if field == RAW else len(getattr(proto, field)))]
    if len(found) > 1:
        raise TensorFileError(f"found numbers in several fields: {' and '.join(found)}")


def _check_size(proto: TensorProto) -> None:
    """Raise TensorFileError unless there are as many bytes or numbers as the sizes need, before any is allocated."""
    sizes = list(proto.dims)
    if any(size < 0 for size in sizes):
        raise TensorFileError(f"invalid sizes {sizes}")
    listed = max(len(proto.float_data), len(proto.int32_data), len(proto.int64_data), len(proto.double_data))
    width = np.dtype(TYPES[_BY_NUMBER[proto.data_type]][1]).itemsize
    found = len(proto.raw_data) // width if proto.HasField(RAW) else listed
    if found != prod(sizes) or (proto.HasField(RAW) and len(proto.raw_data) % width):
        raise TensorFileError(f"found {found} numbers, expected those of sizes {sizes}: truncated")
