"""Warns of in-place operators whose operand has other readers, which a quantized model gets wrong. Needs no torchao.

A quantizer puts quantize and dequantize nodes between an operator and each reader of its result. An operator that
changes its operand in place then changes a copy: views that were taken before, and later readers of the operand, miss
the change. Readers of the operator's own result see it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from torch.fx import GraphModule, Node


class ChangedInPlaceWarning(UserWarning):
    """A quantized model may miss a change that an operator makes in place."""


def warn_changed_in_place(model: GraphModule, quantizer: str) -> None:
    """Warn of in-place operators whose operand has other readers. quantizer: its name in the warning."""
    for node in model.graph.nodes:
        reader = next((found for changed in changed_operands(node) for found in missing(node, changed)), None)
        if reader is not None:
            warnings.warn(
                f"{quantizer}: {node.name} ({node.target}) changes a tensor in place that {reader.name} reads, too: "
                f"the quantized model may miss the change; expected an operator with a result of its own",
                ChangedInPlaceWarning,
                stacklevel=3,
            )


def missing(node: Node, changed: Node) -> Iterator[Node]:
    """The nodes that read the memory of `changed` after `node` has written to it, but not the result of `node`."""
    sharing = [memory_owner(changed)]
    for one in sharing:  # which grows by the views of each
        sharing += [user for user in one.users if user is not node and _viewed(user) is one]
        yield from (user for user in one.users if user > node)


def is_alone(node: Node, changed: Node) -> bool:
    """Whether only readers of the result of `node` see what it writes; False for inputs and buffers."""
    return memory_owner(changed).op == "call_function" and not any(missing(node, changed))


def memory_owner(node: Node) -> Node:
    """The node that made the memory of the node's result."""
    viewed = _viewed(node)
    return node if viewed is None else memory_owner(viewed)


def _viewed(node: Node) -> Node | None:
    """The operand that shares its memory with the operator's result; None if there is none."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None:
        return None
    names = {name for result in schema.returns if result.alias_info for name in result.alias_info.before_set}
    shared = [
        value
        for argument, value in zip(schema.arguments, node.args, strict=False)
        if argument.alias_info is not None and names & set(argument.alias_info.before_set) and isinstance(value, Node)
    ]
    return shared[0] if shared else None


def changed_operands(node: Node) -> list[Node]:
    """The operands that the operator writes to."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or not schema.is_mutable:
        return []
    return [
        value
        for argument, value in zip(schema.arguments, node.args, strict=False)
        if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, Node)
    ]
