"""Convolutions and matrix products."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.common.rules import argument_is, rank_is
from npu_assay.partitioners.neutron.lowering import matmul as lowering
from npu_assay.partitioners.neutron.lowering.convolution import convolution
from npu_assay.partitioners.neutron.operators.row import Annotation, Exported, Row
from npu_assay.partitioners.neutron.support import convolution as limits
from npu_assay.partitioners.neutron.support import linear, rescale
from npu_assay.partitioners.neutron.support.common import distinct_inputs
from npu_assay.partitioners.neutron.support.weights import static_bias, static_weights, weight_zero_point

ROWS: Mapping[str, Row] = {
    "aten.convolution.default": Row(
        rules=(
            limits.spatial_rank,
            static_weights,
            limits.groups,
            limits.batch_is_one,
            static_bias,
            limits.transposed,
        ),
        problem=rescale.weighted,
        lower=convolution,
        channels_first=(0, 1),
    ),
    "aten.addmm.default": Row(
        rules=(
            rank_is(2, position=1),
            distinct_inputs(3),
            argument_is("alpha", 1, 1),
            argument_is("beta", 1, 1),
            weight_zero_point,
            static_bias,
        ),
        problem=rescale.weighted,
        lower=lowering.addmm,
        keeps_format=True,
    ),
    "aten.mm.default": Row(
        rules=(rank_is(2), distinct_inputs(2), weight_zero_point),
        problem=rescale.weighted,
        lower=lowering.mm,
        exported=Exported(Annotation.FREE),
        keeps_format=True,
    ),
    "aten.bmm.default": Row(
        rules=(rank_is(3), linear.matrix_dims, distinct_inputs(2), linear.matrix_format),
        problem=rescale.bmm,
        lower=lowering.bmm,
        exported=Exported(Annotation.FREE, ("aten.matmul.default",)),
        keeps_format=True,
        newer={
            "1.4": {
                "rules": (rank_is(3), linear.equal_zero_points, distinct_inputs(2), linear.matrix_format),
                "exported": Exported(Annotation.SYMMETRIC, ("aten.matmul.default",)),
            }
        },
    ),
}
