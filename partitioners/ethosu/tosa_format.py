"""TOSA flatbuffers to and from `TModel` records.

`write` gives the same bytes for the same graph; `read` refuses whatever `check` refuses. A constant is a tensor
with data and the CONST operator that makes it; the operators of all constants come first, SHAPE constants before
tensors, each in the order of the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, Final

import numpy as np

from npu_assay.partitioners.ethosu import tosa_schema as schema
from npu_assay.partitioners.ethosu.tosa_check import check, check_shape
from npu_assay.partitioners.ethosu.tosa_model import NUMPY_TYPES, Array, TModel, TOperator, TShape, TTensor
from npu_assay.partitioners.exir import flatbuffer
from npu_assay.partitioners.exir.flatbuffer import FormatError, Numbers, Record

__all__ = ["FormatError", "check", "read", "write"]

CONVOLUTIONS: Final = frozenset({"CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D"})
WEIGHT_ZERO_POINT: Final = 4
"""Its place among the operands of a convolution."""
_DTYPE_NAMES: Final = {number: name for name, number in schema.DTYPES.items()}


# ------------------------------------------------------------------------------------------------ writing


def write(model: TModel) -> bytes:
    """The graph as a TOSA flatbuffer. Raises FormatError for one that `check` refuses."""
    check(model)
    block: Record = {
        "name": schema.MAIN,
        "operators": _operator_records(model),
        "tensors": [_tensor_record(each) for each in model.tensors],
        "inputs": model.inputs,
        "outputs": model.outputs,
        "shapes": [_shape_record(each) for each in model.shapes],
    }
    regions = [{"name": schema.MAIN, "blocks": [block]}]
    return flatbuffer.write(schema.GRAPH, {"version": schema.VERSION, "regions": regions}, schema.IDENTIFIER)


def _operator_records(model: TModel) -> list[Record]:
    dtypes = {tensor.name: tensor.dtype for tensor in model.tensors}
    return [
        *(_constant_record(schema.CONST_SHAPE, shape.name) for shape in model.shapes),
        *(_constant_record(schema.CONST, each.name) for each in model.tensors if each.data is not None),
        *(_operator_record(each, dtypes) for each in model.operators),
    ]


def _constant_record(number: int, name: str) -> Record:
    return {"op": number, "attribute_type": number, "attribute": {}, "inputs": (), "outputs": (name,)}


def _operator_record(operator: TOperator, dtypes: Mapping[str, str]) -> Record:
    kind = schema.OPERATORS[operator.code]
    attributes = {
        name: _stored(each, operator.attributes.get(name, each.default), dtypes[operator.inputs[0]])
        for name, each in kind.attributes.items()
    }
    return {
        "op": kind.number,
        "attribute_type": kind.number,
        "attribute": attributes,
        "inputs": operator.inputs,
        "outputs": operator.outputs,
    }


def _stored(attribute: schema.Attribute, value: Any, dtype: str) -> Any:
    """An attribute's value as the flatbuffer has it."""
    if attribute.names is not None:
        return attribute.names[value]
    return np.frombuffer(_bytes(np.array(value), dtype), np.uint8) if attribute.kind is None else value


def _bytes(data: Array, dtype: str) -> bytes:
    """Numbers of a dtype, little-endian."""
    raw = data.astype(NUMPY_TYPES[dtype].newbyteorder("<")).tobytes()
    if dtype != "INT48":
        return raw
    return np.frombuffer(raw, np.uint8).reshape(-1, 8)[:, : schema.INT48_BYTES].tobytes()


def _tensor_record(tensor: TTensor) -> Record:
    record: Record = {"name": tensor.name, "shape": tensor.shape, "type": schema.DTYPES[tensor.dtype]}
    if tensor.data is not None:
        record["data"] = np.frombuffer(_bytes(tensor.data, tensor.dtype), np.uint8)
    return record


def _shape_record(shape: TShape) -> Record:
    data = np.frombuffer(np.array(shape.values, "<i8").tobytes(), np.uint8)
    return {"name": shape.name, "rank": len(shape.values), "data": data}


# ------------------------------------------------------------------------------------------------ reading


def read(data: bytes) -> TModel:
    """The graph in a TOSA flatbuffer.

    Raises FormatError for bytes that are not one, for what the integer profile with 16-bit activations does not
    have, and for a graph that `check` refuses.
    """
    graph = flatbuffer.read(schema.GRAPH, bytes(data), schema.IDENTIFIER)
    if graph["version"] != schema.VERSION:
        raise FormatError("version", graph["version"], str(schema.VERSION), "TosaGraph")
    block = _only(_only(graph["regions"], "region")["blocks"], "block")
    records = block["operators"] or []
    zeros = _weight_zero_points(records)
    tensors = tuple(_tensor(each, zeros, f"tensor {index}") for index, each in enumerate(block["tensors"] or ()))
    shapes = tuple(_shape(each, f"shape {index}") for index, each in enumerate(block["shapes"] or ()))
    dtypes = {tensor.name: tensor.dtype for tensor in tensors}
    operators = tuple(
        _operator(each, index, dtypes)
        for index, each in enumerate(records)
        if each["op"] not in (schema.CONST, schema.CONST_SHAPE)
    )
    model = TModel(tensors, shapes, operators, tuple(block["inputs"] or ()), tuple(block["outputs"] or ()))
    check(model)
    _check_constants(model, records)
    return model


def _only(records: list[Record] | None, what: str) -> Record:
    """The only element, named main."""
    names = [each["name"] for each in records or ()]
    if records is None or names != [schema.MAIN]:
        raise FormatError(f"{what}s", names, f"one, named {schema.MAIN!r}", "TosaGraph")
    (record,) = records
    return record


def _name(record: Record, where: str) -> str:
    name: str | None = record["name"]
    if name is None:
        raise FormatError("name", "absent", "a name", where)
    return name


def _weight_zero_points(records: list[Record]) -> frozenset[str]:
    """The names of the zero points of convolutions' weights."""
    products = (each for each in records if schema.CODES.get(each["op"]) in CONVOLUTIONS)
    operands: Iterator[tuple[str, ...]] = (tuple(each["inputs"] or ()) for each in products)
    return frozenset(given[WEIGHT_ZERO_POINT] for given in operands if len(given) > WEIGHT_ZERO_POINT)


def _tensor(record: Record, zeros: frozenset[str], where: str) -> TTensor:
    name = _name(record, where)
    if record["type"] not in _DTYPE_NAMES:
        raise FormatError("type", record["type"], f"one of {sorted(_DTYPE_NAMES)}", where)
    if any(record[key] for key in ("variable", "is_unranked", "variable_name", "offset", "size")):
        raise FormatError("tensor", "variable, unranked or stored elsewhere", "a plain one", where)
    dtype, shape = _DTYPE_NAMES[record["type"]], _numbers(record["shape"])
    raw = record["data"]
    if raw is not None and name in zeros and dtype == "INT8":
        raw = _single(raw)
    data = None if raw is None or not raw.size else _array(raw, dtype, shape, where)
    return TTensor(name, shape, dtype, data)


def _single(raw: Array) -> Array:
    """One byte of several that are the same: ExecuTorch stores the one zero point once for every output channel."""
    return raw[:1] if raw.size and (raw == raw[0]).all() else raw


def _array(raw: Array, dtype: str, shape: tuple[int, ...], where: str) -> Array:
    """The numbers of a constant, read-only."""
    check_shape(shape, where)
    little = NUMPY_TYPES[dtype].newbyteorder("<")
    size = schema.INT48_BYTES if dtype == "INT48" else little.itemsize
    if raw.size != prod(shape) * size:
        raise FormatError("size of the data", raw.size, f"{prod(shape) * size} bytes for {dtype} {list(shape)}", where)
    if dtype == "BOOL" and raw.max(initial=0) > 1:
        raise FormatError("data", int(raw.max()), "0 or 1", where)
    if dtype == "INT48":
        return _widened(raw).reshape(shape)
    return np.frombuffer(raw.tobytes(), little).astype(NUMPY_TYPES[dtype], copy=False).reshape(shape)


def _widened(raw: Array) -> Array:
    """6-byte numbers as int64, with their sign."""
    rows = raw.reshape(-1, schema.INT48_BYTES)
    sign = np.where(rows[:, -1:] >= 128, 255, 0).astype(np.uint8)
    return np.frombuffer(np.concatenate([rows, sign, sign], axis=1).tobytes(), "<i8").astype(np.int64, copy=False)


def _shape(record: Record, where: str) -> TShape:
    raw = b"" if record["data"] is None else record["data"].tobytes()
    if len(raw) != 8 * record["rank"]:
        raise FormatError("size of the data", len(raw), f"{8 * record['rank']} bytes for rank {record['rank']}", where)
    return TShape(_name(record, where), tuple(np.frombuffer(raw, "<i8").tolist()))


def _numbers(numbers: Array | None) -> tuple[int, ...]:
    return () if numbers is None else tuple(numbers.tolist())


def _operator(record: Record, index: int, dtypes: Mapping[str, str]) -> TOperator:
    code = schema.CODES.get(record["op"])
    if code is None:
        raise FormatError("operator", record["op"], "one of TOSA's integer profile", f"operator {index}")
    where = f"operator {index} {code}"
    if record["attribute_type"] != record["op"] or record["attribute"] is None:
        raise FormatError("type of the attributes", record["attribute_type"], str(record["op"]), where)
    inputs = tuple(record["inputs"] or ())
    dtype = dtypes.get(inputs[0]) if inputs else None
    attributes = {
        name: _given(each, name, record["attribute"][name], dtype, where)
        for name, each in schema.OPERATORS[code].attributes.items()
    }
    return TOperator(code, inputs, tuple(record["outputs"] or ()), attributes)


def _given(attribute: schema.Attribute, name: str, value: Any, dtype: str | None, where: str) -> Any:
    """An attribute's value from what the flatbuffer has."""
    if attribute.names is not None:
        names = {number: each for each, number in attribute.names.items()}
        if value not in names:
            raise FormatError(name, value, f"one of {sorted(names)}", where)
        return names[value]
    if attribute.kind is None:
        if value is None or dtype is None:
            raise FormatError(name, "absent" if value is None else "of no type", "the bytes of a number", where)
        return int(_array(value, dtype, (), where))
    return _numbers(value) if isinstance(attribute.kind, Numbers) else value


def _check_constants(model: TModel, records: list[Record]) -> None:
    """CONST makes each tensor with data and CONST_SHAPE each shape, once and before its use."""
    expected = {each.name: schema.CONST for each in model.tensors if each.data is not None}
    expected |= {each.name: schema.CONST_SHAPE for each in model.shapes}
    for index, record in enumerate(records):
        if record["op"] in (schema.CONST, schema.CONST_SHAPE):
            outputs = record["outputs"] or []
            if record["inputs"] or len(outputs) != 1 or expected.pop(outputs[0], None) != record["op"]:
                found = f"{record['inputs']} to {outputs}"
                raise FormatError("constant", found, "one with data, made once", f"operator {index}")
            if record["attribute_type"] != record["op"]:
                raise FormatError("attributes", record["attribute_type"], str(record["op"]), f"operator {index}")
        elif not expected.keys().isdisjoint(record["inputs"] or ()):
            raise FormatError("operands", record["inputs"], "constants made before their use", f"operator {index}")
    if expected:
        raise FormatError("constants", sorted(expected), "each made by an operator", "graph")
