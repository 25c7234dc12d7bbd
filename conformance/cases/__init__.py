"""The cases of a table: every row, every constraint, both sides of every limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from conformance.cases import (
    arithmetic,
    cat,
    conv,
    elementwise,
    image,
    matrix,
    pad,
    permute,
    pool,
    shape,
    slices,
    softmax,
    transposed,
)
from conformance.cases.baseline import BASELINES, baseline
from conformance.cases.make import OPERATOR, SUBJECT, Draft
from conformance.cases.shared import sizes
from conformance.graph import Case
from conformance.table import Row, Table


def _convolutions() -> list[Draft]:
    return [*conv.convolution_cases(), *transposed.transposed_cases()]


# What a row's cases come from, beside its baseline.
FAMILIES: Mapping[str, Callable[[], list[Draft]]] = {
    "aten.abs.default": elementwise.abs_cases,
    "aten._adaptive_avg_pool2d.default": image.adaptive_cases,
    "aten.addmm.default": matrix.addmm_cases,
    "aten.add.Tensor": arithmetic.add_cases,
    "aten.avg_pool1d.default": pool.avg_pool1d_cases,
    "aten.avg_pool2d.default": pool.avg_pool2d_cases,
    "aten.bmm.default": matrix.bmm_cases,
    "aten.cat.default": cat.cat_cases,
    "aten.clamp.default": elementwise.clamp_cases,
    "aten.clone.default": shape.clone_cases,
    "aten.constant_pad_nd.default": pad.pad_cases,
    "aten.convolution.default": _convolutions,
    "aten.dim_order_ops._clone_dim_order.default": shape.dim_order_cases,
    "aten.div.Tensor": arithmetic.div_cases,
    "aten.hardtanh.default": elementwise.hardtanh_cases,
    "aten.leaky_relu.default": elementwise.leaky_relu_cases,
    "aten.max_pool1d.default": pool.max_pool1d_cases,
    "aten.max_pool2d.default": partial(pool.max_pool2d_cases, pool.MAX2),
    "aten.max_pool2d_with_indices.default": pool.max_pool2d_with_indices_cases,
    "aten.mean.dim": image.mean_cases,
    "aten.mul.Tensor": arithmetic.mul_cases,
    "aten.mm.default": matrix.mm_cases,
    "aten.neg.default": elementwise.neg_cases,
    "aten.permute_copy.default": permute.permute_cases,
    "aten.prelu.default": elementwise.prelu_cases,
    "aten.relu.default": elementwise.relu_cases,
    "aten.sigmoid.default": elementwise.sigmoid_cases,
    "aten.slice_copy.Tensor": slices.slice_cases,
    "aten._softmax.default": softmax.softmax_cases,
    "aten.split.default": partial(slices.split_cases, "aten.split.default"),
    "aten.split.Tensor": partial(slices.split_cases, "aten.split.Tensor"),
    "aten.split_with_sizes.default": partial(slices.split_cases, "aten.split_with_sizes.default"),
    "aten.squeeze.default": partial(shape.squeeze_cases, "aten.squeeze.default"),
    "aten.squeeze.dim": partial(shape.squeeze_cases, "aten.squeeze.dim"),
    "aten.squeeze.dims": partial(shape.squeeze_cases, "aten.squeeze.dims"),
    "aten.tanh.default": elementwise.tanh_cases,
    "aten.unsqueeze.default": shape.unsqueeze_cases,
    "aten.upsample_bilinear2d.vec": partial(image.upsample_cases, "aten.upsample_bilinear2d.vec"),
    "aten.upsample_nearest2d.vec": partial(image.upsample_cases, "aten.upsample_nearest2d.vec"),
    "aten.view_copy.default": shape.view_cases,
}


def cases_for(table: Table) -> tuple[Case, ...]:
    """Every case of a table, row by row.

    Raises KeyError for a row without cases, ValueError for two cases of one id.
    """
    cases = tuple(_case(row, draft) for row in table.rows for draft in _drafts(row))
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise ValueError(f"two cases are called {case.id!r}")
        seen.add(case.id)
    return cases


def _drafts(row: Row) -> list[Draft]:
    u, front = BASELINES[row.name]
    return [Draft(OPERATOR, "accept", "baseline", baseline(row.name)), *sizes(u, front), *FAMILIES[row.name]()]


def _case(row: Row, draft: Draft) -> Case:
    reason = draft.constraint if draft.expect == "reject" else None
    name = f"{row.name}/{draft.constraint}/{draft.side}/{draft.variant}"
    return Case(name, row.name, draft.constraint, draft.side, draft.expect, reason, draft.graph, SUBJECT)
