"""Shapes, orders of axes, copies and types."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.common.rules import no_conversion
from npu_assay.partitioners.ethosu import no_ops
from npu_assay.partitioners.ethosu.lowering import conversion
from npu_assay.partitioners.ethosu.lowering import layout as lowering
from npu_assay.partitioners.ethosu.operators.row import Annotation, Row, moving, picking, rows
from npu_assay.partitioners.ethosu.rewriting import layout as rewriting
from npu_assay.partitioners.ethosu.support import elementwise
from npu_assay.partitioners.ethosu.support import layout as limits
from npu_assay.partitioners.ethosu.support.quantization import CONVERSION
from npu_assay.partitioners.ethosu.support.rescale import converted
from npu_assay.partitioners.exir.ops import DEQUANTIZE, QUANTIZE_PER_CHANNEL, QUANTIZE_PER_TENSOR

SHARED = Annotation.SHARED
ROWS: Mapping[str, Row] = {
    "aten.view_copy.default": moving(
        lowering.view, others="view view_as _unsafe_view unflatten.int", vanishes=no_ops.always
    ),
    "aten.reshape.default": Row(annotation=SHARED, others="flatten.using_ints", rewrite=rewriting.reshape),
    "aten.unsqueeze_copy.default": moving(lowering.view, others="unsqueeze"),
    "aten.squeeze_copy.dims": moving(lowering.view, annotation=None, vanishes=no_ops.keeps_shape),
    **rows(
        "squeeze_copy squeeze_copy.dim",
        Row(lower=lowering.view, annotation=SHARED, others="squeeze squeeze.dim squeeze.dims squeeze_.dim"),
    ),
    "aten.as_strided_copy.default": moving(
        lowering.as_strided, limits.contiguous, limits.within_storage, vanishes=no_ops.keeps_memory
    ),
    "aten.permute_copy.default": moving(
        lowering.permute,
        limits.transposition,
        limits.any_integer,
        others="permute transpose.int transpose_copy.int t t_copy",
        vanishes=no_ops.keeps_order,
    ),
    "aten.expand_copy.default": moving(
        lowering.expand, limits.any_integer, others="expand", vanishes=no_ops.keeps_shape
    ),
    "aten.repeat.default": moving(lowering.repeat, limits.any_integer, others="tile"),
    "aten.repeat_interleave.self_int": Row(annotation=SHARED, rewrite=rewriting.repeat_interleave),
    "aten.pixel_shuffle.default": Row(annotation=SHARED, rewrite=rewriting.pixel_shuffle),
    "aten.pixel_unshuffle.default": Row(annotation=SHARED, rewrite=rewriting.pixel_unshuffle),
    "aten.stack.default": Row(annotation=SHARED, rewrite=rewriting.stack),
    **rows("moveaxis.int moveaxis.intlist movedim.int movedim.intlist", Row(annotation=Annotation.FREE)),
    # Copies.
    "aten.alias_copy.default": moving(lowering.same, others="alias", vanishes=no_ops.always),
    "aten.detach_copy.default": moving(lowering.same, vanishes=no_ops.always),
    "aten.detach_.default": Row(annotation=SHARED, is_harmless=True),
    "aten.clone.default": Row(
        lower=lowering.same, annotation=SHARED, others="lift_fresh_copy contiguous dropout dropout_ copy_"
    ),
    "aten.copy.default": picking(lowering.copy, annotation=None),
    "dim_order_ops._clone_dim_order.default": moving(
        lowering.same, no_conversion, annotation=None, vanishes=no_ops.always
    ),
    # Types.
    "dim_order_ops._to_dim_order_copy.default": Row(
        (elementwise.conversion, elementwise.narrowing), lower=conversion.to_copy
    ),
    "aten.to.dtype": Row(annotation=Annotation.CAST),
    **dict.fromkeys(sorted(DEQUANTIZE), Row(CONVERSION, converted, conversion.dequantize)),
    QUANTIZE_PER_TENSOR: Row(CONVERSION, converted, conversion.quantize),
    QUANTIZE_PER_CHANNEL: Row(CONVERSION, converted),
}
