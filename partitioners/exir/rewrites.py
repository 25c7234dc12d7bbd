"""From ATen to the edge dialect, node by node: the writer, and the rules it applies.

A rule sees a node of the ATen graph and its arguments already rewritten, and returns what the edge
graph has in its place. Operators without a rule are copied; views become their copying variants.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch._subclasses import FakeTensorMode

from npu_assay.partitioners.exir.config import is_view
from npu_assay.partitioners.exir.errors import EdgeError
from npu_assay.partitioners.exir.ops import DEQUANTIZE, QUANTIZE, EdgeOp, edge_op, node_name, target_name, to_edge_op
from npu_assay.partitioners.exir.program import PLAIN_ATEN
from npu_assay.partitioners.exir.values import arguments, checked_value

# Elementwise operators whose tensors of different types are first brought to the result's type.
PROMOTING = frozenset(
    {
        "aten.add.Tensor",
        "aten.div.Tensor",
        "aten.div.Tensor_mode",
        "aten.minimum.default",
        "aten.mul.Tensor",
        "aten.sub.Tensor",
    }
)
# The types of 0-d tensors that hold numbers known at run time only.
OPEN_NUMBERS = {torch.SymBool: torch.bool, torch.SymInt: torch.int32, torch.SymFloat: torch.float32}
DROPPED = frozenset({"aten._assert_tensor_metadata.default"})


@dataclass
class Writer:
    """An edge graph under construction.

    constant: makes a node of a 0-d tensor. dim_order: whether memory formats become dim orders.
    twins: what stands for each node of the ATen graph so far.
    """

    graph: fx.Graph
    mode: FakeTensorMode
    dim_order: bool
    constant: Callable[[torch.Tensor], fx.Node]
    twins: dict[fx.Node, fx.Node] = field(default_factory=dict)

    def emit(self, source: fx.Node, target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> fx.Node:
        """Append one call that takes part in what `source` did; its value is computed."""
        name = node_name(target_name(target)) if isinstance(target, EdgeOp) else source.name
        node = self.graph.create_node("call_function", target, tuple(args), kwargs, name=name)
        node.meta = dict(source.meta)
        node.meta["val"] = self._value(source, node)
        if node.meta["val"] is not source.meta.get("val"):
            node.meta.pop("tensor_meta", None)
        return node

    def _value(self, source: fx.Node, node: fx.Node) -> Any:
        """The source's own value where operator and inputs are the same: its symbolic sizes stay valid."""
        same_operator = target_name(node.target) == target_name(source.target)
        inputs = source.all_input_nodes
        same_inputs = [self.twins[n] for n in inputs] == node.all_input_nodes and all(
            self.twins[n].meta.get("val") is n.meta.get("val") for n in inputs
        )
        opaque = not isinstance(node.target, EdgeOp) and node.target is not operator.getitem
        # Running an operator again whose result depends on data would give its open sizes new symbols.
        tags = set(getattr(source.target, "tags", ()))
        data_dependent = bool(tags & {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})
        if "val" in source.meta and (opaque or (same_operator and (same_inputs or data_dependent))):
            return source.meta["val"]
        return checked_value(node, self.mode)

    def write(self, source: fx.Node) -> None:
        """Append what the edge dialect has for a call_function node."""
        args, kwargs = arguments(source, self.twins.__getitem__)
        name = target_name(source.target)
        if name in DROPPED:
            return
        if isinstance(source.target, OpOverload) and name not in PLAIN_ATEN:
            args, kwargs = self._tensors(source, args, kwargs)
            self.twins[source] = RULES.get(name, copied)(self, source, args, kwargs)
        else:
            self.twins[source] = self.emit(source, source.target, args, kwargs)

    def _tensors(
        self, source: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Numbers given for tensor arguments become tensors; mixed types are promoted where edge asks for it."""
        assert isinstance(source.target, OpOverload)
        tensors = {i for i, a in enumerate(source.target._schema.arguments) if str(a.type) == "Tensor"}
        lifted = [self._lift(source, a) if i in tensors else a for i, a in enumerate(args)]
        if target_name(source.target) in PROMOTING:
            dtype = source.meta["val"].dtype
            lifted = [self._promote(source, a, dtype) if i in tensors else a for i, a in enumerate(lifted)]
        return tuple(lifted), kwargs

    def _lift(self, source: fx.Node, argument: Any) -> Any:
        if isinstance(argument, (bool, int, float)):
            return self.constant(torch.tensor(argument))
        value = argument.meta.get("val") if isinstance(argument, fx.Node) else None
        kind = next((dtype for known, dtype in OPEN_NUMBERS.items() if isinstance(value, known)), None)
        return argument if kind is None else self._measured(source, argument, kind)

    def _measured(self, source: fx.Node, number: Any, dtype: torch.dtype) -> fx.Node:
        """A 0-d tensor of a number that is known only at run time, such as a dynamic size."""
        target = torch.ops.aten.scalar_tensor.default
        node = self.graph.create_node("call_function", target, (number,), {"dtype": dtype}, name="scalar_tensor")
        node.meta = {k: v for k, v in source.meta.items() if k not in ("val", "tensor_meta")}
        node.meta["val"] = checked_value(node, self.mode)
        return node

    def _promote(self, source: fx.Node, argument: Any, dtype: torch.dtype) -> Any:
        if not isinstance(argument, fx.Node) or argument.meta["val"].dtype == dtype:
            return argument
        return to_copy(self, source, (argument,), {"dtype": dtype})


Rule = Callable[[Writer, fx.Node, tuple[Any, ...], dict[str, Any]], fx.Node]


def copied(writer: Writer, source: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
    """The same operator, or its copying variant if it returns a view."""
    return writer.emit(source, to_edge_op(without_view(source)), args, kwargs)


def without_view(node: fx.Node) -> OpOverload:
    """The overload to use for a node: `aten.view_copy.default` for `aten.view.default`, most stay the same."""
    target = node.target
    assert isinstance(target, OpOverload)
    if target.namespace != "aten" or not is_view(target):
        return target
    packet, overload = target._schema.name.removeprefix("aten::"), target._overloadname
    found = getattr(getattr(torch.ops.aten, f"{packet}_copy", None), overload, None)
    if not isinstance(found, OpOverload):
        raise EdgeError(
            "a view without a copying variant", target_name(target), f"aten.{packet}_copy.{overload}", node.name
        )
    return found


def slice_(writer: Writer, source: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
    """A slice that takes everything disappears."""
    before, after = args[0].meta["val"], source.meta["val"]
    step = args[4] if len(args) > 4 else kwargs.get("step", 1)
    if step == 1 and list(before.shape) == list(after.shape):
        return _node(args[0])
    return copied(writer, source, args, kwargs)


def cat(writer: Writer, source: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
    """Empty tensors do not take part, unless there is nothing else."""
    full = [a for a in args[0] if a.meta["val"].numel() != 0]
    return copied(writer, source, (full or list(args[0]), *args[1:]), kwargs)


def quantize(writer: Writer, source: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
    """Quantizing what was just dequantized with the same parameters gives back the codes."""
    inner = args[0]
    same = target_name(source.target).replace("quantize_", "dequantize_") == target_name(inner.target)
    if (
        same
        and target_name(inner.target) in DEQUANTIZE
        and inner.args[1:] == args[1:]
        and not inner.kwargs
        and not kwargs
    ):
        return _node(inner.args[0])
    return copied(writer, source, args, kwargs)


def clone(writer: Writer, source: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
    """A clone states the order of its axes in memory."""
    if not writer.dim_order:
        return copied(writer, source, args, kwargs)
    order = dim_order(args[0].meta["val"], kwargs.get("memory_format"))
    return writer.emit(source, edge_op("dim_order_ops._clone_dim_order.default"), args, {"dim_order": order})


def to_copy(writer: Writer, source: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
    """A conversion states type and order of axes; one that changes neither disappears."""
    value = args[0].meta["val"]
    order = dim_order(value, kwargs.get("memory_format"))
    dtype = value.dtype if kwargs.get("dtype") is None else kwargs["dtype"]
    if dtype == value.dtype and order == dim_order(value, None):
        return _node(args[0])
    if not writer.dim_order:
        return writer.emit(source, edge_op("aten._to_copy.default"), args, kwargs)
    kept = {k: v for k, v in kwargs.items() if k != "memory_format" and v is not None}
    return writer.emit(source, edge_op("dim_order_ops._to_dim_order_copy.default"), args, {**kept, "dim_order": order})


def empty(writer: Writer, source: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
    """A tensor without values states the order of its axes."""
    if not writer.dim_order:
        return copied(writer, source, args, kwargs)
    order = dim_order(source.meta["val"], kwargs.get("memory_format"))
    kept = {k: v for k, v in kwargs.items() if k != "memory_format" and v is not None}
    return writer.emit(source, edge_op("dim_order_ops._empty_dim_order.default"), args, {**kept, "dim_order": order})


def dim_order(value: torch.Tensor, memory_format: torch.memory_format | None) -> list[int]:
    """Axes from outermost to innermost in memory: of the format if one is named, else of `value`."""
    rank = value.dim()
    if memory_format is None or memory_format is torch.preserve_format:
        return list(value.dim_order())
    if memory_format is torch.contiguous_format:
        return list(range(rank))
    return [0, *range(2, rank), 1]


def _node(value: Any) -> fx.Node:
    assert isinstance(value, fx.Node)
    return value


RULES: dict[str, Rule] = {
    "aten.slice.Tensor": slice_,
    "aten.slice_copy.Tensor": slice_,
    "aten.cat.default": cat,
    "aten.clone.default": clone,
    "aten._to_copy.default": to_copy,
    "aten.empty.memory_format": empty,
    **dict.fromkeys(sorted(QUANTIZE), quantize),
}
