"""The compiler's error: a delegated subgraph that has no equivalent on the device."""

from __future__ import annotations

from torch import fx

from partitioners.exir.ops import target_name


class CompileError(RuntimeError):
    """A subgraph, or a compile specification, that the Neutron compiler cannot turn into a model.

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
