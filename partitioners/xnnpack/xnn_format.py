"""XNNPACK delegate blobs to and from `XModel` records.

A blob is a header of 32 bytes, the subgraph as a flatbuffer, and the data of the constants, each part from a
multiple of 16 bytes. `write` gives the same bytes for the same subgraph, and equal constants once; `read`
refuses whatever `check` refuses.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import prod
from typing import Any, Final

import numpy as np

from npu_assay.partitioners.exir import flatbuffer
from npu_assay.partitioners.exir.flatbuffer import FormatError, Record
from npu_assay.partitioners.xnnpack import xnn_schema as schema
from npu_assay.partitioners.xnnpack.xnn_check import RANK_LIMIT, STORAGE, check, inferred, storage_shape
from npu_assay.partitioners.xnnpack.xnn_model import (
    ABSENT,
    Array,
    PerChannel,
    PerGroup,
    PerTensor,
    PerToken,
    Quantisation,
    XModel,
    XNode,
    XValue,
)

__all__ = ["FormatError", "check", "operators", "read", "write"]

MAGIC: Final = b"XH00"
ALIGNMENT: Final = 16
OVERREAD: Final = 128
"""Zeros after the constants: XNNPACK's kernels may read that far past a tensor's end."""

_HEADER: Final = struct.Struct("<4x4sHIIIQ")
"""Magic at byte 4, size of the header, then place and size of the flatbuffer and of the constants."""

NOT_HERE: Final = 2**64 - 1
"""The offset of a constant that has a name and lies outside of the blob."""

_DTYPE_NAMES: Final = {number: name for name, number in schema.DTYPES.items()}


# ------------------------------------------------------------------------------------------------ writing


def write(model: XModel) -> bytes:
    """The subgraph as a delegate blob. Raises FormatError for one that `check` refuses."""
    check(model)
    constants = Constants()
    record: Record = {
        "version": schema.VERSION,
        "xnodes": [_node_record(node) for node in model.nodes],
        "xvalues": [_value_record(index, value, model, constants) for index, value in enumerate(model.values)],
        "num_externs": len(model.inputs) + len(model.outputs),
        "input_ids": model.inputs,
        "output_ids": model.outputs,
        "constant_data": constants.records,
    }
    for name, ids in (("channels_last_ids", model.channels_last), ("scalar_ids", model.scalars)):
        if ids:
            record[name] = ids
    return assembled(record, constants.data())


def assembled(record: Record, data: bytes) -> bytes:
    """The blob of a subgraph's record, with these constants after it."""
    graph = flatbuffer.write(schema.GRAPH, record, schema.IDENTIFIER)
    start = _aligned(_HEADER.size)
    behind = start + _aligned(len(graph))
    header = _HEADER.pack(MAGIC, _HEADER.size, start, len(graph), behind, len(data))
    return header.ljust(start, b"\0") + graph.ljust(behind - start, b"\0") + data


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class Constants:
    """Data of constants one after the other; index 0 stands for no data."""

    def __init__(self) -> None:
        self.records: list[Record] = [{}]
        self._pieces: list[bytes] = []
        self._size = 0
        self._found: dict[bytes, int] = {}

    def add(self, array: Array) -> int:
        """The index of the array's bytes."""
        raw = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        if raw not in self._found:
            self._found[raw] = len(self.records)
            self.append(raw)
        return self._found[raw]

    def append(self, raw: bytes) -> None:
        """Put the bytes after all others, under the next index."""
        self.records.append({"offset": self._size, "size": len(raw)})  # a key, even empty, would be looked up
        self._pieces.append(raw.ljust(_aligned(len(raw)), b"\0"))
        self._size += _aligned(len(raw))

    def name(self, key: str, size: int) -> None:
        """Let the next index stand for data of this size outside of the blob."""
        self.records.append({"offset": NOT_HERE, "size": size, "named_key": key})

    def data(self) -> bytes:
        return b"".join((*self._pieces, bytes(OVERREAD))) if self._pieces else b""


def _node_record(node: XNode) -> Record:
    operator = schema.OPERATORS[node.op]
    ids = dict.fromkeys((name for name in operator.table.fields if name.endswith("_id")), schema.INVALID_ID)
    given = zip((*operator.inputs, *operator.outputs), (*node.inputs, *node.outputs), strict=True)
    ids.update((name, schema.INVALID_ID if index == ABSENT else index) for name, index in given)
    repeated = {name: len(node.options[option]) for name, option in operator.derived.items()}
    record: Record = {
        "xnode_union_type": operator.number,
        "xnode_union": {**node.options, **repeated, **ids, "flags": node.flags},
    }
    if node.limits is not None:
        record["output_min_max"] = {"output_min": node.limits[0], "output_max": node.limits[1]}
    return record


def _value_record(index: int, value: XValue, model: XModel, constants: Constants) -> Record:
    tensor: Record = {
        "datatype": schema.DTYPES[value.dtype],
        "num_dims": len(value.shape),
        "dims": value.shape,
        "constant_buffer_idx": 0 if value.data is None else constants.add(value.data),
        "external_id": schema.INVALID_ID if value.external is None else value.external,
        "flags": _flags(value, len(model.inputs)),
        "id_out": index,
    }
    if value.quant is None:
        return {"xvalue_union_type": schema.PLAIN_VALUE, "xvalue_union": tensor}
    number, quant = _quantisation_record(value.quant, constants)
    quantised = {"tensor_value": tensor, "quant_params_type": number, "quant_params": quant}
    return {"xvalue_union_type": schema.QUANTISED_VALUE, "xvalue_union": quantised}


def _flags(value: XValue, inputs: int) -> int:
    if value.external is None:
        return 0
    return schema.EXTERNAL_INPUT if value.external < inputs else schema.EXTERNAL_OUTPUT


def _quantisation_record(quant: Quantisation, constants: Constants) -> tuple[int, Record]:
    match quant:
        case PerTensor():
            return schema.PER_TENSOR, {"scale": quant.scale, "zero_point": quant.zero_point}
        case PerToken():
            return schema.PER_TOKEN, {"num_nonbatch_dims": quant.nonbatch_dims}
        case PerChannel():
            return schema.PER_CHANNEL, _scales_record(quant.axis, quant.scales, constants)
        case PerGroup():
            bfloat16 = (quant.scales.view(np.uint32) >> 16).astype(np.uint16)
            return schema.PER_GROUP, {**_scales_record(quant.axis, bfloat16, constants), "group_size": quant.group}


def _scales_record(axis: int, scales: Array, constants: Constants) -> Record:
    return {
        "scale": (),
        "channel_dim": axis,
        "scale_buffer_idx": constants.add(scales),
        "num_scales": scales.size,
    }


# ------------------------------------------------------------------------------------------------ reading


def read(data: bytes, named: Mapping[str, bytes] = {}) -> XModel:
    """The subgraph in a delegate blob.

    `named` has the constants that the blob only names, as ExecuTorch's own compiler writes them; constants of
    `write` lie in the blob. Shapes of results are those that follow from the inputs. Raises FormatError for bytes that
    are not such a blob, and for a subgraph that `check` refuses.
    """
    record, constants = parts(data)
    if record["constant_buffer"]:
        raise FormatError("constant_buffer", "present", "constants after the flatbuffer", "XNNGraph")
    buffers = Buffers(record["constant_data"] or [], constants, named)
    values = tuple(_value(each, index, buffers) for index, each in enumerate(record["xvalues"] or []))
    model = XModel(
        values,
        tuple(_node(each, f"node {index}") for index, each in enumerate(record["xnodes"] or [])),
        _arguments(values, record["input_ids"], "input_ids"),
        _arguments(values, record["output_ids"], "output_ids"),
        _numbers(record["channels_last_ids"]),
        _numbers(record["scalar_ids"]),
    )
    _check_flags(record, model)
    return inferred(model)


def operators(data: bytes) -> tuple[str, ...]:
    """The operators of a delegate blob in their order. Constants are not looked at. Raises FormatError."""
    record, _ = parts(data)
    return tuple(schema.CODES[each["xnode_union_type"]] for each in record["xnodes"] or [] if each["xnode_union"])


def parts(data: bytes) -> tuple[Record, memoryview]:
    """The subgraph's record, and the constants in the blob. Raises FormatError."""
    graph, constants = _parts(data)
    return flatbuffer.read(schema.GRAPH, graph, schema.IDENTIFIER), constants


def _parts(data: bytes) -> tuple[bytes, memoryview]:
    """The flatbuffer and the constants, each where the header says."""
    if len(data) < _HEADER.size:
        raise FormatError("length", f"{len(data)} bytes", f"at least {_HEADER.size} bytes", "header")
    magic, size, start, length, behind, extent = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise FormatError("magic", repr(magic), repr(MAGIC), "header")
    if size < _HEADER.size or start < size or not length:
        raise FormatError("header", f"{size} bytes, flatbuffer at {start}", "parts one after the other", "header")
    if behind < start + length or behind + extent > len(data):
        found = f"flatbuffer to {start + length}, constants from {behind} to {behind + extent}"
        raise FormatError("parts", found, f"one after the other in {len(data)} bytes", "header")
    return data[start : start + length], memoryview(data)[behind : behind + extent]


class Buffers:
    """Constants by index."""

    def __init__(self, records: list[Record], data: memoryview, named: Mapping[str, bytes]) -> None:
        self.records, self.inside, self.named = records, data, named

    def array(self, index: int, dtype: str, shape: tuple[int, ...], where: str) -> Array:
        """A read-only view of a constant, which must have the array's exact size."""
        raw = self.raw(index, where)
        little = np.dtype(dtype).newbyteorder("<")
        expected = prod(shape) * little.itemsize
        if len(raw) != expected:
            raise FormatError("size of the constant", len(raw), f"{expected} bytes for {dtype} {list(shape)}", where)
        return np.frombuffer(raw, little).astype(dtype, copy=False).reshape(shape)

    def raw(self, index: int, where: str) -> memoryview:
        """The bytes of a constant."""
        if not 1 <= index < len(self.records):
            raise FormatError("constant", index, f"from 1 to {len(self.records) - 1}", where)
        record = self.records[index]
        key, offset, size = record["named_key"], record["offset"], record["size"]
        if key is not None:
            if key not in self.named or len(self.named[key]) < size:
                raise FormatError("named constant", repr(key), "data under that name", where)
            return memoryview(self.named[key])[:size]
        if offset + size > len(self.inside):
            raise FormatError("extent", f"{offset} to {offset + size}", f"within {len(self.inside)} bytes", where)
        return self.inside[offset : offset + size]


def _numbers(numbers: Array | None) -> tuple[int, ...]:
    return () if numbers is None else tuple(numbers.tolist())


def _arguments(values: tuple[XValue, ...], ids: Array | None, where: str) -> tuple[int, ...]:
    """Value ids in the order of their external ids, as the runtime takes them."""
    for index in _numbers(ids):
        if index >= len(values) or values[index].external is None:
            raise FormatError("value id", index, "that of a value with an external id", where)
    return tuple(sorted(_numbers(ids), key=lambda index: values[index].external or 0))


def _check_flags(record: Record, model: XModel) -> None:
    if record["num_externs"] != len(model.inputs) + len(model.outputs):
        raise FormatError("num_externs", record["num_externs"], "the number of inputs and outputs", "XNNGraph")
    for index, (value, each) in enumerate(zip(model.values, record["xvalues"] or [], strict=True)):
        union = each["xvalue_union"]
        tensor = union["tensor_value"] if each["xvalue_union_type"] == schema.QUANTISED_VALUE else union
        expected = _flags(value, len(model.inputs))
        if tensor["flags"] != expected:
            raise FormatError("flags", hex(tensor["flags"]), hex(expected), f"value {index}")


def _value(record: Record, index: int, buffers: Buffers) -> XValue:
    where, union = f"value {index}", record["xvalue_union"]
    quantised = record["xvalue_union_type"] == schema.QUANTISED_VALUE
    tensor = union["tensor_value"] if quantised and union is not None else union
    if tensor is None:
        raise FormatError("value", "empty", "a tensor", where)
    if tensor["datatype"] not in _DTYPE_NAMES or tensor["dq_datatype"]:
        raise FormatError("datatype", tensor["datatype"], f"one of {sorted(_DTYPE_NAMES)}", where)
    dtype, shape = _DTYPE_NAMES[tensor["datatype"]], _numbers(tensor["dims"])
    if len(shape) != tensor["num_dims"] or not 1 <= len(shape) <= RANK_LIMIT:
        raise FormatError("num_dims", tensor["num_dims"], f"{len(shape)}, from 1 to {RANK_LIMIT}", where)
    if tensor["id_out"] != index:
        raise FormatError("id", tensor["id_out"], str(index), where)
    quant = _quantisation(union, dtype, shape, buffers, where) if quantised else None
    external = None if tensor["external_id"] == schema.INVALID_ID else tensor["external_id"]
    return XValue(dtype, shape, quant, _data(tensor, dtype, shape, buffers, where), external)


def _data(tensor: Record, dtype: str, shape: tuple[int, ...], buffers: Buffers, where: str) -> Array | None:
    if not tensor["constant_buffer_idx"]:
        return None
    if dtype not in STORAGE:
        raise FormatError("constant", "present", f"none of type {dtype}", where)
    return buffers.array(tensor["constant_buffer_idx"], STORAGE[dtype], storage_shape(dtype, shape), where)


def _quantisation(union: Record, dtype: str, shape: tuple[int, ...], buffers: Buffers, where: str) -> Quantisation:
    record = union["quant_params"]
    if record is None:
        raise FormatError("quantization", "empty", "parameters", where)
    match union["quant_params_type"]:
        case schema.PER_TENSOR:
            return PerTensor(record["scale"], record["zero_point"])
        case schema.PER_TOKEN:
            return PerToken(record["num_nonbatch_dims"])
        case schema.PER_CHANNEL:
            return PerChannel(
                _scales(record, (record["num_scales"],), "float32", buffers, where), record["channel_dim"]
            )
        case _:
            return _per_group(record, shape, buffers, where)


def _per_group(record: Record, shape: tuple[int, ...], buffers: Buffers, where: str) -> PerGroup:
    group = record["group_size"]
    if len(shape) != 2 or group < 1 or shape[1] % group:
        raise FormatError("group_size", group, "a divisor of the input channels of a matrix", where)
    scales = _scales(record, (shape[0], shape[1] // group), "uint16", buffers, where)
    return PerGroup((scales.astype(np.uint32) << 16).view(np.float32), group, record["channel_dim"])


def _scales(record: Record, shape: tuple[int, ...], dtype: str, buffers: Buffers, where: str) -> Array:
    inline = record["scale"]
    if inline is not None and inline.size:
        raise FormatError("scales", "in the flatbuffer", "a constant", where)
    if record["num_scales"] != prod(shape):
        raise FormatError("num_scales", record["num_scales"], str(prod(shape)), where)
    return buffers.array(record["scale_buffer_idx"], dtype, shape, where)


def _node(record: Record, where: str) -> XNode:
    union, limits = record["xnode_union"], record["output_min_max"]
    if union is None:
        raise FormatError("node", "empty", "an operator", where)
    op = schema.CODES[record["xnode_union_type"]]
    operator = schema.OPERATORS[op]
    options = {name: _option(union[name]) for name in operator.options}
    for name, option in operator.derived.items():
        if union[name] != len(options[option]):
            raise FormatError(name, union[name], f"the length of {option}", f"{where} {op}")
    return XNode(
        op,
        tuple(_id(union[name]) for name in operator.inputs),
        tuple(union[name] for name in operator.outputs),
        options,
        union["flags"],
        None if limits is None else (limits["output_min"], limits["output_max"]),
    )


def _id(number: int) -> int:
    return ABSENT if number == schema.INVALID_ID else number


def _option(value: Any) -> Any:
    """A list as a tuple, empty when the file leaves it out."""
    return _numbers(value) if value is None or isinstance(value, np.ndarray) else value
