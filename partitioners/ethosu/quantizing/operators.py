"""Which operators are quantised, and how: sets of ATen operators, before their rewriting and after it."""

from __future__ import annotations

import operator
from collections.abc import Mapping

import torch

from npu_assay.partitioners.ethosu.operators.row import Annotation

aten = torch.ops.aten


def _overloads(text: str) -> frozenset[object]:
    """The operators of a text of `name` (overload `default`) and `name.overload`."""
    found = set[object]()
    for word in text.split():
        name, _, overload = word.partition(".")
        found.add(getattr(getattr(aten, name), overload or "default"))
    return frozenset(found)


CONVOLUTIONS = _overloads("conv1d conv1d.padding conv2d conv2d.padding conv3d conv3d.padding conv_transpose2d.input")
PRODUCTS = CONVOLUTIONS | _overloads("linear")
"""Operators with stored weights and biases."""
NORMS = _overloads("batch_norm")
ACTIVATIONS = _overloads("relu relu_ hardtanh hardtanh_")
"""What can be part of a product."""
HARDTANH = _overloads("hardtanh hardtanh_")
ARITHMETIC = _overloads("add.Tensor add_.Tensor sub.Tensor sub_.Tensor mul.Tensor mul_.Tensor matmul mm bmm")
"""Quantised when all operands are real numbers."""
COMPARISONS = _overloads("eq.Tensor ne.Tensor ge.Tensor gt.Tensor le.Tensor lt.Tensor")
"""The second operand has the parameters of the first."""
POOLS = _overloads("mean mean.dim")
"""The result has the parameters of the first operand."""
CASTS = _overloads("to.dtype")

TAKEN_APART = _overloads(
    "_softmax addmm baddbmm celu cosine_similarity div.Scalar div.Tensor div.Tensor_mode div_.Tensor einsum embedding "
    "floor_divide glu group_norm layer_norm linalg_vector_norm log_softmax.int logit prelu relu6 remainder.Tensor "
    "gru.input gru_cell lstm.input lstm_cell rnn_relu.input rnn_relu_cell rnn_tanh.input rnn_tanh_cell "
    "rsub.Scalar scaled_dot_product_attention selu sign softmax.int sqrt var.correction var.dim"
)
"""Operators that only exist before the rewriting."""
COMPUTED = _overloads(
    "abs acos acosh asin asinh atan atanh ceil cos cosh cumsum elu erf erfinv exp expm1 eye fill_.Scalar floor full "
    "full_like gelu hardsigmoid hardswish hardswish_ leaky_relu leaky_relu_ linspace log log10 log1p maximum minimum "
    "neg ones pow.Tensor_Scalar reciprocal remainder.Scalar round rsqrt scalar_tensor sigmoid silu silu_ sin sinh "
    "sum sum.dim_IntList tan tanh zeros zeros_like arange.start_step eq.Scalar ne.Scalar ge.Scalar gt.Scalar le.Scalar "
    "lt.Scalar moveaxis.int moveaxis.intlist movedim.int movedim.intlist"
)
"""Operators with parameters of their own for operands and result."""
SHARING = _overloads(
    "clone lift_fresh_copy detach_ alias alias_copy copy_ detach_copy unfold_copy unbind.int min.dim max.dim amin amax "
    "permute permute_copy transpose.int transpose_copy.int t t_copy repeat repeat_interleave.self_int expand "
    "expand_copy select.int select_copy.int slice.Tensor slice_copy.Tensor split.Tensor split_with_sizes "
    "split_copy.Tensor tile flip index_select index_put index_put_ index_copy index_copy_ contiguous as_strided_copy "
    "pixel_shuffle pixel_unshuffle cat concat concatenate stack dropout dropout_ chunk index.Tensor gather squeeze "
    "squeeze_copy squeeze_copy.dim squeeze.dim squeeze.dims squeeze_.dim unsqueeze unsqueeze_copy reshape view view_as "
    "view_copy _unsafe_view unflatten.int flatten.using_ints pad constant_pad_nd clamp clamp.Tensor hardtanh hardtanh_ "
    "relu relu_ where.self where"
) | {operator.getitem}
"""Operators that pick, move, clamp and compare: connected ones have one set of parameters."""
KINDS: Mapping[object, Annotation] = {
    **dict.fromkeys(PRODUCTS, Annotation.PRODUCT),
    **dict.fromkeys(NORMS, Annotation.NORM),
    **dict.fromkeys(ARITHMETIC, Annotation.ARITHMETIC),
    **dict.fromkeys(COMPARISONS, Annotation.COMPARISON),
    **dict.fromkeys(POOLS, Annotation.POOL),
    **dict.fromkeys(CASTS, Annotation.CAST),
    **dict.fromkeys(TAKEN_APART | COMPUTED, Annotation.FREE),
    **dict.fromkeys(SHARING, Annotation.SHARED),
    **dict.fromkeys((aten.full.default, aten.fill_.Scalar), Annotation.FILLED),
}
