"""Which numbers are never negative, whatever the inputs of the program are."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.ethosu.support.common import is_named
from npu_assay.partitioners.ethosu.support.rule import Context
from npu_assay.partitioners.exir.nodes import argument, operand
from npu_assay.partitioners.exir.ops import GETITEM, target_name
from npu_assay.partitioners.exir.qdq import is_dequantize, is_qdq, qparams

UNSIGNED = frozenset(f"aten.{name}.default" for name in ("abs", "cosh", "exp", "hardsigmoid", "relu", "sigmoid"))
"""Operators that give nothing negative. Their smallest result is 0 or more in codes, too: 0 has a code."""
KEEPING = frozenset(
    f"aten.{name}"
    for name in (
        "add.Tensor", "mul.Tensor", "maximum.default", "minimum.default", "amax.default", "amin.default",
        "sum.dim_IntList", "mean.dim", "cumsum.default", "max_pool2d_with_indices.default", "cat.default",
        "expand_copy.default", "repeat.default", "permute_copy.default", "view_copy.default", "slice_copy.Tensor",
        "select_copy.int", "squeeze_copy.dims", "unsqueeze_copy.default", "alias_copy.default", "detach_copy.default",
    )
) | {"dim_order_ops._clone_dim_order.default", GETITEM}  # fmt: skip
"""Operators that give nothing negative of operands that are not."""


def is_never_negative(node: fx.Node, context: Context) -> bool:
    """Whether the operators in front of a node rule negative numbers out; False when they do not say."""
    return _judged(node, context, {})


def _judged(node: fx.Node, context: Context, known: dict[fx.Node, bool]) -> bool:
    if node not in known:
        known[node] = _judge(node, context, known)
    return known[node]


def _judge(node: fx.Node, context: Context, known: dict[fx.Node, bool]) -> bool:
    if is_dequantize(node) and context.is_constant(node):
        return _is_constant_unsigned(node, context)
    if node.op != "call_function" or target_name(node.target) in UNSIGNED:
        return node.op == "call_function"
    if is_named(node, "aten.hardtanh.default", "aten.clamp.default"):
        low = argument(node, 1, "min_val" if is_named(node, "aten.hardtanh.default") else "min")
        return low is not None and low >= 0
    if is_named(node, "aten.mul.Tensor") and operand(node, 0) is not None and _source(node, 0) is _source(node, 1):
        return True
    follows = is_qdq(node) or target_name(node.target) in KEEPING
    return follows and all(_judged(source, context, known) for source in node.all_input_nodes)


def _is_constant_unsigned(node: fx.Node, context: Context) -> bool:
    data, params = context.data(node.all_input_nodes[0]), qparams(node)
    return data is not None and params is not None and bool((data >= params.zero_point).all())


def _source(node: fx.Node, position: int) -> fx.Node | None:
    """An operand; in front of its dequantize node, of which every user has its own."""
    found = operand(node, position)
    return found.all_input_nodes[0] if found is not None and is_dequantize(found) else found
