"""Pools, the mean over height and width, and resizing."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.common.rules import argument_is, rank_is
from npu_assay.partitioners.neutron.lowering import pooling as lowering
from npu_assay.partitioners.neutron.lowering import reduction, resize
from npu_assay.partitioners.neutron.operators.row import Annotation, Exported, Row
from npu_assay.partitioners.neutron.support import pooling as limits
from npu_assay.partitioners.neutron.support import rescale
from npu_assay.partitioners.neutron.support.common import input_rank_at_most, same_qparams, second_dim_multiple
from npu_assay.partitioners.neutron.support.convolution import batch_is_one
from npu_assay.partitioners.neutron.support.slicing import axis_scale, resize_scale

_RESIZED = (second_dim_multiple, resize_scale, same_qparams)
_EACH_WAY = {"1.4": {"rules": (axis_scale, same_qparams)}}
ROWS: Mapping[str, Row] = {
    "aten._adaptive_avg_pool2d.default": Row(
        rules=(rank_is(4), limits.output_divides_input, same_qparams),
        lower=lowering.adaptive_avg_pool2d,
        exported=Exported(Annotation.SHARED, ("aten.adaptive_avg_pool2d.default",), has_own_name=False),
        channels_first=(0,),
    ),
    "aten.avg_pool2d.default": Row(
        rules=(
            rank_is(4),
            argument_is("ceil_mode", False, False, 4),
            limits.count_include_pad,
            limits.divisor_override,
            same_qparams,
        ),
        lower=lowering.avg_pool2d,
        exported=Exported(Annotation.SHARED, ("aten.avg_pool1d.default",)),
        channels_first=(0,),
    ),
    "aten.max_pool2d.default": Row(
        lower=lowering.max_pool2d,
        exported=Exported(Annotation.SHARED, ("aten.max_pool1d.default",)),
        channels_first=(0,),
    ),
    "aten.max_pool2d_with_indices.default": Row(
        rules=(
            rank_is(4),
            limits.dilation_is_one,
            argument_is("ceil_mode", False, False, 5),
            second_dim_multiple,
            batch_is_one,
            limits.stride_h,
            limits.indices_unused,
            same_qparams,
        ),
        lower=lowering.max_pool2d,
        channels_first=(0,),
        newer={
            "1.4": {
                "rules": (
                    rank_is(4),
                    limits.dilation_is_one,
                    argument_is("ceil_mode", False, False, 5),
                    limits.stride_limit,
                    limits.indices_unused,
                    same_qparams,
                )
            }
        },
    ),
    "aten.mean.dim": Row(
        rules=(rank_is(4), limits.mean_dims, argument_is("keepdim", True, False, 2), second_dim_multiple, same_qparams),
        problem=rescale.mean,
        lower=reduction.reduced("MEAN"),
        exported=Exported(Annotation.SHARED),
        keeps_format=True,
        newer={"1.4": {"rules": (rank_is(4), same_qparams)}},
    ),
    "aten.sum.dim_IntList": Row(
        rules=(input_rank_at_most(8),),
        problem=rescale.total,
        lower=reduction.reduced("SUM"),
        exported=Exported(Annotation.FREE),
        keeps_format=True,
        since="1.4",
    ),
    "aten.amax.default": Row(
        rules=(input_rank_at_most(8), same_qparams),
        lower=reduction.reduced("REDUCE_MAX"),
        exported=Exported(Annotation.SHARED),
        keeps_format=True,
        since="1.4",
    ),
    "aten.amin.default": Row(
        rules=(input_rank_at_most(8), same_qparams),
        lower=reduction.reduced("REDUCE_MIN"),
        exported=Exported(Annotation.SHARED),
        keeps_format=True,
        since="1.4",
    ),
    "aten.upsample_bilinear2d.vec": Row(
        rules=_RESIZED,
        lower=resize.resize_bilinear,
        exported=Exported(Annotation.SHARED),
        channels_first=(0,),
        newer=_EACH_WAY,
    ),
    "aten.upsample_nearest2d.vec": Row(
        rules=_RESIZED,
        lower=resize.resize_nearest,
        exported=Exported(Annotation.SHARED),
        channels_first=(0,),
        newer=_EACH_WAY,
    ),
}
