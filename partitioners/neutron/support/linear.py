"""Rules of matrix products."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.exir.layout import arranged, to_channels_last
from npu_assay.partitioners.exir.nodes import operand, shape, size_text
from npu_assay.partitioners.exir.qdq import input_qparams
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.neutron.formats import is_trivial_transposition
from npu_assay.partitioners.neutron.support.rule import Context


@rule("matrix_dims_multiple_of")
def matrix_dims(node: fx.Node, context: Context) -> str | None:
    """rows and columns of both matrices must be multiples of the number of MAC units"""
    sizes = [shape(operand(node, position)) for position in (0, 1)]
    if all(size % context.macs == 0 for matrix in sizes for size in matrix[1:]):
        return None
    return " times ".join(size_text(matrix[1:]) for matrix in sizes) + f", {context.macs} MAC units"


@rule("equal_zero_points")
def equal_zero_points(node: fx.Node, context: Context) -> str | None:
    """both operands must have the same zero point"""
    found = [params.zero_point for position in (0, 1) if (params := input_qparams(node, position)) is not None]
    return None if len(set(found)) < 2 else f"zero points {found[0]} and {found[1]}"


@rule("transposition")
def matrix_format(node: fx.Node, context: Context) -> str | None:
    """this transposition is not one that the NPU can do"""
    a, b = map(context.is_channels_first, node.args[:2])
    if a and not b:
        return "only the first matrix is channels-first"
    if not context.is_channels_first(node):
        return None
    device = arranged(shape(node), to_channels_last(3))
    return None if is_trivial_transposition(device, (0, 2, 1)) else f"channels-first result {size_text(shape(node))}"
