"""Rules that every XNNPACK subgraph keeps, whatever device runs it: checked before writing and after reading."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from math import prod
from typing import Final

import numpy as np

from npu_assay.partitioners.exir.flatbuffer import FormatError
from npu_assay.partitioners.xnnpack import xnn_schema as schema
from npu_assay.partitioners.xnnpack.xnn_model import (
    ABSENT,
    PerChannel,
    PerGroup,
    PerTensor,
    PerToken,
    XModel,
    XNode,
    XValue,
)
from npu_assay.partitioners.xnnpack.xnn_operands import check_operands
from npu_assay.partitioners.xnnpack.xnn_shapes import output_shape

RANK_LIMIT: Final = 6
ELEMENT_LIMIT: Final = 2**28
"""Elements of one value."""

SIZE_LIMIT: Final = 2**20
"""Kernels, paddings and the like."""

STEP_LIMIT: Final = 2**31 - 1
"""Strides and dilations, which make nothing larger."""

GROUP_UNIT: Final = 32
"""A group of 4-bit weights is a multiple of this many."""

STORAGE: Final = {
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "uint16",
    "qint8": "int8",
    "qint32": "int32",
    "qcint8": "int8",
    "qcint32": "int32",
    "qcint4": "uint8",
    "qbint4": "uint8",
}
"""The numpy type of a constant of each dtype."""

_QUANTISATIONS: Final = {
    "qint8": PerTensor,
    "qint32": PerTensor,
    "qcint8": PerChannel,
    "qcint32": PerChannel,
    "qcint4": PerChannel,
    "qdint8": PerToken,
    "qbint4": PerGroup,
}
_SMALLEST: Final = float(np.finfo(np.float32).smallest_normal)
_LARGEST: Final = float(np.finfo(np.float32).max)
_STEPS: Final = ("stride", "subsampling", "dilation")
_POSITIVE: Final = ("kernel_", "subsampling_", "pooling_", "stride_", "group", "new_height", "new_width")
_LISTS: Final = ("perm", "new_shape", "offsets", "sizes", "pre_paddings", "post_paddings")


def check(model: XModel) -> None:
    """Raise FormatError for the first rule that the subgraph breaks: what, found, expected, where.

    For subgraphs of this compiler, whose results have their shapes; those of others are `inferred` first.
    """
    _check_structure(model)
    for position, node in enumerate(model.nodes):
        _check_meaning(node, model.values, f"node {position} {node.op}")


def inferred(model: XModel) -> XModel:
    """The subgraph with results of the shapes that follow from the inputs, not those that it states.

    XNNPACK infers them before every run and reads a stated one nowhere; ExecuTorch's compiler states some in
    torch's order of axes where the value is channels-last. Raises FormatError as `check`.
    """
    _check_structure(model)
    values = list(model.values)
    for node in model.nodes:
        shapes = [values[index].shape for index in node.inputs if index != ABSENT]
        result = node.outputs[0]
        values[result] = replace(values[result], shape=output_shape(node, shapes))
    found = replace(model, values=tuple(values))
    check(found)
    return found


def _check_structure(model: XModel) -> None:
    """What can be said without the shapes of results."""
    for index, value in enumerate(model.values):
        _check_value(value, f"value {index}")
    _check_externals(model)
    for position, node in enumerate(model.nodes):
        _check_node(node, len(model.values), f"node {position} {node.op}")
    _check_order(model)


# ------------------------------------------------------------------------------------------------ values


def storage_shape(dtype: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the array that holds a constant: two 4-bit codes share a byte."""
    return (*shape[:-1], (shape[-1] + 1) // 2) if dtype in ("qcint4", "qbint4") else shape


def _check_value(value: XValue, where: str) -> None:
    if value.dtype not in schema.DTYPES:
        raise FormatError("dtype", value.dtype, f"one of {sorted(schema.DTYPES)}", where)
    if not 1 <= len(value.shape) <= RANK_LIMIT:
        raise FormatError("rank", len(value.shape), f"from 1 to {RANK_LIMIT}", where)
    if min(value.shape) < 1 or prod(value.shape) > ELEMENT_LIMIT:
        raise FormatError("shape", list(value.shape), f"sizes from 1, at most {ELEMENT_LIMIT} elements", where)
    if value.data is not None:
        _check_data(value, value.data, where)
    _check_quantisation(value, where)


def _check_data(value: XValue, data: np.ndarray[tuple[int, ...], np.dtype[np.generic]], where: str) -> None:
    if value.dtype not in STORAGE:
        raise FormatError("constant", "present", f"none of type {value.dtype}", where)
    expected = storage_shape(value.dtype, value.shape)
    if data.dtype != np.dtype(STORAGE[value.dtype]) or data.shape != expected:
        found = f"{data.dtype} {list(data.shape)}"
        raise FormatError("data", found, f"{STORAGE[value.dtype]} {list(expected)}", where)
    if value.external is not None:
        raise FormatError("constant", f"argument {value.external}", "a value inside", where)


def _check_quantisation(value: XValue, where: str) -> None:
    quant, expected = value.quant, _QUANTISATIONS.get(value.dtype)
    if expected is None:
        if quant is not None:
            raise FormatError("quantization", type(quant).__name__, f"none on {value.dtype}", where)
        return
    if not isinstance(quant, expected):
        found = "absent" if quant is None else type(quant).__name__
        raise FormatError(f"quantization of {value.dtype}", found, expected.__name__, where)
    match quant:
        case PerTensor():
            _check_scales([quant.scale], where)
            low, high = (-128, 127) if value.dtype == "qint8" else (0, 0)
            _check_range("zero point", quant.zero_point, low, high, where)
        case PerToken():
            _check_range("nonbatch_dims", quant.nonbatch_dims, 1, len(value.shape), where)
        case PerChannel():
            _check_range("axis", quant.axis, 0, len(value.shape) - 1, where)
            _check_scale_array(quant.scales, (value.shape[quant.axis],), where)
        case PerGroup():
            _check_group(value, quant, where)


def _check_group(value: XValue, quant: PerGroup, where: str) -> None:
    _check_range("rank", len(value.shape), 2, 2, where)
    _check_range("axis", quant.axis, 0, 0, where)
    channels, inputs = value.shape
    if quant.group < 1 or quant.group % GROUP_UNIT or inputs % quant.group:
        raise FormatError("group", quant.group, f"a multiple of {GROUP_UNIT} that divides {inputs}", where)
    _check_scale_array(quant.scales, (channels, inputs // quant.group), where)
    if np.any(quant.scales.view(np.uint32) & 0xFFFF):
        raise FormatError("scales", "more than 8 bits of mantissa", "bfloat16 numbers", where)


def _check_scale_array(scales: np.ndarray[tuple[int, ...], np.dtype[np.generic]], shape: object, where: str) -> None:
    if scales.dtype != np.float32 or scales.shape != shape:
        raise FormatError("scales", f"{scales.dtype} {scales.shape}", f"float32 {shape}", where)
    _check_scales(scales.ravel().tolist(), where)


def _check_scales(scales: Iterable[float], where: str) -> None:
    for scale in scales:
        if not _SMALLEST <= scale <= _LARGEST:  # also refuses NaN
            raise FormatError("scale", scale, "a positive, normal float32", where)


def _check_range(what: str, found: int, low: int, high: int, where: str) -> None:
    if not low <= found <= high:
        raise FormatError(what, found, f"from {low} to {high}", where)


# ------------------------------------------------------------------------------------------------ the graph


def _check_externals(model: XModel) -> None:
    """The inputs, then the outputs, are the delegate's arguments from 0; nothing else is one."""
    ids = (*model.inputs, *model.outputs)
    for index in (*ids, *model.channels_last, *model.scalars):
        _check_range("value id", index, 0, len(model.values) - 1, "arguments")
    found = {index: value.external for index, value in enumerate(model.values) if value.external is not None}
    expected = {index: position for position, index in enumerate(ids)}
    if found != expected or len(expected) != len(ids):
        raise FormatError("arguments by value", found, str(expected), "subgraph")
    if not model.outputs:
        raise FormatError("outputs", "none", "one or more", "subgraph")
    for index in model.channels_last:
        if index not in expected or len(model.values[index].shape) != 4:
            raise FormatError("channels-last value", index, "an argument with 4 axes", "subgraph")
    for index in model.scalars:
        if index not in expected or model.values[index].shape != (1,):
            raise FormatError("scalar value", index, "an argument of shape (1,)", "subgraph")


def _check_node(node: XNode, values: int, where: str) -> None:
    if node.op not in schema.OPERATORS:
        raise FormatError("operator", node.op, "a supported XNNPACK operator", where)
    operator = schema.OPERATORS[node.op]
    _check_ids(node, operator, values, where)
    if node.flags & ~operator.flags:
        raise FormatError("flags", hex(node.flags), f"no bits but those of {operator.flags:#x}", where)
    _check_limits(node, operator, where)
    if set(node.options) != set(operator.options):
        raise FormatError("options", sorted(node.options), f"exactly {sorted(operator.options)}", where)
    for name, number in node.options.items():
        _check_option(node.op, name, number, where)


def _check_ids(node: XNode, operator: schema.Operator, values: int, where: str) -> None:
    if len(node.inputs) != len(operator.inputs) or len(node.outputs) != len(operator.outputs):
        expected = f"{len(operator.inputs)} to {len(operator.outputs)}"
        raise FormatError("arity", f"{len(node.inputs)} to {len(node.outputs)}", expected, where)
    needed = len(operator.inputs) - operator.optional
    for position, index in enumerate(node.inputs):
        _check_range("input value", index, 0 if position < needed else ABSENT, values - 1, where)
    for index in node.outputs:
        _check_range("output value", index, 0, values - 1, where)


def _check_limits(node: XNode, operator: schema.Operator, where: str) -> None:
    if node.limits is None:
        if node.op == "Clamp":
            raise FormatError("limits", "absent", "a lower and an upper one", where)
        return
    if not operator.clamped:
        raise FormatError("limits", node.limits, "none", where)
    if len(node.limits) != 2 or not node.limits[0] <= node.limits[1]:  # also refuses NaN
        raise FormatError("limits", node.limits, "a lower one, and an upper one not below it", where)


def _check_option(op: str, name: str, number: object, where: str) -> None:
    if name in _LISTS:
        sizes = number if isinstance(number, tuple) else ()
        low = 1 if name == "sizes" else 0
        if not sizes or len(sizes) > RANK_LIMIT or not all(low <= size <= ELEMENT_LIMIT for size in sizes):
            raise FormatError(name, number, f"1 to {RANK_LIMIT} numbers from {low} to {ELEMENT_LIMIT}", where)
        if name == "new_shape" and sizes.count(0) > 1:
            raise FormatError(name, number, "at most one size 0", where)
    elif isinstance(number, float):
        if math.isnan(number) or (name != "padding_value" and math.isinf(number)):
            raise FormatError(name, number, "a finite number", where)
    elif isinstance(number, int):
        positive = name.startswith(_POSITIVE) or (name.startswith("dilation") and op != "AvgPooling2d")
        limit = STEP_LIMIT if name.startswith(_STEPS) else SIZE_LIMIT
        _check_range(name, number, int(positive), limit, where)
    else:
        raise FormatError(name, number, "a number", where)


def _check_order(model: XModel) -> None:
    """Every value is made once, before it is used: constants and inputs first, then node by node."""
    defined = {index for index, value in enumerate(model.values) if value.data is not None}
    defined.update(model.inputs)
    for position, node in enumerate(model.nodes):
        where = f"node {position} {node.op}"
        for index in node.inputs:
            if index != ABSENT and index not in defined:
                raise FormatError("input value", index, "defined before its use", where)
        for index in node.outputs:
            if index in defined:
                raise FormatError("output value", index, "defined once", where)
            defined.add(index)
    for index in model.outputs:
        if index not in defined:
            raise FormatError("output value", index, "defined by a node", "subgraph")


def _check_meaning(node: XNode, values: tuple[XValue, ...], where: str) -> None:
    """Types and shapes of operands and results."""
    operands = [values[index] for index in node.inputs if index != ABSENT]
    result = values[node.outputs[0]]
    check_operands(node, operands, result, where)
    expected = output_shape(node, [value.shape for value in operands])
    if result.shape != expected:
        raise FormatError("shape of the result", list(result.shape), str(list(expected)), where)
