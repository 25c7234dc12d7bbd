"""Reading a node: its value's shape and type, and its arguments in any of their spellings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx


def argument(node: fx.Node, position: int, name: str, default: Any = None) -> Any:
    """An argument by position or keyword; `default` when it is left out."""
    return node.args[position] if position < len(node.args) else node.kwargs.get(name, default)


def operand(node: fx.Node, position: int = 0) -> fx.Node | None:
    """A tensor argument by position, or None when there is none."""
    found = node.args[position] if position < len(node.args) else None
    return found if isinstance(found, fx.Node) else None


def value(node: object) -> torch.Tensor | None:
    """The node's (first) result without data; None for anything that has no tensor result."""
    found = node.meta.get("val") if isinstance(node, fx.Node) else None
    if isinstance(found, (list, tuple)):
        found = found[0] if found else None
    return found if isinstance(found, torch.Tensor) else None


def shape(node: object) -> tuple[int, ...]:
    """Sizes of the node's (first) result; () for a scalar and for anything that is not a tensor."""
    found = value(node)
    return () if found is None else tuple(found.shape)


def rank(node: object) -> int:
    """Number of dimensions of the node's (first) result."""
    return len(shape(node))


def memory_order(node: object) -> tuple[int, ...] | None:
    """The dimensions of the node's (first) result as they lie in memory, outermost first; None if it has gaps."""
    found = value(node)
    if found is None:
        return ()
    order = tuple(sorted(range(found.dim()), key=lambda dim: -found.stride()[dim]))
    return order if found.permute(order).is_contiguous() else None


def pair(sizes: object) -> tuple[int, int] | None:
    """Height and width of `2`, `[2]` or `[2, 3]`; None for an empty or missing argument."""
    if isinstance(sizes, int):
        return (sizes, sizes)
    if not isinstance(sizes, Sequence) or not sizes:
        return None
    return (int(sizes[0]), int(sizes[-1]))


def non_negative(dim: int, dims: int) -> int:
    """A dimension counted from the front; negative ones count from the back of `dims` dimensions."""
    return dim + dims if dim < 0 else dim


def is_open(size: object) -> bool:
    """Whether the program leaves a size open."""
    return not isinstance(size, int)


def tensors(node: fx.Node) -> tuple[torch.Tensor, ...]:
    """All tensors that the node gives, without data."""
    found = node.meta.get("val")
    several = found if isinstance(found, (list, tuple)) else (found,)
    return tuple(one for one in several if isinstance(one, torch.Tensor))


def type_text(dtype: torch.dtype | None) -> str:
    """`float32` for torch.float32."""
    return str(dtype).removeprefix("torch.")


def size_text(sizes: Sequence[int]) -> str:
    """A shape as messages print it: 1x8x4x4, or scalar."""
    return "x".join(map(str, sizes)) if sizes else "scalar"
