"""Which function lowers which operator."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.ethosu.lowering import (
    conversion,
    convolution,
    elementwise,
    indexing,
    logic,
    movement,
    reductions,
)
from npu_assay.partitioners.ethosu.lowering.operation import Lower
from npu_assay.partitioners.ethosu.lowering.tables import table, table_of_two
from npu_assay.partitioners.exir.ops import GETITEM

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
    GETITEM: movement.getitem,
    "aten.__lshift__.Scalar": logic.shift_left,
    "aten.__rshift__.Scalar": logic.shift_right,
    "aten.abs.default": elementwise.absolute,
    "aten.add.Tensor": elementwise.sum_of("ADD"),
    "aten.alias_copy.default": movement.same,
    "aten.amax.default": reductions.extreme("REDUCE_MAX"),
    "aten.amin.default": reductions.extreme("REDUCE_MIN"),
    "aten.any.default": reductions.any_,
    "aten.any.dim": reductions.any_,
    "aten.any.dims": reductions.any_,
    "aten.arange.start_step": movement.full,
    "aten.argmax.default": reductions.argmax,
    "aten.as_strided_copy.default": movement.as_strided,
    "aten.bitwise_left_shift.Tensor": logic.shift_left,
    "aten.bitwise_not.default": logic.bitwise("NOT"),
    "aten.bitwise_right_shift.Tensor": logic.shift_right,
    "aten.bmm.default": convolution.matmul,
    "aten.cat.default": movement.cat,
    "aten.clamp.Tensor": elementwise.clamp_tensor,
    "aten.clamp.default": elementwise.clamp,
    "aten.clone.default": movement.same,
    "aten.constant_pad_nd.default": movement.constant_pad,
    "aten.convolution.default": convolution.convolution,
    "aten.copy.default": movement.copy,
    "aten.cumsum.default": reductions.cumsum,
    "aten.detach_copy.default": movement.same,
    "aten.div.Tensor_mode": table_of_two,
    "aten.embedding.default": indexing.embedding,
    "aten.expand_copy.default": movement.expand,
    "aten.eye.default": movement.full,
    "aten.flip.default": movement.flip,
    "aten.full.default": movement.full,
    "aten.full_like.default": movement.full_like,
    "aten.gather.default": indexing.gather,
    "aten.hardtanh.default": elementwise.clamp,
    "aten.index.Tensor": indexing.index,
    "aten.index_put.default": indexing.index_put,
    "aten.index_select.default": indexing.index_select,
    "aten.linear.default": convolution.linear,
    "aten.linspace.default": movement.full,
    "aten.logical_not.default": logic.logical("LOGICAL_NOT"),
    "aten.masked_fill.Scalar": logic.masked_fill,
    "aten.maximum.default": elementwise.extremum("MAXIMUM"),
    "aten.mean.dim": reductions.mean,
    "aten.minimum.default": elementwise.extremum("MINIMUM"),
    "aten.mm.default": convolution.matmul,
    "aten.mul.Tensor": elementwise.mul,
    "aten.neg.default": elementwise.negative,
    "aten.pad.default": movement.pad,
    "aten.permute_copy.default": movement.permute,
    "aten.pow.Tensor_Scalar": table,
    "aten.pow.Tensor_Tensor": table_of_two,
    "aten.relu.default": elementwise.clamp,
    "aten.remainder.Scalar": table,
    "aten.remainder.Tensor": table_of_two,
    "aten.repeat.default": movement.repeat,
    "aten.scalar_tensor.default": movement.full,
    "aten.select_copy.int": movement.select,
    "aten.slice_copy.Tensor": movement.slice_,
    "aten.split_copy.Tensor": movement.same,
    "aten.split_with_sizes_copy.default": movement.same,
    "aten.squeeze_copy.default": movement.view,
    "aten.squeeze_copy.dim": movement.view,
    "aten.squeeze_copy.dims": movement.view,
    "aten.sub.Tensor": elementwise.sum_of("SUB"),
    "aten.sum.dim_IntList": reductions.sum_,
    "aten.unfold_copy.default": movement.unfold,
    "aten.unsqueeze_copy.default": movement.view,
    "aten.view_copy.default": movement.view,
    "aten.where.self": logic.where,
    "dim_order_ops._clone_dim_order.default": movement.same,
    "dim_order_ops._to_dim_order_copy.default": conversion.to_copy,
}
