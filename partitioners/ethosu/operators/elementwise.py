"""Arithmetic, comparisons, booleans and bits, of two tensors or a tensor and a number."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from npu_assay.partitioners.common.rules import argument_is
from npu_assay.partitioners.ethosu.lowering import elementwise as lowering
from npu_assay.partitioners.ethosu.lowering import logic
from npu_assay.partitioners.ethosu.lowering.tables import table_of_two
from npu_assay.partitioners.ethosu.operators.row import Annotation, Row, rows
from npu_assay.partitioners.ethosu.rewriting import elementwise as rewriting
from npu_assay.partitioners.ethosu.support import elementwise as limits
from npu_assay.partitioners.ethosu.support.common import integer_operands
from npu_assay.partitioners.ethosu.support.quantization import mixed_dtype
from npu_assay.partitioners.ethosu.support.rescale import compared, moved, product, sum_
from npu_assay.partitioners.ethosu.support.slopes import table_slope

aten = torch.ops.aten
FREE, ARITHMETIC = Annotation.FREE, Annotation.ARITHMETIC
_ON_CODES = (mixed_dtype, limits.no_plain_operand)
_SUM = (argument_is("alpha", 1, 1), *_ON_CODES)
_WITH_NUMBER = (limits.number_operand, *_ON_CODES)
_COMPARED = (limits.signed_operands, *_ON_CODES)
_LOGIC = {"and": "AND", "or": "OR", "xor": "XOR", "not": "NOT"}
ROWS: Mapping[str, Row] = {
    "aten.add.Tensor": Row(
        rules=_SUM,
        scalings=sum_,
        lower=lowering.sum_of("ADD"),
        annotation=ARITHMETIC,
        others="add_.Tensor",
        rewrite=rewriting.with_alpha(aten.add.Tensor),
        keeps_sign=True,
    ),
    "aten.sub.Tensor": Row(
        rules=_SUM,
        scalings=sum_,
        lower=lowering.sum_of("SUB"),
        annotation=ARITHMETIC,
        others="sub_.Tensor",
        rewrite=rewriting.with_alpha(aten.sub.Tensor),
    ),
    "aten.rsub.Scalar": Row(annotation=FREE, rewrite=rewriting.rsub),
    "aten.mul.Tensor": Row(
        rules=_ON_CODES,
        scalings=product,
        lower=lowering.mul,
        annotation=ARITHMETIC,
        others="mul_.Tensor",
        rewrite=rewriting.product,
        keeps_sign=True,
    ),
    "aten.div.Tensor": Row(annotation=FREE, rewrite=rewriting.quotient, others="div_.Tensor div.Scalar"),
    "aten.div.Tensor_mode": Row(
        rules=_WITH_NUMBER, lower=table_of_two, annotation=FREE, rewrite=rewriting.rounded_quotient
    ),
    "aten.floor_divide.default": Row(annotation=FREE, rewrite=rewriting.floor_quotient),
    "aten.remainder.Tensor": Row(rules=_WITH_NUMBER, lower=table_of_two, annotation=FREE, rewrite=rewriting.remainder),
    "aten.pow.Tensor_Tensor": Row(rules=(*_WITH_NUMBER, table_slope), lower=table_of_two),
    "aten.abs.default": Row(
        rules=(mixed_dtype,), scalings=compared, lower=lowering.absolute, annotation=FREE, is_unsigned=True
    ),
    "aten.neg.default": Row(rules=(mixed_dtype,), scalings=moved, lower=lowering.negative, annotation=FREE),
    **{
        f"aten.{name}.default": Row(
            rules=_ON_CODES, scalings=compared, lower=lowering.extremum(code), annotation=FREE, keeps_sign=True
        )
        for name, code in (("maximum", "MAXIMUM"), ("minimum", "MINIMUM"))
    },
    **rows(
        "eq.Tensor ge.Tensor gt.Tensor le.Tensor lt.Tensor",
        Row(rules=_COMPARED, on_u55=False, scalings=compared, lower=logic.compare, annotation=Annotation.COMPARISON),
    ),
    **rows(
        "ge.Scalar gt.Scalar le.Scalar lt.Scalar",
        Row(
            rules=_COMPARED, on_u55=False, lower=logic.compare_scalar, annotation=FREE, rewrite=rewriting.compare_number
        ),
    ),
    "aten.eq.Scalar": Row(
        rules=(limits.signed_operands, limits.whole_number, mixed_dtype),
        on_u55=False,
        lower=logic.compare_scalar,
        annotation=FREE,
        rewrite=rewriting.compare_number,
    ),
    "aten.ne.Tensor": Row(lower=logic.compare, annotation=Annotation.COMPARISON, rewrite=rewriting.not_equal),
    "aten.ne.Scalar": Row(lower=logic.compare_scalar, annotation=FREE, rewrite=rewriting.compare_number),
    **{
        f"aten.logical_{name}.default": Row(
            rules=(limits.signed_operands, integer_operands), on_u55=False, lower=logic.logical(f"LOGICAL_{code}")
        )
        for name, code in _LOGIC.items()
    },
    **{
        f"aten.bitwise_{name}.{kind}": Row(rules=(integer_operands,), on_u55=False, lower=logic.bitwise(code))
        for name, code in _LOGIC.items()
        for kind in (("default",) if name == "not" else ("Tensor", "Scalar"))
    },
    **rows("__lshift__.Scalar bitwise_left_shift.Tensor", Row(rules=(integer_operands,), lower=logic.shift_left)),
    **rows("__rshift__.Scalar bitwise_right_shift.Tensor", Row(rules=(integer_operands,), lower=logic.shift_right)),
}
