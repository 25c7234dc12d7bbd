"""Sums, means and extremes over dimensions, norms, and softmax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from npu_assay.partitioners.common.rules import argument_is
from npu_assay.partitioners.ethosu.lowering import reduction as lowering
from npu_assay.partitioners.ethosu.operators.row import Annotation, Row, picking, rows
from npu_assay.partitioners.ethosu.rewriting import reduction as rewriting
from npu_assay.partitioners.ethosu.support import reduction as limits
from npu_assay.partitioners.ethosu.support.common import along_dims, code_dtype, integer_operands, no_truths
from npu_assay.partitioners.ethosu.support.rescale import mean, total

FREE, POOL = Annotation.FREE, Annotation.POOL
_ALONG = (along_dims,)


def _extreme(code: str, others: str) -> Row:
    own = picking(lowering.extreme(code), code_dtype(torch.int8, torch.int16), others=others)
    return replace(own, first=(no_truths, along_dims), keeps_sign=True)


ROWS: Mapping[str, Row] = {
    "aten.sum.dim_IntList": Row(
        first=_ALONG,
        rules=(limits.reduced_size, limits.output_dtype),
        scalings=total,
        lower=lowering.sum_,
        keeps_sign=True,
        annotation=FREE,
        others="sum",
    ),
    "aten.mean.dim": Row(
        first=_ALONG,
        rules=(limits.reduced_size, limits.output_dtype),
        scalings=mean,
        lower=lowering.mean,
        keeps_sign=True,
        annotation=POOL,
        others="mean",
        rewrite=rewriting.mean,
    ),
    "aten.cumsum.default": Row(
        first=_ALONG,
        rules=(limits.summed_size, limits.output_dtype),
        scalings=total,
        lower=lowering.cumsum,
        needs_codes=True,
        annotation=FREE,
        keeps_sign=True,
    ),
    "aten.amax.default": _extreme("REDUCE_MAX", "max.dim"),
    "aten.amin.default": _extreme("REDUCE_MIN", "min.dim"),
    **rows("any any.dim any.dims", Row(first=_ALONG, rules=(integer_operands,), on_u55=False, lower=lowering.any_)),
    "aten.argmax.default": Row(
        first=_ALONG,
        rules=(
            limits.int32_indices,
            limits.one_dim,
            argument_is("keepdim", False, False, 2),
            limits.raw_codes,
            limits.narrow_codes,
            limits.few_choices,
            limits.argmax_rank,
            limits.argmax_batch,
            limits.argmax_positions,
        ),
        lower=lowering.argmax,
    ),
    "aten.var.correction": Row(annotation=FREE, rewrite=rewriting.variance),
    "aten.var.dim": Row(annotation=FREE, rewrite=rewriting.unbiased_variance),
    "aten.layer_norm.default": Row(annotation=FREE, rewrite=rewriting.layer_norm),
    "aten.group_norm.default": Row(annotation=FREE, rewrite=rewriting.group_norm),
    "aten.batch_norm.default": Row(annotation=Annotation.NORM, rewrite=rewriting.batch_norm),
    "aten.softmax.int": Row(annotation=FREE, rewrite=rewriting.softmax, others="_softmax"),
    "aten.log_softmax.int": Row(annotation=FREE, rewrite=rewriting.log_softmax),
    "aten.linalg_vector_norm.default": Row(annotation=FREE, rewrite=rewriting.vector_norm),
    "aten.cosine_similarity.default": Row(annotation=FREE, rewrite=rewriting.cosine_similarity),
}
