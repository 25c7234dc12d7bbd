"""Operators that give the same elements another shape, order or memory format."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.neutron.lowering import layout as lowering
from npu_assay.partitioners.neutron.operators.row import Annotation, Exported, Row
from npu_assay.partitioners.neutron.support import layout as limits
from npu_assay.partitioners.neutron.support.common import (
    device_rank,
    input_rank_at_most,
    output_rank_at_most,
    same_qparams,
)
from npu_assay.partitioners.neutron.support.stage import copy_at_border, reshaped_format

_COPIED = (limits.memory_format, device_rank, same_qparams)
_FORMAT_GIVEN = {"1.4": {"rules": (limits.memory_format_given, *_COPIED)}}
ROWS: Mapping[str, Row] = {
    "aten.view_copy.default": Row(
        rules=(output_rank_at_most(7), input_rank_at_most(8), same_qparams),
        stage=(reshaped_format,),
        lower=lowering.view,
        exported=Exported(
            Annotation.SHARED,
            ("aten.flatten.using_ints", "aten.reshape.default", "aten.view.default"),
            has_own_name=False,
        ),
        is_auxiliary=True,
    ),
    "aten.permute_copy.default": Row(
        rules=(device_rank, limits.permutation, same_qparams),
        lower=lowering.permute,
        exported=Exported(Annotation.SHARED, ("aten.permute.default", "aten.transpose.int"), has_own_name=False),
        is_auxiliary=True,
    ),
    "aten.clone.default": Row(
        rules=_COPIED,
        stage=(copy_at_border,),
        lower=lowering.clone,
        exported=Exported(Annotation.SHARED, ("aten.dropout.default",)),
        keeps_format=True,
        is_auxiliary=True,
        newer=_FORMAT_GIVEN,
    ),
    "dim_order_ops._clone_dim_order.default": Row(
        rules=_COPIED,
        stage=(copy_at_border,),
        lower=lowering.clone,
        keeps_format=True,
        is_auxiliary=True,
        newer=_FORMAT_GIVEN,
    ),
    "aten.squeeze_copy.default": Row(
        lower=lowering.view,
        exported=Exported(Annotation.SHARED, ("aten.squeeze.default",), has_own_name=False),
    ),
    "aten.squeeze_copy.dim": Row(
        lower=lowering.view, exported=Exported(Annotation.SHARED, ("aten.squeeze.dim",), has_own_name=False)
    ),
    "aten.squeeze_copy.dims": Row(
        lower=lowering.view,
        exported=Exported(Annotation.SHARED, ("aten.squeeze.dims",), has_own_name=False),
        is_auxiliary=True,
    ),
    "aten.unsqueeze_copy.default": Row(
        lower=lowering.view,
        exported=Exported(Annotation.SHARED, ("aten.unsqueeze.default",), has_own_name=False),
        is_auxiliary=True,
    ),
}
