"""Rules that every TOSA graph keeps, whatever device runs it: checked before writing and after reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any, Final

from npu_assay.partitioners.ethosu import tosa_schema as schema
from npu_assay.partitioners.ethosu.tosa_model import NUMPY_TYPES, Array, TModel, TOperator, TShape, TTensor
from npu_assay.partitioners.ethosu.tosa_rules import elementwise, layout, windows
from npu_assay.partitioners.ethosu.tosa_rules.use import RANK_LIMIT, Use
from npu_assay.partitioners.exir.flatbuffer import FormatError, Numbers, Scalar

ELEMENT_LIMIT: Final = 2**28
"""Elements of one tensor."""

SHAPE_LIMIT: Final = 16
"""Numbers in one SHAPE constant (level 8K)."""

RULES: Final = {**elementwise.RULES, **layout.RULES, **windows.RULES}

OPERANDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D"), "tttcc"),
    **dict.fromkeys(("ADD", "SUB", "INTDIV", "MAXIMUM", "MINIMUM", "EQUAL", "GREATER", "GREATER_EQUAL"), "tt"),
    **dict.fromkeys(("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR", "LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR"), "tt"),
    **dict.fromkeys(("LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT", "ARITHMETIC_RIGHT_SHIFT", "GATHER"), "tt"),
    **dict.fromkeys(("AVG_POOL2D", "NEGATE"), "tcc"),
    **dict.fromkeys(("RESHAPE", "TILE"), "ts"),
    **dict.fromkeys(("SELECT", "SCATTER"), "ttt"),
    "MATMUL": "ttcc",
    "MUL": "ttc",
    "PAD": "tsc",
    "RESCALE": "tcccc",
    "RESIZE": "tsss",
    "SLICE": "tss",
    "TABLE": "tc",
}
"""What each operand is: t a tensor, c a constant one, s a SHAPE constant. One tensor where nothing is said."""


def check(model: TModel) -> None:
    """Raise FormatError for the first rule that the graph breaks: what, found, expected, where."""
    operands = _named(model)
    _check_arguments(model)
    defined = {each.name for each in model.tensors if each.data is not None} | set(model.inputs)
    for position, operator in enumerate(model.operators):
        where = f"operator {position} {operator.code}"
        _check_attributes(operator, where)
        _check_order(operator, operands, defined, where)
        _check_result(operator, operands, where)
    for name in model.outputs:
        if name not in defined:
            raise FormatError("output", repr(name), "defined by an operator", "graph")


def _named(model: TModel) -> dict[str, TTensor | TShape]:
    """Tensors and shapes by name, each checked."""
    named: dict[str, TTensor | TShape] = {}
    records: tuple[TTensor | TShape, ...] = (*model.tensors, *model.shapes)
    for each in records:
        if not each.name or each.name in named:
            raise FormatError("name", repr(each.name), "one of its own", "graph")
        named[each.name] = each
    for tensor in model.tensors:
        _check_tensor(tensor, f"tensor {tensor.name!r}")
    for shape in model.shapes:
        if len(shape.values) > SHAPE_LIMIT or not all(abs(n) < 2**31 for n in shape.values):
            raise FormatError("values", shape.values, f"at most {SHAPE_LIMIT} of 32 bits", f"shape {shape.name!r}")
    return named


def check_shape(shape: tuple[int, ...], where: str) -> None:
    """Raise FormatError for a shape that no tensor has, before anything is computed of it."""
    if len(shape) > RANK_LIMIT:
        raise FormatError("rank", len(shape), f"at most {RANK_LIMIT}", where)
    if min(shape, default=1) < 1 or prod(shape) > ELEMENT_LIMIT:
        raise FormatError("shape", list(shape), f"sizes from 1, at most {ELEMENT_LIMIT} elements", where)


def _check_tensor(tensor: TTensor, where: str) -> None:
    if tensor.dtype not in schema.DTYPES:
        raise FormatError("dtype", tensor.dtype, f"one of {sorted(schema.DTYPES)}", where)
    check_shape(tensor.shape, where)
    if tensor.data is not None:
        _check_data(tensor, tensor.data, where)


def _check_data(tensor: TTensor, data: Array, where: str) -> None:
    expected = NUMPY_TYPES[tensor.dtype]
    if data.dtype != expected or data.shape != tensor.shape:
        raise FormatError("data", f"{data.dtype} {list(data.shape)}", f"{expected} {list(tensor.shape)}", where)
    if tensor.dtype == "INT48" and not -(2**47) <= int(data.min()) <= int(data.max()) < 2**47:
        raise FormatError("data", f"{data.min()} to {data.max()}", "numbers of 48 bits", where)


def _check_arguments(model: TModel) -> None:
    tensors = {tensor.name: tensor for tensor in model.tensors}
    for name in (*model.inputs, *model.outputs):
        if name not in tensors:
            raise FormatError("argument", repr(name), "the name of a tensor", "graph")
    for name in model.inputs:
        if model.inputs.count(name) > 1 or tensors[name].data is not None:
            raise FormatError("input", repr(name), "given once, no constant", "graph")
    if not model.outputs:
        raise FormatError("outputs", "none", "one or more", "graph")


# ------------------------------------------------------------------------------------------------ one operator


def _check_attributes(operator: TOperator, where: str) -> None:
    if operator.code not in schema.OPERATORS:
        raise FormatError("operator", operator.code, "one of TOSA's integer profile", where)
    known = schema.OPERATORS[operator.code].attributes
    needed = {name for name, each in known.items() if each.default is None}
    if not needed <= set(operator.attributes) <= set(known):
        raise FormatError("attributes", sorted(operator.attributes), f"{sorted(needed)} of {sorted(known)}", where)
    for name, value in operator.attributes.items():
        if not _fits(known[name], value):
            raise FormatError(name, repr(value), "a value of that attribute's type", where)


def _fits(attribute: schema.Attribute, value: Any) -> bool:
    if attribute.names is not None:
        return isinstance(value, str) and value in attribute.names
    if isinstance(attribute.kind, Numbers):
        return isinstance(value, tuple) and all(_is_integer(each) for each in value)
    if isinstance(attribute.kind, Scalar) and attribute.kind.type == "bool":
        return isinstance(value, bool)
    return _is_integer(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31


def _check_order(operator: TOperator, operands: Mapping[str, TTensor | TShape], defined: set[str], where: str) -> None:
    """Every tensor is made once, before it is used; adds the result to `defined`."""
    for name in operator.inputs:
        if name not in operands:
            raise FormatError("operand", repr(name), "the name of a tensor or shape", where)
        if isinstance(operands[name], TTensor) and name not in defined:
            raise FormatError("operand", repr(name), "made before its use", where)
    if len(operator.outputs) != 1 or not isinstance(operands.get(operator.outputs[0]), TTensor):
        raise FormatError("results", list(operator.outputs), "one tensor", where)
    if operator.outputs[0] in defined:
        raise FormatError("result", repr(operator.outputs[0]), "made once", where)
    defined.add(operator.outputs[0])


def _check_result(operator: TOperator, operands: Mapping[str, TTensor | TShape], where: str) -> None:
    """The kinds of the operands, then all other rules of the operator."""
    given = tuple(operands[name] for name in operator.inputs)
    kinds = OPERANDS.get(operator.code, "t" * max(1, len(given)) if operator.code == "CONCAT" else "t")
    if [kind == "s" for kind in kinds] != [isinstance(each, TShape) for each in given]:
        raise FormatError("operands", "".join("ts"[isinstance(each, TShape)] for each in given), kinds, where)
    (result,) = (operands[name] for name in operator.outputs)
    assert isinstance(result, TTensor)  # _check_order
    expected = RULES[operator.code](Use(completed(operator), given, where), result.dtype)
    if (result.dtype, result.shape) != expected:
        found = f"{result.dtype} {list(result.shape)}"
        raise FormatError("result", found, f"{expected[0]} {list(expected[1])}", where)


def completed(operator: TOperator) -> TOperator:
    """The operator with every attribute, those that were left out with their defaults."""
    known = schema.OPERATORS[operator.code].attributes
    if len(operator.attributes) == len(known):
        return operator
    return replace(
        operator, attributes={name: operator.attributes.get(name, each.default) for name, each in known.items()}
    )
