"""Rules that any model must keep, whatever device runs it: checked before writing and after reading."""

from __future__ import annotations

import math
from math import prod
from typing import Final

import numpy as np

from npu_assay.partitioners.exir.flatbuffer import FormatError
from npu_assay.partitioners.neutron import tflite_schema as schema
from npu_assay.partitioners.neutron.tflite_model import Model, Operator, Tensor

RANK_LIMIT: Final = 8
"""What TFLite's kernels that read shapes can do."""

ELEMENT_LIMIT: Final = 2**28
"""Elements of one tensor."""

FLOAT32_SMALLEST: Final = float(np.finfo(np.float32).smallest_normal)
FLOAT32_LARGEST: Final = float(np.finfo(np.float32).max)

_CODES: Final = {"int8": (-128, 127), "int32": (0, 0)}
"""Zero points that a quantized tensor of each dtype may have."""


def check(model: Model) -> None:
    """Raise FormatError for the first rule that the model breaks: what, found, expected, where."""
    for index, tensor in enumerate(model.tensors):
        _check_tensor(tensor, f"tensor {index} {tensor.name!r}")
    for position, operator in enumerate(model.operators):
        _check_operator(operator, len(model.tensors), f"operator {position} {operator.code}")
    _check_indices(model.inputs, len(model.tensors), 0, "inputs", "model")
    _check_indices(model.outputs, len(model.tensors), 0, "outputs", "model")
    _check_order(model)


def _check_tensor(tensor: Tensor, where: str) -> None:
    if tensor.dtype not in schema.DTYPES:
        raise FormatError("dtype", tensor.dtype, f"one of {sorted(schema.DTYPES)}", where)
    check_shape(tensor.shape, where)
    if tensor.data is not None:
        _check_data(tensor, tensor.data, where)
    _check_quantization(tensor, where)


def check_shape(shape: tuple[int, ...], where: str) -> None:
    """Raise FormatError for a shape that no tensor has, before anything is computed of it."""
    if len(shape) > RANK_LIMIT:
        raise FormatError("rank", len(shape), f"at most {RANK_LIMIT}", where)
    if any(size < 0 for size in shape) or prod(shape) > ELEMENT_LIMIT:
        raise FormatError("shape", list(shape), f"sizes from 0, at most {ELEMENT_LIMIT} elements", where)


def _check_data(tensor: Tensor, data: np.ndarray[tuple[int, ...], np.dtype[np.generic]], where: str) -> None:
    if data.dtype != np.dtype(tensor.dtype) or data.shape != tensor.shape:
        raise FormatError("data", f"{data.dtype} {list(data.shape)}", f"{tensor.dtype} {list(tensor.shape)}", where)
    if data.size == 0:
        raise FormatError("constant", "empty", "at least one element", where)


def _check_quantization(tensor: Tensor, where: str) -> None:
    count = len(tensor.scales)
    if len(tensor.zero_points) != count:
        raise FormatError("number of zero points", len(tensor.zero_points), f"{count}, one per scale", where)
    if count == 0:
        if tensor.dtype == "int8":
            raise FormatError("quantization", "absent", "a scale and a zero point", where)
        return
    if tensor.dtype not in _CODES:
        raise FormatError("quantization", "present", f"none on {tensor.dtype}", where)
    if count > 1:
        _check_axis(tensor, count, where)
    low, high = _CODES[tensor.dtype]
    for scale, zero_point in zip(tensor.scales, tensor.zero_points, strict=True):
        if not FLOAT32_SMALLEST <= scale <= FLOAT32_LARGEST:  # also refuses NaN
            raise FormatError("scale", scale, "a positive, normal float32", where)
        if not low <= zero_point <= high:
            raise FormatError("zero point", zero_point, f"from {low} to {high}", where)


def _check_axis(tensor: Tensor, count: int, where: str) -> None:
    if not 0 <= tensor.axis < len(tensor.shape):
        raise FormatError("quantized dimension", tensor.axis, f"below rank {len(tensor.shape)}", where)
    if tensor.shape[tensor.axis] != count:
        expected = f"{tensor.shape[tensor.axis]}, the size of axis {tensor.axis}"
        raise FormatError("number of scales", count, expected, where)


def _check_operator(operator: Operator, tensors: int, where: str) -> None:
    if operator.code not in schema.OPERATORS:
        raise FormatError("operator", operator.code, "a supported builtin operator", where)
    _check_indices(operator.inputs, tensors, -1, "inputs", where)
    _check_indices(operator.outputs, tensors, 0, "outputs", where)
    _check_options(operator, where)


def _check_indices(indices: tuple[int, ...], tensors: int, lowest: int, what: str, where: str) -> None:
    for index in indices:
        if not lowest <= index < tensors:
            raise FormatError(f"tensor index in {what}", index, f"from {lowest} to {tensors - 1}", where)


def _check_options(operator: Operator, where: str) -> None:
    number = schema.OPERATORS[operator.code].options
    fields = schema.OPTIONS[number].fields if number else {}
    for name, value in operator.options.items():
        if name not in fields:
            raise FormatError("option", repr(name), f"one of {sorted(fields)}", where)
        if name in schema.ENUMS and value not in schema.ENUMS[name]:
            raise FormatError(name, repr(value), f"one of {schema.ENUMS[name]}", where)
        if isinstance(value, float) and not math.isfinite(value):
            raise FormatError(name, value, "a finite number", where)


def _check_order(model: Model) -> None:
    """Every value is made once, before it is used: constants and inputs first, then operator by operator."""
    defined = {index for index, tensor in enumerate(model.tensors) if tensor.data is not None}
    for index in model.inputs:
        _define(index, defined, "model inputs")
    for position, operator in enumerate(model.operators):
        where = f"operator {position} {operator.code}"
        for index in operator.inputs:
            if index >= 0 and index not in defined:
                raise FormatError("input tensor", index, "defined before its use", where)
        for index in operator.outputs:
            _define(index, defined, where)
    for index in model.outputs:
        if index not in defined:
            raise FormatError("output tensor", index, "defined by an operator", "model outputs")


def _define(index: int, defined: set[int], where: str) -> None:
    if index in defined:
        raise FormatError("tensor", index, "defined once", where)
    defined.add(index)
