"""When nothing of an operator is left in a compiled program: a delegate of nothing else would be empty."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.exir.nodes import argument, non_negative, operand, rank, shape, value


def always(node: fx.Node) -> bool:
    """The operator only renames its operand."""
    return True


def keeps_shape(node: fx.Node) -> bool:
    """The result has the operand's shape."""
    return shape(node) == shape(operand(node))


def keeps_memory(node: fx.Node) -> bool:
    """The result has the operand's shape, and its elements in the same places."""
    before, after = value(operand(node)), value(node)
    assert before is not None and after is not None  # tensors, by the operators' schemas
    return before.shape == after.shape and before.stride() == after.stride()


def reverses_nothing(node: fx.Node) -> bool:
    """A reversal along no dimension."""
    return not argument(node, 1, "dims")


def keeps_order(node: fx.Node) -> bool:
    """A permutation of dimensions that leaves them in their order."""
    dims = [non_negative(dim, rank(node)) for dim in argument(node, 1, "dims")]
    return dims == sorted(dims)
