"""Arithmetic on one tensor or two."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.common.rules import argument_is
from npu_assay.partitioners.neutron.lowering import elementwise as lowering
from npu_assay.partitioners.neutron.operators.row import Annotation, Exported, Row
from npu_assay.partitioners.neutron.support import rescale
from npu_assay.partitioners.neutron.support.common import device_rank
from npu_assay.partitioners.neutron.support.elementwise import any_dim_multiple, same_shape

ROWS: Mapping[str, Row] = {
    "aten.abs.default": Row(
        rules=(device_rank,),
        problem=rescale.unary,
        lower=lowering.abs_,
        exported=Exported(Annotation.SHARED),
        keeps_format=True,
    ),
    "aten.neg.default": Row(
        rules=(device_rank,),
        problem=rescale.sum_,  # computed as zero point - x, so it is limited like a sum
        lower=lowering.neg,
        exported=Exported(Annotation.SHARED),
        keeps_format=True,
    ),
    "aten.add.Tensor": Row(
        rules=(argument_is("alpha", 1, 1), same_shape, device_rank),
        problem=rescale.sum_,
        lower=lowering.add,
        exported=Exported(Annotation.FREE, ("aten.add_.Tensor",)),
        keeps_format=True,
    ),
    "aten.sub.Tensor": Row(lower=lowering.sub),
    "aten.mul.Tensor": Row(
        rules=(same_shape, any_dim_multiple, device_rank),
        problem=rescale.product,
        lower=lowering.mul,
        exported=Exported(Annotation.FREE),
        keeps_format=True,
    ),
}
