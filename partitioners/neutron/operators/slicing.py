"""Operators that cut, join and pad."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.common.rules import step_is_one
from npu_assay.partitioners.neutron.lowering import layout as lowering
from npu_assay.partitioners.neutron.operators.row import Annotation, Exported, Row
from npu_assay.partitioners.neutron.support import slicing as limits
from npu_assay.partitioners.neutron.support.common import (
    all_same_qparams,
    device_rank,
    output_rank_at_most,
    same_qparams,
)
from npu_assay.partitioners.neutron.support.stage import dim_before_axis

ROWS: Mapping[str, Row] = {
    "aten.slice_copy.Tensor": Row(
        rules=(
            step_is_one,
            limits.slice_range,
            limits.sliced_dim,
            limits.sliced_dim_to_last,
            device_rank,
            same_qparams,
        ),
        lower=lowering.slice_,
        exported=Exported(Annotation.SHARED, ("aten.slice.Tensor",), has_own_name=False),
        keeps_format=True,
    ),
    "aten.cat.default": Row(
        rules=(limits.cat_min_inputs, limits.cat_channels, device_rank, all_same_qparams),
        stage=(dim_before_axis,),
        lower=lowering.cat,
        keeps_format=True,
        newer={"1.4": {"rules": (limits.cat_min_inputs, device_rank, all_same_qparams), "stage": ()}},
    ),
    "aten.constant_pad_nd.default": Row(
        rules=(limits.padded_dims, limits.pad_amounts, limits.pad_value, output_rank_at_most(5), same_qparams),
        lower=lowering.constant_pad,
        exported=Exported(Annotation.SHARED, ("aten.pad.default",)),
        keeps_format=True,
    ),
}
