"""TFLite flatbuffers to and from `Model` records.

`write` gives the same bytes for the same model; constants start at multiples of 16 bytes, buffer 0 is empty,
and operator codes appear once each, in order of first use. `read` refuses whatever `check` refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, TypeVar

import numpy as np

from npu_assay.partitioners.exir import flatbuffer
from npu_assay.partitioners.exir.flatbuffer import FormatError, Record
from npu_assay.partitioners.neutron import tflite_schema as schema
from npu_assay.partitioners.neutron.tflite_check import check, check_shape
from npu_assay.partitioners.neutron.tflite_model import Model, Operator, Tensor
from npu_assay.partitioners.neutron.tflite_versions import version

__all__ = ["FormatError", "Model", "Operator", "Tensor", "check", "read", "write"]

_DTYPE_NAMES = {number: name for name, number in schema.DTYPES.items()}
_CODE_NAMES = {kind.number: code for code, kind in schema.OPERATORS.items()}
_NO_BYTES = np.zeros(0, np.uint8)

T = TypeVar("T")


# ------------------------------------------------------------------------------------------------ writing


def write(model: Model) -> bytes:
    """The model as a TFLite file. Raises FormatError for a model that `check` refuses."""
    check(model)
    buffers: list[Record] = [{}]
    codes: dict[tuple[str, int], int] = {}
    subgraph = {
        "name": "main",
        "tensors": [_tensor_record(tensor, buffers) for tensor in model.tensors],
        "inputs": model.inputs,
        "outputs": model.outputs,
        "operators": [_operator_record(operator, model, codes) for operator in model.operators],
    }
    metadata = [
        {"name": name, "buffer": _add_buffer(np.frombuffer(data, np.uint8), buffers)}
        for name, data in model.metadata.items()
    ]
    record = {
        "version": schema.SCHEMA_VERSION,
        "operator_codes": [_code_record(code, number) for code, number in codes],
        "subgraphs": [subgraph],
        "description": model.description,
        "buffers": buffers,
        "metadata": metadata,
    }
    return flatbuffer.write(schema.MODEL, record, schema.IDENTIFIER)


def _add_buffer(data: np.ndarray[Any, Any], buffers: list[Record]) -> int:
    buffers.append({"data": data})
    return len(buffers) - 1


def _tensor_record(tensor: Tensor, buffers: list[Record]) -> Record:
    record: Record = {
        "name": tensor.name,
        "shape": tensor.shape,
        "type": schema.DTYPES[tensor.dtype],
        "buffer": 0 if tensor.data is None else _add_buffer(_little_endian(tensor.data), buffers),
    }
    if tensor.scales:
        record["quantization"] = {
            "scale": tensor.scales,
            "zero_point": tensor.zero_points,
            "quantized_dimension": tensor.axis,
        }
    return record


def _little_endian(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.frombuffer(data.astype(data.dtype.newbyteorder("<"), copy=False).tobytes(), np.uint8)


def _operator_record(operator: Operator, model: Model, codes: dict[tuple[str, int], int]) -> Record:
    inputs = [None if index < 0 else model.tensors[index] for index in operator.inputs]
    outputs = [model.tensors[index] for index in operator.outputs]
    key = (operator.code, version(operator.code, operator.options, inputs, outputs))
    kind = schema.OPERATORS[operator.code]
    record: Record = {
        "opcode_index": codes.setdefault(key, len(codes)),
        "inputs": operator.inputs,
        "outputs": operator.outputs,
    }
    if kind.options:
        options = {name: _enum_number(name, value) for name, value in operator.options.items()}
        record |= {"builtin_options_type": kind.options, "builtin_options": options}
    return record


def _enum_number(name: str, value: Any) -> Any:
    return schema.ENUMS[name].index(value) if name in schema.ENUMS else value


def _code_record(code: str, number: int) -> Record:
    """Readers that predate codes above 127 look at the deprecated field, which then holds 127."""
    builtin = schema.OPERATORS[code].number
    return {"deprecated_builtin_code": min(builtin, 127), "version": number, "builtin_code": builtin}


# ------------------------------------------------------------------------------------------------ reading


def read(data: bytes) -> Model:
    """The model in a TFLite file with one subgraph of known operators.

    Raises FormatError for bytes that are not such a file, and for a model that `check` refuses.
    """
    record = flatbuffer.read(schema.MODEL, data, schema.IDENTIFIER)
    if record["version"] != schema.SCHEMA_VERSION:
        raise FormatError("schema version", record["version"], str(schema.SCHEMA_VERSION), "Model")
    subgraphs = record["subgraphs"] or []
    if len(subgraphs) != 1:
        raise FormatError("number of subgraphs", len(subgraphs), "1", "Model")
    buffers = [_bytes(buffer["data"]) for buffer in record["buffers"] or []]
    codes = [_code(code, f"operator code {index}") for index, code in enumerate(record["operator_codes"] or [])]
    subgraph = subgraphs[0]
    model = Model(
        tensors=_each(subgraph["tensors"], "tensor", lambda each, where: _tensor(each, buffers, where)),
        operators=_each(subgraph["operators"], "operator", lambda each, where: _operator(each, codes, where)),
        inputs=_indices(subgraph["inputs"]),
        outputs=_indices(subgraph["outputs"]),
        description=record["description"] or "",
        metadata=_metadata(record["metadata"] or [], buffers),
    )
    check(model)
    return model


def _each(records: list[Record] | None, kind: str, make: Callable[[Record, str], T]) -> tuple[T, ...]:
    return tuple(make(record, f"{kind} {index}") for index, record in enumerate(records or []))


def _bytes(data: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    return _NO_BYTES if data is None else data


def _indices(numbers: np.ndarray[Any, Any] | None) -> tuple[int, ...]:
    return () if numbers is None else tuple(numbers.tolist())


def _pick(items: list[T], index: int, what: str, where: str) -> T:
    if index >= len(items):
        raise FormatError(what, index, f"below {len(items)}", where)
    return items[index]


def _code(record: Record, where: str) -> str:
    number = max(record["builtin_code"], record["deprecated_builtin_code"])
    if number not in _CODE_NAMES or record["custom_code"] is not None:
        raise FormatError("builtin code", record["custom_code"] or number, "a supported builtin operator", where)
    code = _CODE_NAMES[number]
    newest = schema.OPERATORS[code].newest
    if not 1 <= record["version"] <= newest:
        raise FormatError(f"version of {code}", record["version"], f"from 1 to {newest}", where)
    return code


def _tensor(record: Record, buffers: list[np.ndarray[Any, Any]], where: str) -> Tensor:
    if record["type"] not in _DTYPE_NAMES:
        raise FormatError("tensor type", record["type"], f"one of {sorted(_DTYPE_NAMES)}", where)
    if record["is_variable"]:
        raise FormatError("is_variable", True, "False", where)
    dtype = _DTYPE_NAMES[record["type"]]
    shape = _indices(record["shape"])
    raw = _pick(buffers, record["buffer"], "buffer", where)
    data = _constant(raw, shape, dtype, where) if raw.size else None
    return Tensor(record["name"] or "", shape, dtype, data, *_quantization(record["quantization"], where))


def _constant(raw: np.ndarray[Any, Any], shape: tuple[int, ...], dtype: str, where: str) -> np.ndarray[Any, Any]:
    check_shape(shape, where)
    little = np.dtype(dtype).newbyteorder("<")
    expected = prod(shape) * little.itemsize
    if raw.size != expected:
        raise FormatError("buffer size", f"{raw.size} bytes", f"{expected} bytes for {dtype} {list(shape)}", where)
    return np.frombuffer(raw.tobytes(), little).astype(dtype, copy=False).reshape(shape)


def _quantization(record: Record | None, where: str) -> tuple[tuple[float, ...], tuple[int, ...], int]:
    """Scales, zero points (0 where the file leaves them out) and axis."""
    if record is None or record["scale"] is None or not record["scale"].size:
        return (), (), 0
    if record["details_type"]:
        raise FormatError("quantization details", record["details_type"], "0 (none)", where)
    scales = tuple(record["scale"].tolist())
    return scales, _indices(record["zero_point"]) or (0,) * len(scales), record["quantized_dimension"]


def _operator(record: Record, codes: list[str], where: str) -> Operator:
    code = _pick(codes, record["opcode_index"], "opcode_index", where)
    expected = schema.OPERATORS[code].options
    if record["builtin_options_type"] != expected or (expected and record["builtin_options"] is None):
        raise FormatError(f"options type of {code}", record["builtin_options_type"], str(expected), where)
    options = {name: _enum_name(name, value, where) for name, value in (record["builtin_options"] or {}).items()}
    return Operator(code, _indices(record["inputs"]), _indices(record["outputs"]), options)


def _enum_name(name: str, value: Any, where: str) -> Any:
    if name not in schema.ENUMS:
        return value if not isinstance(value, np.ndarray) else tuple(value.tolist())
    names = schema.ENUMS[name]
    if not 0 <= value < len(names):
        raise FormatError(name, value, f"from 0 to {len(names) - 1}", where)
    return names[value]


def _metadata(records: list[Record], buffers: list[np.ndarray[Any, Any]]) -> Mapping[str, bytes]:
    return {
        record["name"] or "": _pick(buffers, record["buffer"], "buffer", f"metadata {index}").tobytes()
        for index, record in enumerate(records)
    }
