"""Functions of one number, looked up in tables, and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from npu_assay.partitioners.ethosu.lowering import elementwise as lowering
from npu_assay.partitioners.ethosu.lowering.tables import table
from npu_assay.partitioners.ethosu.operators.row import Annotation, Kept, Row, picking, rows
from npu_assay.partitioners.ethosu.rewriting import activation as rewriting
from npu_assay.partitioners.ethosu.support import elementwise as limits
from npu_assay.partitioners.ethosu.support.quantization import mixed_dtype
from npu_assay.partitioners.ethosu.support.rescale import compared
from npu_assay.partitioners.ethosu.support.rule import Rule
from npu_assay.partitioners.ethosu.support.slopes import table_slope

FREE = Annotation.FREE


def _table(*further: Rule, **rest: Any) -> Row:
    return Row((mixed_dtype, limits.looked_up, *further), lower=table, annotation=FREE, **rest)


ROWS: Mapping[str, Row] = {
    "aten.relu.default": replace(
        picking(lowering.clamp, others="relu_"), limits=True, is_activation=True, is_unsigned=True
    ),
    "aten.hardtanh.default": replace(picking(lowering.clamp, others="hardtanh_"), limits=True, is_activation=True),
    "aten.clamp.default": replace(picking(lowering.clamp, limits.some_bound), limits=True),
    "aten.clamp.Tensor": Row(
        rules=(limits.some_bound,), scalings=compared, lower=lowering.clamp_tensor, annotation=Annotation.SHARED
    ),
    "aten.relu6.default": Row(annotation=FREE, rewrite=rewriting.relu6),
    "aten.prelu.default": Row(annotation=FREE, rewrite=rewriting.prelu),
    **rows(
        "acosh asinh atan ceil elu erf erfinv expm1 floor gelu log1p remainder.Scalar round rsqrt sinh tanh", _table()
    ),
    # Others pass through 0 at code 0; these can go from one end to the other between two entries.
    **rows("cos log log10 pow.Tensor_Scalar reciprocal sin tan", _table(table_slope)),
    **rows("acos asin", _table(domain=(1.0, 1.0))),
    "aten.atanh.default": _table(domain=(0.999, 0.99999)),
    **rows("cosh exp sigmoid", _table(is_unsigned=True)),
    "aten.hardsigmoid.default": _table(is_unsigned=True, kept=Kept.QUANTIZED),
    "aten.hardswish.default": _table(others="hardswish_", kept=Kept.QUANTIZED),
    "aten.leaky_relu.default": _table(others="leaky_relu_"),
    "aten.silu.default": _table(others="silu_", kept=Kept.QUANTIZED | Kept.INTEGER),
    "aten.celu.default": _table(rewrite=rewriting.celu, kept=Kept.NEVER),
    "aten.selu.default": _table(rewrite=rewriting.selu, kept=Kept.NEVER),
    "aten.sign.default": _table(rewrite=rewriting.sign),
    "aten.sqrt.default": Row(annotation=FREE, rewrite=rewriting.root),
    "aten.logit.default": Row(annotation=FREE, rewrite=rewriting.logit, kept=Kept.ALWAYS),
}
