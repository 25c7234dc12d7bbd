"""Shapes, orders of axes, copies and types."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.ethosu import no_ops
from npu_assay.partitioners.ethosu.lowering import conversion
from npu_assay.partitioners.ethosu.lowering import movement as lowering
from npu_assay.partitioners.ethosu.operators.row import Annotation, Row, named, rows
from npu_assay.partitioners.ethosu.rewriting import movement as rewriting
from npu_assay.partitioners.ethosu.support import elementwise
from npu_assay.partitioners.ethosu.support import movement as limits
from npu_assay.partitioners.ethosu.support.common import code_dtype
from npu_assay.partitioners.ethosu.support.quantisation import CONVERSION
from npu_assay.partitioners.ethosu.support.rescale import converted, moved
from npu_assay.partitioners.exir.ops import DEQUANTIZE, QUANTIZE

SHARED = Annotation.SHARED
_TILED = code_dtype(*limits.ANY_INTEGER)
ROWS: Mapping[str, Row] = {
    "aten.view_copy.default": Row(
        rules=(),
        scalings=moved,
        lower=lowering.view,
        annotation=SHARED,
        others=named("view view_as _unsafe_view unflatten.int"),
        moves=True,
        vanishes=no_ops.always,
    ),
    "aten.reshape.default": Row(annotation=SHARED, rewrite=rewriting.reshape, others=named("flatten.using_ints")),
    "aten.squeeze_copy.dims": Row(
        rules=(), scalings=moved, lower=lowering.view, moves=True, vanishes=no_ops.keeps_shape
    ),
    **rows(
        "squeeze_copy squeeze_copy.dim",
        Row(lower=lowering.view, annotation=SHARED, others=named("squeeze squeeze.dim squeeze.dims squeeze_.dim")),
    ),
    "aten.unsqueeze_copy.default": Row(
        rules=(), scalings=moved, lower=lowering.view, annotation=SHARED, others=named("unsqueeze"), moves=True
    ),
    "aten.as_strided_copy.default": Row(
        rules=(limits.contiguous, limits.within_storage),
        scalings=moved,
        lower=lowering.as_strided,
        annotation=SHARED,
        moves=True,
        vanishes=no_ops.keeps_shape,
    ),
    "aten.permute_copy.default": Row(
        rules=(limits.transposition, _TILED),
        scalings=moved,
        lower=lowering.permute,
        annotation=SHARED,
        others=named("permute transpose.int transpose_copy.int t t_copy"),
        moves=True,
        vanishes=no_ops.keeps_order,
    ),
    "aten.expand_copy.default": Row(
        rules=(_TILED,),
        scalings=moved,
        lower=lowering.expand,
        annotation=SHARED,
        others=named("expand"),
        moves=True,
        vanishes=no_ops.keeps_shape,
    ),
    "aten.repeat.default": Row(
        rules=(_TILED,), scalings=moved, lower=lowering.repeat, annotation=SHARED, others=named("tile"), moves=True
    ),
    "aten.repeat_interleave.self_int": Row(annotation=SHARED, rewrite=rewriting.repeat_interleave),
    "aten.pixel_shuffle.default": Row(annotation=SHARED, rewrite=rewriting.pixel_shuffle),
    "aten.pixel_unshuffle.default": Row(annotation=SHARED, rewrite=rewriting.pixel_unshuffle),
    "aten.stack.default": Row(annotation=SHARED, rewrite=rewriting.stack),
    **rows("moveaxis.int moveaxis.intlist movedim.int movedim.intlist", Row(annotation=Annotation.FREE)),
    # Copies.
    "aten.alias_copy.default": Row(
        rules=(),
        scalings=moved,
        lower=lowering.same,
        annotation=SHARED,
        others=named("alias"),
        moves=True,
        vanishes=no_ops.always,
    ),
    "aten.detach_copy.default": Row(
        rules=(), scalings=moved, lower=lowering.same, annotation=SHARED, moves=True, vanishes=no_ops.always
    ),
    "aten.detach_.default": Row(annotation=SHARED, is_harmless=True),
    "aten.clone.default": Row(
        lower=lowering.same, annotation=SHARED, others=named("lift_fresh_copy contiguous dropout dropout_ copy_")
    ),
    "aten.copy.default": Row(rules=(), scalings=moved, lower=lowering.copy),
    "dim_order_ops._clone_dim_order.default": Row(
        rules=(limits.no_conversion,), scalings=moved, lower=lowering.same, moves=True, vanishes=no_ops.always
    ),
    "dim_order_ops._to_dim_order_copy.default": Row(
        rules=(elementwise.conversion, elementwise.narrowing), lower=conversion.to_copy
    ),
    **dict.fromkeys(sorted(QUANTIZE | DEQUANTIZE), Row(rules=CONVERSION, scalings=converted)),
    "aten.to.dtype": Row(annotation=Annotation.CAST),
}
