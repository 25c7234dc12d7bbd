"""Operator arguments by name, with the schema's defaults filled in."""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import fx

from partitioners.exir.ops import edge_op, target_name
from partitioners.neutron.lowering.errors import refusal


@cache
def _parameters(op: str) -> tuple[tuple[str, Any], ...]:
    schema = edge_op(op).schema
    return () if schema is None else tuple((a.name, a.default_value) for a in schema.arguments)


def bind(node: fx.Node) -> dict[str, Any]:
    """The node's arguments by parameter name."""
    parameters = _parameters(target_name(node.target))
    bound = dict(parameters)
    bound.update(zip((name for name, _ in parameters), node.args, strict=False))
    bound.update(node.kwargs)
    return bound


def pair(value: Any) -> tuple[int, int]:
    """`2`, `[2]` and `[2, 2]` as (2, 2): vertical, then horizontal."""
    if isinstance(value, int):
        return (value, value)
    return (value[0], value[-1])


def axis_of(node: fx.Node, dim: int, rank: int) -> int:
    """A dimension counted from the front. Raises CompileError when it is out of range."""
    if not -rank <= dim < max(rank, 1):
        raise refusal(node, "dimension", dim, f"one within [{-rank}, {rank})")
    return dim % rank if rank else 0
