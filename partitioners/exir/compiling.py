"""Common parts of the vendors' compilers: their error, and operator arguments by name."""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import fx

from npu_assay.partitioners.exir.ops import edge_op, target_name


class CompileError(RuntimeError):
    """A subgraph, or a compile specification, that a vendor's compiler cannot turn into a model.

    `node` and `operator` say where, `found` and `expected` are short phrases.
    """

    def __init__(self, what: str, *, node: str, operator: str, found: str, expected: str) -> None:
        super().__init__(f"{node} ({operator}): {what}: found {found}, expected {expected}")
        self.what = what
        self.node = node
        self.operator = operator
        self.found = found
        self.expected = expected


def refusal(node: fx.Node, what: str, found: object, expected: object) -> CompileError:
    """The error for `node`; `found` and `expected` are printed as they are."""
    operator = target_name(node.target) if node.op == "call_function" else node.op
    return CompileError(what, node=node.name, operator=operator, found=str(found), expected=str(expected))


def require(holds: bool, node: fx.Node, what: str, found: object, expected: object) -> None:
    """Raise the node's CompileError unless the condition holds."""
    if not holds:
        raise refusal(node, what, found, expected)


@cache
def _parameters(op: str) -> tuple[tuple[str, Any], ...]:
    schema = edge_op(op).schema
    return () if schema is None else tuple((a.name, a.default_value) for a in schema.arguments)


def bind(node: fx.Node) -> dict[str, Any]:
    """The node's arguments by parameter name, with the schema's defaults filled in."""
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
