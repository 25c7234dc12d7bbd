"""Arithmetic and limits. Quantized operands are brought to one scale in int32, and back after the operator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from npu_assay.partitioners.common.rules import bounds
from npu_assay.partitioners.ethosu.lowering.operation import Lower, Operation
from npu_assay.partitioners.ethosu.lowering.scaling import code_of
from npu_assay.partitioners.ethosu.lowering.values import Value, mapped
from npu_assay.partitioners.exir.layout import Layout, arranged
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.qdq import QParams

# Bits below the larger operand's step that sums keep.
_FRACTION = {torch.int8: 20, torch.int16: 12}


def is_plain(values: Sequence[Value]) -> bool:
    """Whether operands are integers rather than codes of numbers."""
    return all(value.quant is None for value in values)


def plain(operation: Operation, code: str, values: Sequence[Value], **attributes: Any) -> Value:
    """An operator on int32 numbers; narrower results are cut off as torch does."""
    layout, tensors = operation.together(values)
    wide = [operation.integers(tensor, "INT32") for tensor in tensors]
    if code == "MUL":
        wide.append(operation.model.number(0, "INT8"))
    if code == "NEGATE":
        wide += [operation.model.number(0, "INT32")] * 2
    made = operation.emit(code, wide, arranged(operation.shape, layout), "INT32", **attributes)
    return operation.result(operation.integers(made, operation.dtype), layout)


def to_common_scale(operation: Operation, values: Sequence[Value]) -> tuple[Layout, list[str], float]:
    """Operands as int32 numbers in steps of their smallest scale, and that scale."""
    quants = [operation.quant_of(value) for value in values]
    smallest = min(quant.scale for quant in quants)
    layout, tensors = operation.together(values)
    pairs = zip(tensors, quants, strict=True)
    return layout, [operation.widened(tensor, q, q.scale / smallest) for tensor, q in pairs], smallest


def sum_of(code: str) -> Lower:
    """aten.add, aten.sub: both operands in steps of twice the larger scale / 2**20 (2**12 for int16 codes)."""

    def lower(operation: Operation) -> Value:
        values = [operation.operand(source) for source in operation.node.args]
        alpha = operation.arguments["alpha"]
        operation.require(alpha == 1, "alpha", alpha, 1)
        if is_plain(values):
            return plain(operation, code, values)
        quants = [operation.quant_of(value) for value in values]
        step = (2 * max(q.scale for q in quants)) / (1 << _FRACTION[quants[0].dtype])
        layout, tensors = operation.together(values)
        wide = [operation.widened(t, q, q.scale / step) for t, q in zip(tensors, quants, strict=True)]
        made = operation.emit(code, wide, arranged(operation.shape, layout), "INT32")
        return operation.result(operation.narrowed(made, (step / operation.y.scale,)), layout, quant=operation.y)

    return lower


def mul(operation: Operation) -> Value:
    """aten.mul: the product of the codes without their zero points."""
    values = [operation.operand(source) for source in operation.node.args]
    if is_plain(values):
        return plain(operation, "MUL", values)
    a, b = (operation.quant_of(value) for value in values)
    layout, tensors = operation.together(values)
    wide = [operation.widened(tensor, quant, 1.0) for tensor, quant in zip(tensors, (a, b), strict=True)]
    shape = arranged(operation.shape, layout)
    made = operation.emit("MUL", [*wide, operation.model.number(0, "INT8")], shape, "INT32")
    codes = operation.narrowed(made, (a.scale * b.scale / operation.y.scale,))
    return operation.result(codes, layout, quant=operation.y)


def extremum(code: str) -> Lower:
    """aten.maximum, aten.minimum: both operands in steps of the smaller scale."""

    def lower(operation: Operation) -> Value:
        values = [operation.operand(source) for source in operation.node.args]
        if is_plain(values):
            return plain(operation, code, values, nan_mode="PROPAGATE")
        return _extrema(operation, values, [code])

    return lower


def _extrema(operation: Operation, values: Sequence[Value], codes: Sequence[str]) -> Value:
    """The first value combined with the others."""
    layout, tensors, scale = to_common_scale(operation, values)
    made = _combined(operation, tensors, codes)
    return operation.result(operation.narrowed(made, (scale / operation.y.scale,)), layout, quant=operation.y)


def _combined(operation: Operation, tensors: Sequence[str], codes: Sequence[str]) -> str:
    """The first tensor combined with the others, one after the other, each in the shape that both have together."""
    made, *others = tensors
    for code, other in zip(codes, others, strict=True):
        shape = np.broadcast_shapes(operation.model.shape(made), operation.model.shape(other))
        made = operation.emit(code, [made, other], shape, "INT32", nan_mode="PROPAGATE")
    return made


def clamp_tensor(operation: Operation) -> Value:
    """aten.clamp.Tensor: MAXIMUM with the lower limits, MINIMUM with the upper ones."""
    limits = [("MAXIMUM", operation.arguments["min"]), ("MINIMUM", operation.arguments["max"])]
    given = [(code, source) for code, source in limits if source is not None]
    values = [operation.first, *(operation.operand(source) for _, source in given)]
    codes = [code for code, _ in given]
    if not is_plain(values):
        return _extrema(operation, values, codes)
    layout, tensors = operation.together(values)
    made = _combined(operation, [operation.integers(tensor, "INT32") for tensor in tensors], codes)
    return operation.result(operation.integers(made, operation.dtype), layout)


def absolute(operation: Operation) -> Value:
    """aten.abs: ABS of the code without its zero point."""
    x = operation.first
    if is_plain([x]):
        return plain(operation, "ABS", [x])
    quant = operation.quant_of(x)

    def make(tensor: str) -> str:
        shape = operation.model.shape(tensor)
        made = operation.emit("ABS", [operation.widened(tensor, quant, 1.0)], shape, "INT32")
        return operation.narrowed(made, (quant.scale / operation.y.scale,))

    return mapped(operation.model, x, operation.node.name, make, operation.y)


def negative(operation: Operation) -> Value:
    """aten.neg: NEGATE on codes of one scale; on int32 numbers between two RESCALEs for codes of two."""
    x = operation.first
    if is_plain([x]):
        return plain(operation, "NEGATE", [x])
    quant, y = operation.quant_of(x), operation.y
    if (quant.scale, quant.dtype) != (y.scale, y.dtype):
        return mapped(operation.model, x, operation.node.name, lambda t: _negated_wide(operation, t, quant), y)

    def make(tensor: str) -> str:
        dtype = operation.model.dtype(tensor)
        zeros = [operation.model.number(zero, dtype) for zero in (quant.zero_point, y.zero_point)]
        made = operation.emit("NEGATE", [tensor, *zeros], operation.model.shape(tensor), dtype)
        return operation.ctx.limited(made, y, operation.node)

    return mapped(operation.model, x, operation.node.name, make, y)


def _negated_wide(operation: Operation, tensor: str, quant: QParams) -> str:
    zeros = [operation.model.number(0, "INT32")] * 2
    wide = operation.widened(tensor, quant, 1.0)
    made = operation.emit("NEGATE", [wide, *zeros], operation.model.shape(tensor), "INT32")
    return operation.narrowed(made, (quant.scale / operation.y.scale,))


def clamp(operation: Operation) -> Value:
    """aten.relu, aten.hardtanh, aten.clamp: CLAMP to the codes of the limits, after a RESCALE between two scales.

    Of two crossed limits torch takes the upper one.
    """
    x, (low, high) = operation.first, bounds(operation.node)
    low = min(low, high)
    if is_plain([x]):
        return _clamp_plain(operation, x, low, high)
    y = operation.y
    source = operation.ctx.requantised(x, y, operation.node)
    most = code_of(high, y)
    codes = (min(code_of(low, y), most), most)  # NaN, which torch makes of every number then, is any code

    def make(tensor: str) -> str:
        return operation.ctx.limited(tensor, y, operation.node, *codes)

    return mapped(operation.model, source, operation.node.name, make, y)


def _clamp_plain(operation: Operation, x: Value, low: float, high: float) -> Value:
    layout, (tensor,) = operation.together([x])
    made = operation.integers(tensor, "INT32")
    cut = (
        target_name(operation.node.target) == "aten.hardtanh.default"
    )  # whose limits torch makes integers before it clamps
    for code, limit, rounded in (("MAXIMUM", low, math.ceil), ("MINIMUM", high, math.floor)):
        if math.isfinite(limit):
            number = operation.number(
                min(max((math.trunc if cut else rounded)(limit), -(2**31)), 2**31 - 1), "INT32", x.rank
            )
            shape = operation.model.shape(tensor)
            made = operation.emit(code, [made, number], shape, "INT32", nan_mode="PROPAGATE")
    return operation.result(operation.integers(made, operation.dtype), layout)
