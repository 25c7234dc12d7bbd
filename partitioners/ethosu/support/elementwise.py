"""Rules of operators that compute element by element."""

from __future__ import annotations

import math

import torch
from torch import fx

from npu_assay.partitioners.common.rules import argument_is
from npu_assay.partitioners.ethosu.support.common import (
    COMPUTED_AHEAD,
    CONVERT,
    dtype_of,
    integer_operands,
    is_integer,
    is_named,
    type_text,
)
from npu_assay.partitioners.ethosu.support.products import on_u55
from npu_assay.partitioners.ethosu.support.quantisation import mixed_dtype, neighbours
from npu_assay.partitioners.ethosu.support.rule import Context, Rule
from npu_assay.partitioners.ethosu.support.slopes import STEEP, table_slope
from npu_assay.partitioners.exir.nodes import argument, operand, shape, size_text
from npu_assay.partitioners.exir.ops import QUANTIZE_PER_TENSOR
from npu_assay.partitioners.exir.qdq import qparams
from npu_assay.partitioners.exir.rules import rule

TABULATED = tuple(
    f"aten.{name}"
    for name in (
        "acos.default", "acosh.default", "asin.default", "asinh.default", "atan.default", "atanh.default",
        "ceil.default", "cos.default", "cosh.default", "elu.default", "erf.default", "erfinv.default",
        "exp.default", "expm1.default", "floor.default", "gelu.default", "hardsigmoid.default", "hardswish.default",
        "leaky_relu.default", "log.default", "log10.default", "log1p.default", "pow.Tensor_Scalar",
        "reciprocal.default", "remainder.Scalar", "round.default", "rsqrt.default", "sigmoid.default",
        "silu.default", "sin.default", "sinh.default", "tan.default", "tanh.default",
    )
)  # fmt: skip
"""Functions of one number, looked up."""
ALSO_TABULATED = ("aten.celu.default", "aten.selu.default", "aten.sign.default")
"""The same, though 1.5.1 does not ask for their quantisation."""
LOGICAL = tuple(f"aten.logical_{name}.default" for name in ("and", "not", "or", "xor"))
BITWISE = (
    *(f"aten.bitwise_{name}.{kind}" for name in ("and", "or", "xor") for kind in ("Tensor", "Scalar")),
    "aten.bitwise_not.default",
)
COMPARISONS = tuple(f"aten.{name}.{kind}" for name in ("eq", "ge", "gt", "le", "lt") for kind in ("Tensor", "Scalar"))
SHIFTS = (
    "aten.__lshift__.Scalar",
    "aten.__rshift__.Scalar",
    "aten.bitwise_left_shift.Tensor",
    "aten.bitwise_right_shift.Tensor",
)
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
    return f"{number}" if plain and float(number) != int(number) else None


@rule("code_dtype")
def signed_operands(node: fx.Node, context: Context) -> str | None:
    """the values must be booleans or integers of up to 32 bits with a sign, or quantised so"""
    # Of comparisons and logic, whose results do not show what they were made of.
    found = next((source for source in node.all_input_nodes if dtype_of(source) == torch.uint8), None)
    return None if found is None else f"{found.name} is uint8"


@rule("mixed_dtype")
def no_plain_operand(node: fx.Node, context: Context) -> str | None:
    """quantised operands and results must have the same integer type"""
    # An integer that stands for itself has no scale, which whatever else is quantised has.
    others = (source for source in node.all_input_nodes if not context.is_constant(source))
    plain = next((source for source in others if is_integer(dtype_of(source))), None)
    return f"{plain.name} is not quantised" if plain is not None and any(neighbours(node)) else None


@rule("mixed_dtype")
def looked_up(node: fx.Node, context: Context) -> str | None:
    """quantised operands and results must have the same integer type"""
    # A TABLE is indexed by codes; integers that stand for themselves have none.
    source = operand(node)
    return f"{source.name} is not quantised" if source is not None and is_integer(dtype_of(source)) else None


@rule("conversion")
def conversion(node: fx.Node, context: Context) -> str | None:
    """the types must be booleans and integers of up to 32 bits, or the result quantised 1 to 1"""
    # A real number becomes an integer where it is quantised with scale 1 and zero point 0.
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


_TABLE: tuple[Rule, ...] = (mixed_dtype, no_plain_operand)
_TABLE_OF_TWO: tuple[Rule, ...] = (number_operand, *_TABLE)
_SUM: tuple[Rule, ...] = (argument_is("alpha", 1, 1), *_TABLE)
RULES: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys((*TABULATED, *ALSO_TABULATED), (mixed_dtype, looked_up)),
    **{op: (mixed_dtype, looked_up, table_slope) for op in TABULATED if op in STEEP},
    **dict.fromkeys(LOGICAL, (signed_operands, integer_operands)),
    **dict.fromkeys((*BITWISE, *SHIFTS), (integer_operands,)),
    **dict.fromkeys(COMPARISONS, (signed_operands, *_TABLE)),
    "aten.eq.Scalar": (signed_operands, whole_number, mixed_dtype),
    **dict.fromkeys(COMPUTED_AHEAD, ()),
    "aten.full_like.default": (),
    "aten.abs.default": (mixed_dtype,),
    "aten.add.Tensor": _SUM,
    "aten.sub.Tensor": _SUM,
    "aten.mul.Tensor": _TABLE,
    "aten.neg.default": (mixed_dtype,),
    "aten.maximum.default": _TABLE,
    "aten.minimum.default": _TABLE,
    "aten.clamp.default": (some_bound,),
    "aten.clamp.Tensor": (some_bound,),
    "aten.hardtanh.default": (),
    "aten.relu.default": (),
    "aten.div.Tensor_mode": _TABLE_OF_TWO,
    "aten.pow.Tensor_Tensor": (*_TABLE_OF_TWO, table_slope),
    "aten.remainder.Tensor": _TABLE_OF_TWO,
    CONVERT: (conversion, narrowing),
}
