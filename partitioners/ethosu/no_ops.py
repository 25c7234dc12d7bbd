"""Operators that vanish when a program is compiled: a delegate of nothing else would be empty."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.ethosu.support.common import is_qdq
from npu_assay.partitioners.exir.nodes import argument, non_negative, operand, rank, shape
from npu_assay.partitioners.exir.ops import target_name

ALWAYS = frozenset(
    {
        "aten.alias_copy.default",
        "aten.detach_copy.default",
        "aten.view_copy.default",
        "dim_order_ops._clone_dim_order.default",
    }
)
KEEPS_SHAPE = frozenset({"aten.as_strided_copy.default", "aten.expand_copy.default", "aten.squeeze_copy.dims"})


def is_no_op(node: fx.Node) -> bool:
    """Whether the node leaves nothing behind in the compiled program, conversions between codes included."""
    name = target_name(node.target)
    if name in ALWAYS or is_qdq(node):
        return True
    if name in KEEPS_SHAPE:
        return shape(node) == shape(operand(node))
    if name == "aten.flip.default":
        return not argument(node, 1, "dims")
    if name == "aten.permute_copy.default":
        dims = [non_negative(dim, rank(node)) for dim in argument(node, 1, "dims")]
        return dims == sorted(dims)
    return False
