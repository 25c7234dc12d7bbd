"""Writes the nodes that stand for one node of a model, each with its value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_map

Rewrite = Callable[..., fx.Node | list[fx.Node] | None]
"""Replaces an operator, whose own arguments it has, by their names in torch; None changes nothing.

One for an operator with several results returns a list.
"""
KEPT = ("nn_module_stack", "stack_trace", "source_fn_stack", "torch_fn", "from_node")
"""What a node's pieces inherit."""


def _fixed(sizes: Sequence[Any]) -> list[Any]:
    """Sizes of a reshape, where the one that is open is told by the others."""
    fixed = [size if isinstance(size, int) else -1 for size in sizes]
    return fixed if fixed.count(-1) == 1 else list(sizes)


@dataclass
class Writer:
    """Appends operators before `node`. is_u55: for Ethos-U55 or Ethos-U65. made: what it has written so far."""

    model: fx.GraphModule
    node: fx.Node
    is_u55: bool = False
    made: list[fx.Node] = field(default_factory=list)

    def call(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> fx.Node:
        """One operator, applied to nodes and numbers."""
        if target is torch.ops.aten.reshape.default:
            args = (args[0], _fixed(args[1]))
        with self.model.graph.inserting_before(self.node):
            made = self.model.graph.call_function(target, args, kwargs)
        made.meta = {key: self.node.meta[key] for key in KEPT if key in self.node.meta}
        with self._mode():
            made.meta["val"] = target(*tree_map(_value, args), **tree_map(_value, kwargs))
        self.made.append(made)
        return made

    def _mode(self) -> Any:
        """The one of all values."""
        for node in self.model.graph.nodes:
            mode = getattr(node.meta.get("val"), "fake_mode", None)
            if mode is not None:
                return mode
        raise ValueError(f"{self.node.name}: no value in the graph, expected a model from torch.export")

    def stored(self, tensor: torch.Tensor, kind: str = "tensor_constant") -> fx.Node:
        """A buffer of the model, with a name that begins with `kind`."""
        name = next(name for index in count() if not hasattr(self.model, name := f"_{kind}{index}"))
        self.model.register_buffer(name, tensor)
        with self.model.graph.inserting_before(self.node):
            made = self.model.graph.get_attr(name)
        made.meta["val"] = self._mode().from_tensor(tensor, static_shapes=True)
        return made

    def number(self, value: float, like: fx.Node) -> fx.Node:
        """A number as a tensor of rank and type of another."""
        dtype = tensor(like).dtype if tensor(like).is_floating_point() else torch.int32
        return self.stored(torch.full([1] * tensor(like).dim(), value, dtype=dtype))

    def filled(self, value: float, like: fx.Node) -> fx.Node:
        """A number as an operator that gives a tensor with one element, of the type of another."""
        return self.call(torch.ops.aten.full.default, [1], value, dtype=tensor(like).dtype)


def tensor(node: fx.Node) -> torch.Tensor:
    """The value of a node; it must be one tensor."""
    found = node.meta["val"]
    assert isinstance(found, torch.Tensor)
    return found


def shape(node: fx.Node) -> tuple[int, ...]:
    """Sizes of a node's tensor."""
    return tuple(tensor(node).shape)


def dims_of(node: fx.Node, dims: int | Sequence[int] | None) -> list[int]:
    """Dimensions counted from the front; all of them for None and for an empty list."""
    rank = len(shape(node))
    given = [dims] if isinstance(dims, int) else list(dims or range(rank))
    return [dim % rank for dim in given]


def _value(argument: Any) -> Any:
    return argument.meta["val"] if isinstance(argument, fx.Node) else argument
