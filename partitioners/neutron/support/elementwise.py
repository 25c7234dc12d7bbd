"""Rules of arithmetic between tensors."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.exir.nodes import operand, shape, size_text
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.neutron.support.rule import Context


@rule("same_shape")
def same_shape(node: fx.Node, context: Context) -> str | None:
    """all tensor operands must have the same shape: no broadcasting"""
    a, b = operand(node), operand(node, 1)
    if b is None:
        return f"operands {', '.join(str(argument) for argument in node.args[:2])}"
    return None if shape(a) == shape(b) else f"{size_text(shape(a))} and {size_text(shape(b))}"


@rule("broadcast")
def one_whole_operand(node: fx.Node, context: Context) -> str | None:
    """both operands must have dimensions, and one of them those of the result"""
    a, b = operand(node), operand(node, 1)
    if a is None or b is None or () in (shape(a), shape(b)):
        return f"operands {', '.join(str(argument) for argument in node.args[:2])}"
    if shape(node) in (shape(a), shape(b)):
        return None
    return f"{size_text(shape(a))} and {size_text(shape(b))} make {size_text(shape(node))}"


@rule("any_dim_multiple_of")
def any_dim_multiple(node: fx.Node, context: Context) -> str | None:
    """some output dimension must be a multiple of the number of MAC units, or all must be 1"""
    sizes = shape(node)
    if all(size == 1 for size in sizes) or any(size % context.macs == 0 for size in sizes):
        return None
    return f"{size_text(sizes)}, {context.macs} MAC units"
