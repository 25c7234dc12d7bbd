"""Which operators are quantised, and how: sets of ATen operators, before their rewriting and after it."""

from __future__ import annotations

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


ACTIVATIONS = _overloads("relu relu_ hardtanh hardtanh_")
"""What can be part of a product."""
HARDTANH = _overloads("hardtanh hardtanh_")
ARITHMETIC = _overloads("add.Tensor add_.Tensor sub.Tensor sub_.Tensor mul.Tensor mul_.Tensor ")
"""Quantised when all operands are real numbers."""
COMPARISONS = _overloads("eq.Tensor ne.Tensor ge.Tensor gt.Tensor le.Tensor lt.Tensor")
"""The second operand has the parameters of the first."""

TAKEN_APART = _overloads(
    "celu div.Scalar div.Tensor div.Tensor_mode div_.Tensor "
    "floor_divide logit prelu relu6 remainder.Tensor "
    "gru.input gru_cell lstm.input lstm_cell rnn_relu.input rnn_relu_cell rnn_tanh.input rnn_tanh_cell "
    "rsub.Scalar selu sign sqrt "
)
"""Operators that only exist before the rewriting."""
COMPUTED = _overloads(
    "abs acos acosh asin asinh atan atanh ceil cos cosh elu erf erfinv exp expm1 eye fill_.Scalar floor full "
    "full_like gelu hardsigmoid hardswish hardswish_ leaky_relu leaky_relu_ linspace log log10 log1p maximum minimum "
    "neg ones pow.Tensor_Scalar reciprocal remainder.Scalar round rsqrt scalar_tensor sigmoid silu silu_ sin sinh "
    "tan tanh zeros zeros_like arange.start_step eq.Scalar ne.Scalar ge.Scalar gt.Scalar le.Scalar "
    "lt.Scalar "
)
"""Operators with parameters of their own for operands and result."""
SHARING = _overloads("clamp clamp.Tensor hardtanh hardtanh_ relu relu_")
"""Operators that pick, move, clamp and compare: connected ones have one set of parameters."""
KINDS: Mapping[object, Annotation] = {
    **dict.fromkeys(ARITHMETIC, Annotation.ARITHMETIC),
    **dict.fromkeys(COMPARISONS, Annotation.COMPARISON),
    **dict.fromkeys(TAKEN_APART | COMPUTED, Annotation.FREE),
    **dict.fromkeys(SHARING, Annotation.SHARED),
    **dict.fromkeys((aten.full.default, aten.fill_.Scalar), Annotation.FILLED),
}
