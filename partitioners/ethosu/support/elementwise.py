"""Rules of operators that compute element by element."""

from __future__ import annotations

import math

import torch
from torch import fx

from npu_assay.partitioners.ethosu.support.common import dtype_of, is_integer, is_named
from npu_assay.partitioners.ethosu.support.linear import on_u55
from npu_assay.partitioners.ethosu.support.quantization import neighbours
from npu_assay.partitioners.ethosu.support.rule import Context
from npu_assay.partitioners.exir.nodes import argument, operand, shape, size_text, type_text
from npu_assay.partitioners.exir.ops import QUANTIZE_PER_TENSOR
from npu_assay.partitioners.exir.qdq import qparams
from npu_assay.partitioners.exir.rules import rule

CONVERTIBLE = (torch.bool, torch.int8, torch.int16, torch.int32)


@rule("number_operand")
def number_operand(node: fx.Node, context: Context) -> str | None:
    """the second operand must be a constant of one element"""
    # A function of one number then, looked up.
    second, sizes = operand(node, 1), shape(operand(node, 1))
    if second is None or (context.is_constant(second) and math.prod(sizes) == 1):
        return None
    return f"{second.name} of shape {size_text(sizes)}"


@rule("whole_number")
def whole_number(node: fx.Node, context: Context) -> str | None:
    """the number that integers are compared with must be whole"""
    # No integer equals another number.
    number = argument(node, 1, "other")
    plain = dtype_of(node.all_input_nodes[0]) not in (torch.float32, torch.float16)
    return f"{number}" if plain and not float(number).is_integer() else None


@rule("code_dtype")
def signed_operands(node: fx.Node, context: Context) -> str | None:
    """the values must be booleans or integers of up to 32 bits with a sign, or quantized so"""
    # Of comparisons and logic, whose results do not show what they were made of.
    found = next((source for source in node.all_input_nodes if dtype_of(source) == torch.uint8), None)
    return None if found is None else f"{found.name} is uint8"


@rule("mixed_dtype")
def no_plain_operand(node: fx.Node, context: Context) -> str | None:
    """quantized operands and results must have the same integer type"""
    # An integer that stands for itself has no scale, which whatever else is quantized has.
    others = (source for source in node.all_input_nodes if not context.is_constant(source))
    plain = next((source for source in others if is_integer(dtype_of(source))), None)
    return f"{plain.name} is not quantized" if plain is not None and any(neighbours(node)) else None


@rule("mixed_dtype")
def looked_up(node: fx.Node, context: Context) -> str | None:
    """quantized operands and results must have the same integer type"""
    # A TABLE is indexed by codes; integers that stand for themselves have none.
    source = operand(node)
    return f"{source.name} is not quantized" if source is not None and is_integer(dtype_of(source)) else None


@rule("conversion")
def conversion(node: fx.Node, context: Context) -> str | None:
    """the types must be booleans and integers of up to 32 bits, or the result quantized 1 to 1"""
    # A real number becomes an integer where it is quantized with scale 1 and zero point 0.
    before, after = dtype_of(node.all_input_nodes[0]), dtype_of(node)
    if before in (*CONVERTIBLE, torch.int64) and after in CONVERTIBLE:
        return None
    if before in (*CONVERTIBLE, torch.int64) and all(map(_quantises_one_to_one, node.users)):
        return None
    return f"{type_text(before)} to {type_text(after)}"


def _quantises_one_to_one(node: fx.Node) -> bool:
    params = qparams(node)
    exact = params is not None and (params.scale, params.zero_point) == (1.0, 0)
    return is_named(node, QUANTIZE_PER_TENSOR) and exact


@on_u55
@rule("code_dtype")
def narrowing(node: fx.Node, context: Context) -> str | None:
    """the values must be int8 or int16, or stay as they are"""
    # CAST from int32, and to and from booleans, is missing.
    before, after = dtype_of(node.all_input_nodes[0]), dtype_of(node)
    if before == after or (before not in (torch.bool, torch.int32) and after != torch.bool):
        return None
    return f"{type_text(before)} to {type_text(after)}"


@rule("bounds")
def some_bound(node: fx.Node, context: Context) -> str | None:
    """there must be a bound"""
    # A clamp without bounds is none.
    return None if any(argument(node, i, name) is not None for i, name in ((1, "min"), (2, "max"))) else "no bounds"
