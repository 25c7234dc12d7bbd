"""In-place operators whose change nobody sees but the readers of their result: they may as well have a fresh one.

Most in-place operators of a network are activations (`nn.ReLU(inplace=True)`). To trace a program only for these costs
several times what lowering costs otherwise.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any, Final

import torch
from torch import fx
from torch._ops import OpOverload

from npu_assay.partitioners.exir.decompose_by_node import is_implicit

aten: Any = torch.ops.aten

FRESH: Final = frozenset(
    {
        *(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default, aten.linear.default, aten.matmul.default),
        *(aten.batch_norm.default, aten.layer_norm.default, aten.group_norm.default),
    }
)
"""Operators that the dispatcher decomposes, and that return memory of their own; dropout returns its operand."""


Forms = dict[fx.Node, OpOverload | None]
"""By node that writes a tensor: the operator with a fresh result that takes its place, None for its operand itself."""


def fresh_forms(graph: fx.Graph) -> Forms | None:
    """What takes the place of each operator of the graph that writes a tensor; None if there is one without."""
    found: Forms = {}
    alone: set[fx.Node] = set()
    for node in graph.nodes:
        if not isinstance(node.target, OpOverload) or not node.target._schema.is_mutable:
            continue
        form = fresh_form(node.target)
        if _is_alone(node, alone):
            alone.add(node)
        elif form is not None:
            return None
        if form is None and not _is_idle(node):
            return None
        found[node] = form
    return found


def _is_alone(node: fx.Node, before: Collection[fx.Node]) -> bool:
    """Whether the operand that the node writes has memory of its own, which nobody reads or views after it.

    before: in-place nodes that are known to be alone.
    """
    changed = node.args[0] if node.args else None
    if not isinstance(changed, fx.Node) or not (changed in before or _is_fresh(changed.target)):
        return False
    return all(user is node or (_is_fresh(user.target) and user < node) for user in changed.users)


def _is_idle(node: fx.Node) -> bool:
    """Whether the node is a dropout outside of training, which returns its operand as it is."""
    return node.target is aten.dropout_.default and len(node.args) == 3 and node.args[2] is False


@cache
def fresh_form(op: OpOverload) -> OpOverload | None:
    """`aten.relu.default` for `aten.relu_.default`: an elementwise operator that writes its first operand alone."""
    name = op._schema.name.removeprefix("aten::")
    if not name.endswith("_") or not hasattr(aten, name[:-1]):
        return None
    form = getattr(getattr(aten, name[:-1]), op._overloadname, None)
    if not isinstance(form, OpOverload) or not _is_fresh(form):
        return None
    if torch.Tag.pointwise not in form.tags and form is not aten.hardswish.default:
        return None
    written, *others = op._schema.arguments
    is_pair = [_described(each) for each in op._schema.arguments] == [_described(e) for e in form._schema.arguments]
    is_first = written.alias_info is not None and all(each.alias_info is None for each in others)
    return form if is_pair and is_first and len(op._schema.returns) == 1 else None


def _described(argument: Any) -> tuple[str, str, object, bool]:
    return argument.name, str(argument.type), argument.default_value, argument.kwarg_only


@cache
def _is_fresh(target: Any) -> bool:
    """Whether the operator writes nothing, and its result shares no memory with an operand."""
    if not isinstance(target, OpOverload):
        return False
    schema = target._schema
    if schema.is_mutable or any(each.alias_info is not None for each in (*schema.returns, *schema.arguments)):
        return False
    if is_implicit(target):  # a function, which may return an operand
        return target in FRESH
    return "unsafe" not in schema.name  # as _unsafe_view, which shares memory and does not say so
