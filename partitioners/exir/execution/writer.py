"""From the edge dialect to the execution dialect, node by node."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature
from torch.fx._lazy_graph_module import _LazyGraphModule

from npu_assay.partitioners.exir.errors import EdgeError
from npu_assay.partitioners.exir.execution.dialect import ALLOC, VIEW, WRITES, ExecutionProgram, written_placeholders
from npu_assay.partitioners.exir.execution.outs import OutVariant, out_variant
from npu_assay.partitioners.exir.execution.specs import TensorSpec, spec_of
from npu_assay.partitioners.exir.ops import EdgeOp, target_name
from npu_assay.partitioners.exir.program import (
    PLAIN_ATEN,
    copy_attributes,
    copy_node,
    copy_signature,
    output_specs,
    output_values,
    renamed_call_graph,
    returned,
)
from npu_assay.partitioners.exir.values import arguments

OUT_VARIANT = "out_variant"
"""Where a node of the execution dialect keeps the OutVariant that it calls, in its meta."""
# Operators that change nothing but the shape of a tensor whose memory is in the default order.
VIEWS = frozenset(
    {
        "aten.alias_copy.default",
        "aten.detach_copy.default",
        "aten.squeeze_copy.default",
        "aten.squeeze_copy.dim",
        "aten.squeeze_copy.dims",
        "aten.unsqueeze_copy.default",
        "aten.view_copy.default",
        "dim_order_ops._clone_dim_order.default",
    }
)
# Checks and hints for the compiler: the runtime checks sizes itself.
DROPPED = frozenset(
    {
        "aten._assert_async.msg",
        "aten._assert_scalar.default",
        "aten._assert_tensor_metadata.default",
        "aten.sym_constrain_range.default",
        "aten.sym_constrain_range_for_size.default",
    }
)

# Torch's functions take a half input with float32 parameters; the kernels do not, torch's and ExecuTorch's alike.
OF_ONE_TYPE = frozenset(
    {
        "aten._native_batch_norm_legit.no_stats",
        "aten._native_batch_norm_legit_no_training.default",
        "aten.native_group_norm.default",
        "aten.native_layer_norm.default",
    }
)

# Operators whose result is a number: a kernel returns it, there is no memory to write to.
SCALAR = frozenset({"aten._local_scalar_dense.default"})


def to_execution(program: ExportedProgram, *, remove_view_copy: bool = True) -> ExecutionProgram:
    """The execution form of an edge program, which stays as it is.

    Raises EdgeError naming node and operator where there is no out variant, or one that does not take the types of
    its operands, and for sizes without an upper bound.
    """
    written = written_placeholders(program)
    ranges = dict(program.range_constraints)
    writer = Writer(ranges, remove_view_copy, frozenset(written.values()))
    root = writer.convert(program.graph_module)
    outputs = writer.write_back(program, written)
    writer.graph.output(tuple(outputs))
    known = copy_signature(program.graph_signature)
    signature = ExportGraphSignature(known.input_specs, output_specs(outputs, known.output_specs))
    state = {name: without_gradient(tensor) for name, tensor in program.state_dict.items()}
    for name in signature.buffers_to_mutate.values():
        if name in state:
            state[name] = state[name].clone()  # running the graph writes it
    return ExecutionProgram(
        root,
        writer.graph,
        signature,
        state,
        ranges,
        renamed_call_graph(program, signature),
        program.example_inputs,
        dict(program.constants),
    )


def without_gradient(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory without requires_grad: torch computes no gradients through out variants."""
    if not tensor.requires_grad:
        return tensor
    plain = tensor.detach()
    return torch.nn.Parameter(plain, requires_grad=False) if isinstance(tensor, torch.nn.Parameter) else plain


@dataclass
class Writer:
    """An execution graph under construction.

    ranges: of the symbols in sizes. views: whether views may share memory. written: placeholders that are written at
    the end, so that nothing may show their memory later. twins: what stands for each edge node.
    """

    ranges: Mapping[Any, Any]
    views: bool
    written: frozenset[str] = frozenset()
    graph: fx.Graph = field(default_factory=fx.Graph)
    twins: dict[fx.Node, Any] = field(default_factory=dict)

    def convert(self, source: fx.GraphModule) -> torch.nn.Module:
        """Write all of a graph but its output; return the module that its get_attr nodes refer to."""
        root = copy_attributes(source)
        for name in branches(source):
            root.add_module(name, self._body(getattr(source, name)))
        for node in source.graph.nodes:
            if node.op == "call_function":
                self._write(node)
            elif node.op != "output":
                self.twins[node] = copy_node(self.graph, node, self.twins)
        return root

    def _body(self, source: fx.GraphModule) -> fx.GraphModule:
        """The execution form of a body of control flow."""
        writer = Writer(self.ranges, self.views)
        root = writer.convert(source)
        writer.graph.output(tuple(writer.twin(v) for v in output_values(source.graph)))
        return _LazyGraphModule(root, writer.graph)

    def twin(self, value: Any) -> Any:
        """What stands for an edge node; constants stand for themselves."""
        return self.twins[value] if isinstance(value, fx.Node) else value

    def _write(self, node: fx.Node) -> None:
        name = target_name(node.target)
        if name in DROPPED:
            return
        source = node.args[0] if node.target is operator.getitem else None
        if isinstance(source, fx.Node) and isinstance(self.twins[source], list):
            self.twins[node] = self.twins[source][node.args[1]]
        elif not isinstance(node.target, (EdgeOp, OpOverload)) or name in PLAIN_ATEN - {"aten.scalar_tensor.default"}:
            self.twins[node] = copy_node(self.graph, node, self.twins)
        elif name in SCALAR:
            self.twins[node] = copy_node(self.graph, node, self.twins)
            self.twins[node].target = getattr(node.target, "_op", node.target)
        elif self.views and name in VIEWS and self._shares(node):
            self.twins[node] = self._view(node)
        else:
            self.twins[node] = self._out(node, name)

    def spec(self, node: fx.Node) -> TensorSpec:
        """What memory the node's value needs."""
        return spec_of(node.meta["val"], self.ranges, node.name)

    def _shares(self, node: fx.Node) -> bool:
        """Whether a view can show its base's memory.

        Not as an output, as callers may bring the memory of those; not of a buffer that is written before the
        view is read; not if either has its axes in another order.
        """
        base = node.args[0]
        assert isinstance(base, fx.Node)
        if base.name in self.written or any(user.op == "output" for user in node.users):
            return False
        before, after = self.spec(base), self.spec(node)
        if not (before.contiguous and after.contiguous):
            return False
        return not (before.dynamic or after.dynamic) or target_name(node.target) == "aten.view_copy.default"

    def _view(self, node: fx.Node) -> fx.Node:
        base, spec = self.twin(node.args[0]), self.spec(node)
        dynamic = spec.dynamic or self.spec(node.args[0]).dynamic  # type: ignore[arg-type]  # _shares checked it
        size = arguments(node, self.twins.__getitem__)[0][1] if dynamic else list(spec.sizes)
        return self._call(node, VIEW, (base, size), {})

    def _call(self, node: fx.Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
        made = self.graph.create_node("call_function", target, args, kwargs, name=node.name)
        made.meta = dict(node.meta)
        return made

    def alloc(self, value: torch.Tensor, where: str) -> fx.Node:
        """Memory for a value."""
        spec = spec_of(value, self.ranges, where)
        args = (list(spec.sizes), spec.dtype, list(spec.dim_order))
        node = self.graph.create_node("call_function", ALLOC, args, name="alloc")
        node.meta.update(val=value, spec=spec)
        return node

    def _out(self, node: fx.Node, name: str) -> Any:
        """The out variant's call; for an operator that returns a list, the list of the memory it fills."""
        variant = out_variant(name)
        if variant is None:
            raise EdgeError(
                "operator without an out variant",
                name,
                "an operator that can write into planned memory, or a delegate that takes it",
                node.name,
            )
        _check_one_type(node, name)
        args, kwargs = arguments(node, self.twins.__getitem__)
        known = {p.name for p in variant.parameters}
        kept = {k: v for k, v in kwargs.items() if k in known}
        return self._fill(node, variant, args, kept)

    def _fill(self, node: fx.Node, variant: OutVariant, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value = node.meta["val"]
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        memory = [self.alloc(v, node.name) for v in values]
        outs = {variant.outs[0]: memory} if variant.as_list else dict(zip(variant.outs, memory, strict=True))
        call = self._call(node, variant.target, args, {**kwargs, **outs})
        call.meta[OUT_VARIANT] = variant
        return memory if variant.as_list else call

    def write_back(self, program: ExportedProgram, written: Mapping[str, str]) -> list[Any]:
        """Copy new values into the buffers that hold them; return what the graph returns.

        First come copies of buffers that are read here themselves: as an output, or as another's new value.
        """
        pairs = list(returned(program))
        places = {node.name: node for node in self.graph.nodes if node.op == "placeholder"}
        outputs: list[Any] = []
        for value, spec in pairs:
            twin = self.twin(value)
            own = spec.kind in WRITES and written.get(str(spec.target)) == getattr(value, "name", None)
            if isinstance(twin, fx.Node) and twin.name in self.written and not own:
                twin = self._clone(twin)
            outputs.append(twin)
        for index, (_, spec) in enumerate(pairs):
            if spec.kind in WRITES:
                outputs[index] = self._copy(places[written[str(spec.target)]], outputs[index])
        return outputs

    def _clone(self, node: fx.Node) -> fx.Node:
        variant = out_variant("dim_order_ops._clone_dim_order.default")
        assert variant is not None
        order = self.spec(node).dim_order
        call: fx.Node = self._fill(node, variant, (node,), {"dim_order": list(order)})
        return call

    def _copy(self, place: fx.Node, value: fx.Node) -> fx.Node:
        if value is place:
            return value
        node = self.graph.create_node("call_function", torch.ops.aten.copy_.default, (place, value), name="copy_")
        node.meta.update(val=place.meta["val"])
        return node


def branches(module: fx.GraphModule) -> list[str]:
    """The attributes that hold what the graph's `cond` nodes run."""
    conditions = [n for n in module.graph.nodes if n.target is torch.ops.higher_order.cond]
    return list(dict.fromkeys(str(b.target) for n in conditions for b in n.args[1:3] if isinstance(b, fx.Node)))


def _check_one_type(node: fx.Node, name: str) -> None:
    """Raise EdgeError for a normalization whose input and parameters are of several types."""
    if name not in OF_ONE_TYPE:
        return
    values = [(each.meta["val"], each.name) for each in node.all_input_nodes]
    types = {str(v.dtype).removeprefix("torch."): source for v, source in values if isinstance(v, torch.Tensor)}
    if len(types) > 1:
        raise EdgeError(
            f"{name} takes tensors of one type",
            ", ".join(f"{dtype} from {source}" for dtype, source in types.items()),
            "its input and parameters of the same type, or a delegate that takes it",
            node.name,
        )
