"""Every operator that has a home, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from npu_assay.reference.operators.activation import ACTIVATION
from npu_assay.reference.operators.comparison import COMPARISON
from npu_assay.reference.operators.convolution import CONVOLUTION
from npu_assay.reference.operators.creation import CREATION
from npu_assay.reference.operators.elementwise import ELEMENTWISE
from npu_assay.reference.operators.home import (
    Call,
    Operand,
    Operator,
    X,
    alone,
    behind,
    call,
    indices,
    real,
    truths,
    weight,
)
from npu_assay.reference.operators.layout import LAYOUT
from npu_assay.reference.operators.linear import LINEAR
from npu_assay.reference.operators.normalization import NORMALIZATION
from npu_assay.reference.operators.padding import PADDING
from npu_assay.reference.operators.pooling import POOLING
from npu_assay.reference.operators.reduction import REDUCTION
from npu_assay.reference.operators.resize import RESIZE
from npu_assay.reference.operators.slicing import SLICING

__all__ = [
    "FAMILIES",
    "HOMES",
    "WITH_CASES",
    "Call",
    "Operand",
    "Operator",
    "X",
    "alone",
    "behind",
    "call",
    "indices",
    "real",
    "truths",
    "weight",
]

FAMILIES: Mapping[str, tuple[Operator, ...]] = MappingProxyType(
    {
        "activation": ACTIVATION,
        "comparison": COMPARISON,
        "convolution": CONVOLUTION,
        "creation": CREATION,
        "elementwise": ELEMENTWISE,
        "layout": LAYOUT,
        "linear": LINEAR,
        "normalization": NORMALIZATION,
        "padding": PADDING,
        "pooling": POOLING,
        "reduction": REDUCTION,
        "resize": RESIZE,
        "slicing": SLICING,
    }
)
"""The operators of each family."""

HOMES: Mapping[str, Operator] = MappingProxyType(
    {operator.name: operator for family in FAMILIES.values() for operator in family}
)
WITH_CASES: Mapping[str, Operator] = MappingProxyType(
    {name: operator for name, operator in HOMES.items() if operator.at is not None}
)
"""The operators whose cases are made from their homes."""

VIEWS: Mapping[str, str] = MappingProxyType(
    {
        "aten.alias.default": "aten.alias_copy.default",
        "aten.as_strided.default": "aten.as_strided_copy.default",
        "aten.detach.default": "aten.detach_copy.default",
        "aten.diagonal.default": "aten.diagonal_copy.default",
        "aten.expand.default": "aten.expand_copy.default",
        "aten.ones.default": "aten.full.default",
        "aten.permute.default": "aten.permute_copy.default",
        "aten.select.int": "aten.select_copy.int",
        "aten.slice.Tensor": "aten.slice_copy.Tensor",
        "aten.t.default": "aten.t_copy.default",
        "aten.transpose.int": "aten.transpose_copy.int",
        "aten.unfold.default": "aten.unfold_copy.default",
        "aten.view.default": "aten.view_copy.default",
        "aten.zeros.default": "aten.full.default",
        "aten._to_copy.default": "dim_order_ops._to_dim_order_copy.default",
    }
)
"""Operators that no edge program has, and what stands in their place there: a table may name either."""

ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "aten._adaptive_avg_pool2d_backward.default",
                "aten.avg_pool2d_backward.default",
                "aten.convolution_backward.default",
                "aten.embedding_dense_backward.default",
                "aten.max_pool2d_with_indices_backward.default",
                "aten.native_group_norm_backward.default",
                "aten.native_layer_norm_backward.default",
            ),
            "computes gradients, which no model in evaluation does",
        ),
        "aten._native_batch_norm_legit.default": "writes the running statistics, which no model in evaluation does",
        "aten.resize_.default": "resizes storage in place, which export makes functional or refuses",
        **dict.fromkeys(
            ("aten.rand.default", "aten.randn.default", "aten.randperm.default"),
            "its numbers are random, so nothing can be compared",
        ),
        **dict.fromkeys(
            ("aten.empty.memory_format", "aten.empty_strided.default"),
            "its numbers are whatever the memory held, so nothing can be compared",
        ),
        **dict.fromkeys(
            (
                "aten._local_scalar_dense.default",
                "aten.sym_is_contiguous.default",
                "aten.sym_numel.default",
                "aten.sym_size.int",
                "aten.sym_storage_offset.default",
                "aten.sym_stride.int",
            ),
            "its result is a number of the program's own, no tensor that a delegate could return",
        ),
        **dict.fromkeys(
            ("aten._fft_c2r.default", "aten._fft_r2c.default"),
            "complex numbers, which neither tables nor edge programs have a type for",
        ),
        "aten.nonzero.default": "the size of its result depends on the numbers, which no delegate's output may",
        "aten.atan2.out": "writes into an operand; edge programs have aten.atan2.default in its place",
    }
)
"""Operators of core ATen that have no home, and why."""
