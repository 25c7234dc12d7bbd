"""Which numbers are never negative, whatever the inputs of the program are."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.common.rules import bounds
from npu_assay.partitioners.ethosu.support.common import is_named
from npu_assay.partitioners.ethosu.support.rule import Context
from npu_assay.partitioners.exir.nodes import operand
from npu_assay.partitioners.exir.qdq import is_dequantize, is_qdq, qparams


def is_never_negative(node: fx.Node, context: Context) -> bool:
    """Whether the operators before a node rule negative numbers out; False when they do not say."""
    return _judged(node, context, {})


def _judged(node: fx.Node, context: Context, known: dict[fx.Node, bool]) -> bool:
    if node not in known:
        known[node] = _judge(node, context, known)
    return known[node]


def _judge(node: fx.Node, context: Context, known: dict[fx.Node, bool]) -> bool:
    if is_dequantize(node) and context.is_constant(node):
        return _is_constant_unsigned(node, context)
    traits = context.traits(node)
    if traits.is_unsigned or (traits.limits and bounds(node)[0] >= 0):
        return True
    if is_named(node, "aten.mul.Tensor") and operand(node, 0) is not None and _source(node, 0) is _source(node, 1):
        return True
    follows = is_qdq(node) or traits.moves or traits.keeps_sign
    return follows and all(_judged(source, context, known) for source in node.all_input_nodes)


def _is_constant_unsigned(node: fx.Node, context: Context) -> bool:
    data, params = context.data(node.all_input_nodes[0]), qparams(node)
    return data is not None and params is not None and bool((data >= params.zero_point).all())


def _source(node: fx.Node, position: int) -> fx.Node | None:
    """An operand; before its dequantize node, of which every user has its own."""
    found = operand(node, position)
    return found.all_input_nodes[0] if found is not None and is_dequantize(found) else found
