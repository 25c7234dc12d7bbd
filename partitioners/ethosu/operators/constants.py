"""Operators that give the numbers that the program names."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.ethosu.lowering import layout as lowering
from npu_assay.partitioners.ethosu.operators.row import Annotation, Kept, Row, rows

FREE = Annotation.FREE
ROWS: Mapping[str, Row] = {
    "aten.full.default": Row(
        rules=(), lower=lowering.full, annotation=Annotation.FILLED, others="fill_.Scalar", is_constant=True
    ),
    "aten.full_like.default": Row(rules=(), lower=lowering.full_like, annotation=FREE, is_constant=True),
    **rows("arange.start_step scalar_tensor", Row(rules=(), lower=lowering.full, annotation=FREE, is_constant=True)),
    **rows(
        "eye linspace",
        Row(rules=(), lower=lowering.full, annotation=FREE, is_constant=True, kept=Kept.QUANTIZED | Kept.INTEGER),
    ),
    **rows("ones zeros zeros_like", Row(annotation=FREE)),
}
