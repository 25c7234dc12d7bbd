"""Decomposes a graph node by node, recording the operators that a decomposition calls.

For graphs of static shapes without operators that write. Operators of core ATen are copied with their values, without
being run.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._export.utils import _get_decomp_for_cia
from torch._ops import OpOverload
from torch._subclasses import FakeTensor
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.weak import WeakIdKeyDictionary

from npu_assay.partitioners.exir.program import copy_attributes, copy_node
from npu_assay.partitioners.exir.values import arguments

DROPPED = frozenset({"aten::_assert_tensor_metadata"})


@dataclass
class Decompositions:
    """What to decompose.

    rules: how, by operator. whole: operators that are not decomposed although they have a rule. special: those whose
    handling by the dispatcher must be overridden. kept: nodes that are not decomposed, of operators that are decomposed
    elsewhere. staying: the operator of the current node if that is not to be decomposed.
    """

    rules: Mapping[OpOverload, Callable[..., Any]]
    whole: frozenset[OpOverload]
    special: frozenset[OpOverload]
    kept: frozenset[fx.Node] = frozenset()
    staying: Any = None

    def begin(self, node: fx.Node) -> None:
        """Make a node the current one."""
        self.staying = node.target if node in self.kept else None

    def rule(self, op: Any) -> Callable[..., Any] | None:
        """The decomposition of an operator; None if it is not decomposed."""
        if op in self.whole or op is self.staying:
            return None
        return self.rules.get(op) or (op.decompose if is_implicit(op) else None)

    def implicit(self, op: OpOverload) -> Callable[..., Any]:
        """The kernel that the dispatcher is to use for an operator that it would decompose."""
        taken_apart = self.rules.get(op) or _get_decomp_for_cia(op)
        return lambda *args, **kwargs: (
            NotImplemented if op in self.whole or op is self.staying else taken_apart(*args, **kwargs)
        )

    def table(self) -> dict[OpOverload, Callable[..., Any]]:
        """The rules for torch's own tracer."""
        wavering = {n.target for n in self.kept}
        return {op: self.unless_staying(op, rule) if op in wavering else rule for op, rule in self.rules.items()}

    def unless_staying(self, op: OpOverload, rule: Callable[..., Any]) -> Callable[..., Any]:
        """The rule, except for nodes that are kept."""
        return lambda *args, **kwargs: NotImplemented if op is self.staying else rule(*args, **kwargs)


class NotFunctionalError(Exception):
    """A decomposition writes a tensor or makes one from numbers, so the whole graph must be traced."""


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch annotates its hook for subclasses badly
    """A mode that appends the operators which run under it to a graph, decomposed by `table`.

    twins: the node of each tensor. Neither it nor a node's value holds the tensor itself: torch makes a detached
    copy of a new tensor that somebody else has got hold of, and that would be one operator more.
    """

    def __init__(self, graph: fx.Graph, plan: Decompositions) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self.graph, self.plan = graph, plan
        self.source: fx.Node | None = None
        self.twins: MutableMapping[torch.Tensor, fx.Node] = WeakIdKeyDictionary()

    def begin(self, source: fx.Node, inputs: Mapping[torch.Tensor, fx.Node]) -> None:
        """Begin to record `source`, with `inputs` as its arguments."""
        self.source = source
        self.twins = WeakIdKeyDictionary(dict(inputs))

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Decompose one operator, or record it and return its value."""
        kwargs = {} if kwargs is None else kwargs
        if func.namespace == "prim":  # questions about a tensor
            return func(*args, **kwargs)
        rule = self.plan.rule(func)
        if rule is not None:
            # As torch's own tracer does it: what autograd adds, such as the detaching of new tensors, stays out.
            with self, torch._C._AutoDispatchBelowAutograd():
                result = rule(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if func._schema.is_mutable:
            raise NotFunctionalError(func)
        node_args, node_kwargs = tree_map_only(torch.Tensor, self.twin, (args, kwargs))
        result = func(*args, **kwargs)
        self.append(func, _without_defaults(func, node_args), node_kwargs, result)
        return result

    def twin(self, tensor: torch.Tensor) -> fx.Node:
        """The node whose value the tensor is."""
        found = self.twins.get(tensor)
        if found is None:
            raise NotFunctionalError(tensor)
        return found

    def append(self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Append a call whose value is `result`, and remember its tensors."""
        nodes = self.create(op, args, kwargs, tree_map_only(FakeTensor, torch.Tensor.detach, result))
        for node, value in zip(nodes, result, strict=True) if isinstance(nodes, list) else [(nodes, result)]:
            if isinstance(value, torch.Tensor):
                self.twins[value] = node
        for node in nodes if isinstance(nodes, list) else [nodes]:
            if node is not None:
                node.meta.pop("tensor_meta", None)

    def create(self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> Any:
        """Append a call; returns its node, or the getitem nodes of several results (None if not a tensor)."""
        assert self.source is not None
        node = self.graph.create_node("call_function", op, args, kwargs, name=op._schema.name.split("::")[-1])
        node.meta = {**self.source.meta, "val": value}
        node.meta.setdefault("original_aten", self.source.target)
        if isinstance(value, (list, tuple)):
            return [self.item(node, i) if isinstance(v, torch.Tensor) else None for i, v in enumerate(value)]
        return node

    def item(self, node: fx.Node, index: int) -> fx.Node:
        """Append a getitem node of a node's value."""
        found = self.graph.create_node("call_function", operator.getitem, (node, index), {}, name="getitem")
        found.meta = {**node.meta, "val": node.meta["val"][index]}
        return found


def _without_defaults(op: OpOverload, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments up to the last that differs from its default."""
    count = len(args)
    while count:
        known = op._schema.arguments[count - 1]
        value = args[count - 1]
        if (
            not known.has_default_value()
            or type(value) is not type(known.default_value)
            or value != known.default_value
        ):
            break
        count -= 1
    return args[:count]


@cache
def is_implicit(op: Any) -> bool:
    """Whether the dispatcher decomposes the operator by itself."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return bool(key in op.py_kernels or torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key))


def recorded(
    source: fx.GraphModule,
    plan: Decompositions,
    dispatching: Callable[[], AbstractContextManager[None]],
    forms: Mapping[fx.Node, OpOverload | None],
) -> fx.GraphModule:
    """The decomposed graph; decompositions run in the state that `dispatching` makes.

    forms: what takes the place of operators that write, see `in_place`. Raises NotFunctionalError when that needs
    more than one node at a time.
    """
    graph = fx.Graph()
    recorder = Recorder(graph, plan)
    calls = [n.target for n in source.graph.nodes if isinstance(n.target, OpOverload)]
    with dispatching() if forms or any(map(plan.rule, calls)) else nullcontext():
        _write(recorder, source.graph, forms)
    graph.eliminate_dead_code()
    return _LazyGraphModule(copy_attributes(source), graph)


def _write(recorder: Recorder, source: fx.Graph, forms: Mapping[fx.Node, OpOverload | None]) -> None:
    twins: dict[fx.Node, Any] = {}
    for node in source.nodes:
        if node.op == "output":
            recorder.graph.output(arguments(node, twins.__getitem__)[0][0]).meta = dict(node.meta)
        elif node.op != "call_function":
            twins[node] = copy_node(recorder.graph, node, twins)
        elif node.target is operator.getitem and isinstance(twins[node.args[0]], list):
            twins[node] = twins[node.args[0]][node.args[1]]
        elif not isinstance(node.target, OpOverload):
            twins[node] = copy_node(recorder.graph, node, twins)
        elif node in forms and forms[node] is None:
            twins[node] = twins[node.args[0]]
        elif node.target._schema.name not in DROPPED:
            twins[node] = _written(recorder, node, twins, forms.get(node))


def _written(recorder: Recorder, node: fx.Node, twins: Mapping[fx.Node, Any], form: OpOverload | None) -> Any:
    """The node or nodes of the new graph that replace an operator, or the `form` that takes its place."""
    op: Any = form or node.target
    recorder.plan.begin(node)
    inputs = {n: twins[n] for n in node.all_input_nodes}
    if form is None and recorder.plan.rule(op) is None and all(same_value(twin, n) for n, twin in inputs.items()):
        recorder.source = node
        args, kwargs = arguments(node, twins.__getitem__)
        return recorder.create(op, args, kwargs, node.meta["val"])
    leaves = [leaf for twin in inputs.values() for leaf in tree_leaves(twin) if isinstance(leaf, fx.Node)]
    values = {leaf: leaf.meta["val"] for leaf in leaves}
    recorder.begin(node, {value: leaf for leaf, value in values.items() if isinstance(value, torch.Tensor)})
    args, kwargs = arguments(node, lambda n: tree_map_only(fx.Node, values.__getitem__, twins[n]))
    # Without this key the views of a weight do not say that it is trained, which some of torch's kernels look at.
    views = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)
    with enable_python_dispatcher(), torch._C._ExcludeDispatchKeyGuard(views), recorder:
        result = op(*args, **kwargs)
    if form is not None and not _same_tensor(result, node.meta["val"]):
        raise NotFunctionalError(op)
    return tree_map_only(torch.Tensor, recorder.twin, list(result) if isinstance(result, (list, tuple)) else result)


def same_value(twin: Any, node: fx.Node) -> bool:
    """Whether a node's twin has the shape, strides and type of the node."""
    value = node.meta.get("val")
    if isinstance(twin, list):
        return isinstance(value, (list, tuple)) and all(
            not isinstance(t, fx.Node) or _same_tensor(t.meta["val"], v) for t, v in zip(twin, value, strict=True)
        )
    return not isinstance(twin, fx.Node) or _same_tensor(twin.meta.get("val"), value)


def _same_tensor(left: Any, right: Any) -> bool:
    if left is right:
        return True
    if not isinstance(left, FakeTensor) or not isinstance(right, FakeTensor):
        return False
    return left.shape == right.shape and left.stride() == right.stride() and left.dtype == right.dtype
