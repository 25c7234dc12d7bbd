"""What an operator costs: multiply-accumulates, parameters, bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

from torch import Tensor, fx

from npu_assay.partitioners.exir.ops import target_name

CONVOLUTIONS = frozenset({f"aten.{name}.default" for name in ("convolution", "conv1d", "conv2d", "conv3d")})
LEFT_TERMS = frozenset({f"aten.{name}.default" for name in ("mm", "bmm", "matmul", "linear", "addmm", "baddbmm")})
"""Products of matrices: each element of the result sums up the last axis of the first matrix."""
BIASED = frozenset({"aten.addmm.default", "aten.baddbmm.default"})
"""The linear operators whose first operand is added."""
ATTENTION = "aten.scaled_dot_product_attention.default"


def macs(node: fx.Node) -> int:
    """Multiply-accumulates of convolutions, products of matrices and attention; 0 for everything else.

    A convolution has one for each element of its result (of its operand, transposed), channel of a group and cell of
    the kernel; a product one for each element of its result and term of its sum.
    """
    name, result = target_name(node.target), first(values(node))
    if result is None:
        return 0
    if name in CONVOLUTIONS:
        return _convolution(node, result)
    if name in LEFT_TERMS:
        left = shape(node.args[1 if name in BIASED else 0])
        return prod(result) * left[-1] if left else 0
    if name == ATTENTION:
        query, key = shape(node.args[0]), shape(node.args[1])
        return 2 * prod(query) * key[-2] if query and key else 0
    return 0


def _convolution(node: fx.Node, result: tuple[int, ...]) -> int:
    weight, x = shape(node.args[1]), shape(node.args[0])
    if not weight or not x:
        return 0
    transposed = target_name(node.target) == "aten.convolution.default" and len(node.args) > 6 and bool(node.args[6])
    return prod(x if transposed else result) * prod(weight[1:])


def values(node: fx.Node) -> Iterator[Tensor]:
    """The fake tensors that a node gives."""
    yield from _tensors(node.meta.get("val"))


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def first(tensors: Iterable[Tensor]) -> tuple[int, ...] | None:
    """The sizes of the first tensor, None where there is none."""
    return next((sizes(each) for each in tensors), None)


def sizes(tensor: Tensor) -> tuple[int, ...]:
    """Its sizes; open ones as they are in the example inputs."""
    return tuple(size if isinstance(size, int) else int(size.node.hint or 0) for size in tensor.shape)


def shape(argument: Any) -> tuple[int, ...]:
    """The sizes of what an argument stands for, () where that is not a tensor."""
    return (first(values(argument)) or ()) if isinstance(argument, fx.Node) else ()


def nbytes(tensors: Iterable[Tensor]) -> int:
    """The bytes of tensors."""
    return sum(prod(sizes(each)) * each.element_size() for each in tensors)
