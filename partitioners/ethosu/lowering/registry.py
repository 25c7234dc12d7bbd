"""Which function lowers which operator."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.ethosu.lowering import (
    elementwise,
    logic,
    movement,
)
from npu_assay.partitioners.ethosu.lowering.operation import Lower
from npu_assay.partitioners.ethosu.lowering.tables import table, table_of_two

_TABLES = (
    "acos acosh asin asinh atan atanh celu ceil cos cosh elu erf erfinv exp expm1 floor gelu hardsigmoid hardswish "
    "leaky_relu log log10 log1p reciprocal round rsqrt selu sigmoid sign silu sin sinh tan tanh"
)
_COMPARISONS = ("eq", "ne", "ge", "gt", "le", "lt")
_BITWISE = {"and": "AND", "or": "OR", "xor": "XOR"}

LOWERINGS: Mapping[str, Lower] = {
    **{f"aten.{name}.default": table for name in _TABLES.split()},
    **{f"aten.{name}.Tensor": logic.compare for name in _COMPARISONS},
    **{f"aten.{name}.Scalar": logic.compare_scalar for name in _COMPARISONS},
    **{
        f"aten.bitwise_{name}.{kind}": logic.bitwise(code)
        for name, code in _BITWISE.items()
        for kind in ("Tensor", "Scalar")
    },
    **{f"aten.logical_{name}.default": logic.logical(f"LOGICAL_{code}") for name, code in _BITWISE.items()},
    "aten.__lshift__.Scalar": logic.shift_left,
    "aten.__rshift__.Scalar": logic.shift_right,
    "aten.abs.default": elementwise.absolute,
    "aten.add.Tensor": elementwise.sum_of("ADD"),
    "aten.arange.start_step": movement.full,
    "aten.bitwise_left_shift.Tensor": logic.shift_left,
    "aten.bitwise_not.default": logic.bitwise("NOT"),
    "aten.bitwise_right_shift.Tensor": logic.shift_right,
    "aten.clamp.Tensor": elementwise.clamp_tensor,
    "aten.clamp.default": elementwise.clamp,
    "aten.div.Tensor_mode": table_of_two,
    "aten.eye.default": movement.full,
    "aten.full.default": movement.full,
    "aten.full_like.default": movement.full_like,
    "aten.hardtanh.default": elementwise.clamp,
    "aten.linspace.default": movement.full,
    "aten.logical_not.default": logic.logical("LOGICAL_NOT"),
    "aten.maximum.default": elementwise.extremum("MAXIMUM"),
    "aten.minimum.default": elementwise.extremum("MINIMUM"),
    "aten.mul.Tensor": elementwise.mul,
    "aten.neg.default": elementwise.negative,
    "aten.pow.Tensor_Scalar": table,
    "aten.pow.Tensor_Tensor": table_of_two,
    "aten.relu.default": elementwise.clamp,
    "aten.remainder.Scalar": table,
    "aten.remainder.Tensor": table_of_two,
    "aten.scalar_tensor.default": movement.full,
    "aten.sub.Tensor": elementwise.sum_of("SUB"),
}
