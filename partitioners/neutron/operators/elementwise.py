"""Arithmetic on one tensor or two."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.common.rules import argument_is
from npu_assay.partitioners.neutron.lowering import elementwise as lowering
from npu_assay.partitioners.neutron.operators.row import Annotation, Exported, Row
from npu_assay.partitioners.neutron.support import rescale
from npu_assay.partitioners.neutron.support.common import all_same_qparams, device_rank
from npu_assay.partitioners.neutron.support.elementwise import any_dim_multiple, one_whole_operand, same_shape

_SUM = (argument_is("alpha", 1, 1), one_whole_operand, device_rank)
_PICKED = (one_whole_operand, device_rank, all_same_qparams)
ROWS: Mapping[str, Row] = {
    "aten.abs.default": Row(
        rules=(device_rank,),
        problem=rescale.unary,
        lower=lowering.unary("ABS"),
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
        lower=lowering.binary("ADD"),
        exported=Exported(Annotation.FREE, ("aten.add_.Tensor",)),
        keeps_format=True,
        newer={"1.4": {"rules": _SUM}},
    ),
    "aten.sub.Tensor": Row(
        rules=_SUM,
        problem=rescale.sum_,
        lower=lowering.binary("SUB"),
        exported=Exported(Annotation.FREE, ("aten.sub_.Tensor",)),
        keeps_format=True,
        since="1.4",
    ),
    "aten.maximum.default": Row(
        rules=_PICKED,
        lower=lowering.binary("MAXIMUM"),
        exported=Exported(Annotation.TIED),
        keeps_format=True,
        since="1.4",
    ),
    "aten.minimum.default": Row(
        rules=_PICKED,
        lower=lowering.binary("MINIMUM"),
        exported=Exported(Annotation.TIED),
        keeps_format=True,
        since="1.4",
    ),
    "aten.exp.default": Row(
        rules=(device_rank,),
        problem=rescale.exponential,
        lower=lowering.unary("EXP"),
        exported=Exported(Annotation.FREE),
        keeps_format=True,
        since="1.4",
    ),
    "aten.log.default": Row(
        rules=(device_rank,),
        lower=lowering.unary("LOG"),
        exported=Exported(Annotation.FREE),
        keeps_format=True,
        since="1.4",
    ),
    "aten.mul.Tensor": Row(
        rules=(same_shape, any_dim_multiple, device_rank),
        problem=rescale.product,
        lower=lowering.binary("MUL"),
        exported=Exported(Annotation.FREE),
        keeps_format=True,
        newer={"1.4": {"rules": (one_whole_operand, device_rank)}},
    ),
}
