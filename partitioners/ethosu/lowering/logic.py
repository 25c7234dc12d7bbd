"""Comparisons, booleans and bits: results that are not numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from npu_assay.partitioners.ethosu.lowering.context import CODES
from npu_assay.partitioners.ethosu.lowering.elementwise import is_plain, plain, to_common_scale
from npu_assay.partitioners.ethosu.lowering.operation import Lower, Operation
from npu_assay.partitioners.ethosu.lowering.scaling import dequantised, quantised
from npu_assay.partitioners.ethosu.lowering.values import Value, mapped
from npu_assay.partitioners.exir.layout import Layout, arranged
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.qdq import QParams

# How each comparison is written: the operator, and whether the operands change places.
_COMPARISONS = {
    "eq": ("EQUAL", False),
    "ne": ("EQUAL", False),
    "gt": ("GREATER", False),
    "ge": ("GREATER_EQUAL", False),
    "lt": ("GREATER", True),
    "le": ("GREATER_EQUAL", True),
}

_PAST = 2**32  # no int32 is as large
_ALWAYS = {True: ("ne", "lt", "le"), False: ("ne", "gt", "ge")}
"""By whether a number lies above all codes, the comparisons that hold for every code."""


def compare(operation: Operation) -> Value:
    """aten.eq, ne, gt, ge, lt, le of two tensors, brought to the smaller scale when they are quantized."""
    values = [operation.operand(source) for source in operation.node.args]
    kind = _kind(operation)
    code, swapped = _COMPARISONS[kind]
    if is_plain(values):
        layout, tensors = operation.together(values)
        tensors = [operation.integers(tensor, "INT32") for tensor in tensors]
    else:
        layout, tensors, _ = to_common_scale(operation, values)
    made = operation.emit(code, tensors[::-1] if swapped else tensors, arranged(operation.shape, layout), "BOOL")
    return operation.result(_inverted(operation, made) if kind == "ne" else made, layout)


def compare_scalar(operation: Operation) -> Value:
    """aten.eq.Scalar and its like: the code is compared with the first code on the other side of the number."""
    x, kind = operation.first, _kind(operation)
    number = float(operation.arguments["other"])
    zero = 0 if x.quant is None else operation.quant_of(x).zero_point
    limit = _limit(kind, number) if x.quant is None else _code_limit(operation, operation.quant_of(x))
    operation.require(limit is not None, "number to compare with", number, "one that a single code can equal")
    assert limit is not None

    def make(tensor: str) -> str:
        wide = operation.integers(tensor, "INT32")
        if x.quant is not None:
            wide = operation.widened(tensor, operation.quant_of(x), 1.0)
        shape = operation.model.shape(tensor)
        if not -(2**31) <= limit - zero < 2**31:
            never = operation.emit("GREATER", [wide, wide], shape, "BOOL")
            return _inverted(operation, never) if kind in _ALWAYS[limit > zero] else never
        other = operation.number(limit - zero, "INT32", len(shape))
        code = {"eq": "EQUAL", "ne": "EQUAL", "gt": "GREATER_EQUAL", "ge": "GREATER_EQUAL"}.get(kind, "GREATER")
        operands = [other, wide] if code == "GREATER" else [wide, other]
        made = operation.emit(code, operands, shape, "BOOL")
        return _inverted(operation, made) if kind == "ne" else made

    return mapped(operation.model, x, operation.node.name, make)


def _kind(operation: Operation) -> str:
    return target_name(operation.node.target).split(".")[1]


def _inverted(operation: Operation, tensor: str) -> str:
    return operation.emit("LOGICAL_NOT", [tensor], operation.model.shape(tensor), "BOOL")


def _limit(kind: str, number: float) -> int:
    """n with: x > number is x >= n (also ge); x < number is x < n (also le); x == number is x == n.

    A number that no integer has on its other side, or that none equals, is one past int32.
    """
    if math.isnan(number):
        number = -math.inf if kind in ("lt", "le") else math.inf
    if math.isinf(number):
        return int(math.copysign(_PAST, number))
    if kind in ("gt", "le"):
        return math.floor(number) + 1
    if kind in ("ge", "lt"):
        return math.ceil(number)
    return int(number) if number.is_integer() else _PAST


def _code_limit(operation: Operation, quant: QParams) -> int | None:
    """The same among the codes of a quantization, as torch compares their float32 numbers."""
    codes = torch.arange(quant.qmin, quant.qmax + 1).to(quant.dtype)
    target: Any = operation.node.target
    holds = target(dequantised(codes, quant), operation.arguments["other"])
    kind = _kind(operation)
    found = codes[holds if kind in ("gt", "ge", "eq") else ~holds]
    if kind in ("eq", "ne") and len(found) > 1:
        return None
    return int(found[0]) if len(found) else quant.qmax + 1


def logical(code: str) -> Lower:
    """aten.logical_and, or, xor, not; numbers are true unless they are 0."""

    def lower(operation: Operation) -> Value:
        return _combined(operation, code, _all_operands(operation), "BOOL")

    return lower


def bitwise(code: str) -> Lower:
    """aten.bitwise_and, or, xor, not on integers; on booleans the logical operator of that name."""

    def lower(operation: Operation) -> Value:
        dtype = operation.dtype
        return _combined(
            operation, f"LOGICAL_{code}" if dtype == "BOOL" else f"BITWISE_{code}", _all_operands(operation), dtype
        )

    return lower


def _all_operands(operation: Operation) -> list[Value]:
    """The tensors among the first two arguments; a scalar is a constant of the result's type."""
    values = []
    for source in operation.node.args[:2]:
        if isinstance(source, (bool, int)):
            values.append(scalar(operation, int(source)))
        else:
            values.append(operation.operand(source))
    return values


def scalar(operation: Operation, number: int) -> Value:
    """A number as a constant of the result's type."""
    data = torch.full((), number, dtype=operation.node.meta["val"].dtype)
    dtype = operation.dtype
    return Value(f"{operation.node.name}_scalar", (), dtype, data=data.numpy())


def _combined(operation: Operation, code: str, values: Sequence[Value], dtype: str) -> Value:
    operation.require(is_plain(values), "operands", "quantized numbers", "integers or booleans")
    layout, tensors = operation.together(values)
    tensors = [operation.integers(tensor, dtype) for tensor in tensors]
    return operation.result(operation.emit(code, tensors, arranged(operation.shape, layout), dtype), layout)


def shift_left(operation: Operation) -> Value:
    """aten.bitwise_left_shift, aten.__lshift__ -> LOGICAL_LEFT_SHIFT."""
    return plain(operation, "LOGICAL_LEFT_SHIFT", _all_operands(operation))


def shift_right(operation: Operation) -> Value:
    """aten.bitwise_right_shift, aten.__rshift__ -> ARITHMETIC_RIGHT_SHIFT.

    The U55 only shifts with rounding, halves up. There half of the last kept bit is subtracted before;
    numbers so small that this would overflow are first replaced by one that gives the same result.
    """
    values = _all_operands(operation)
    layout, tensors = operation.together(values)
    x, amount = (operation.integers(tensor, "INT32") for tensor in tensors)
    if operation.ctx.is_u55:
        x = _without_half(operation, x, amount, layout)
    shape = arranged(operation.shape, layout)
    made = operation.emit("ARITHMETIC_RIGHT_SHIFT", [x, amount], shape, "INT32", round=operation.ctx.is_u55)
    return operation.result(operation.integers(made, operation.dtype), layout)


def _without_half(operation: Operation, x: str, amount: str, layout: Layout) -> str:
    """x - 2**(amount - 1), and x itself for amount 0. Half of 2**amount - 1, rounded up, is what to take off."""
    model, rank = operation.model, len(layout)
    shape, sizes = arranged(operation.shape, layout), model.shape(amount)
    one = operation.number(1, "INT32", rank)
    whole = operation.emit("LOGICAL_LEFT_SHIFT", [one, amount], sizes, "INT32")
    below = operation.emit("SUB", [whole, one], sizes, "INT32")
    half = operation.emit("ARITHMETIC_RIGHT_SHIFT", [below, one], sizes, "INT32", round=True)
    lowest = operation.emit("ADD", [operation.number(-(2**31), "INT32", rank), half], sizes, "INT32")
    raised = operation.emit("MAXIMUM", [x, lowest], shape, "INT32", nan_mode="PROPAGATE")
    return operation.emit("SUB", [raised, half], shape, "INT32")


def where(operation: Operation) -> Value:
    """aten.where -> SELECT, on codes of the result's quantization."""
    condition, *values = (operation.operand(source) for source in operation.node.args[:3])
    return select(operation, condition, values)


def masked_fill(operation: Operation) -> Value:
    """aten.masked_fill with a number -> SELECT between that number's code and the tensor."""
    x, mask = (operation.operand(source) for source in operation.node.args[:2])
    number = operation.arguments["value"]
    if x.quant is None:
        return select(operation, mask, [scalar(operation, int(number)), x])
    constant = fill(operation, float(number))
    return select(operation, mask, [constant, x])


def fill(operation: Operation, number: float) -> Value:
    """A number as a constant of the result's quantization."""
    codes = quantised(torch.tensor(number, dtype=torch.float32), operation.y).numpy()
    return Value(f"{operation.node.name}_number", (), CODES[operation.y.dtype], operation.y, data=codes)


def select(operation: Operation, condition: Value, values: Sequence[Value]) -> Value:
    """values[0] where the condition holds, else values[1]."""
    operation.require(condition.dtype == "BOOL", "condition", condition.dtype, "booleans")
    quant = None if is_plain(values) else operation.y
    if quant is not None:
        values = [operation.ctx.requantised(value, quant, operation.node) for value in values]
    layout, (mask, *tensors) = operation.together([condition, *values])
    if quant is None:
        tensors = [operation.integers(tensor, operation.dtype) for tensor in tensors]
    dtype = operation.model.dtype(tensors[0])
    made = operation.emit("SELECT", [mask, *tensors], arranged(operation.shape, layout), dtype)
    return operation.result(made, layout, quant=quant)
