"""Decomposes a graph by tracing it as a whole: for dynamic shapes, operators that write, and control flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._export.utils import _compiling_state_context
from torch._functorch._aot_autograd.functional_utils import has_data_mutation
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec
from torch.fx import traceback
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.passes.runtime_assert import insert_deferred_runtime_asserts
from torch.utils._pytree import tree_map_only

from npu_assay.partitioners.exir.constants import placeholders
from npu_assay.partitioners.exir.decompose_by_node import Decompositions
from npu_assay.partitioners.exir.errors import EdgeError
from npu_assay.partitioners.exir.program import output_specs, output_values

WRITTEN = {
    InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
    InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
    InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
}
"""The kind of output in which an input's new value leaves the graph."""


class Interpreter(fx.Interpreter):
    """Runs a graph and makes each node the current one of the plan."""

    def __init__(self, module: fx.GraphModule, plan: Decompositions) -> None:
        super().__init__(module)
        self.plan = plan

    def run_node(self, n: fx.Node) -> Any:
        """Run one node."""
        self.plan.begin(n)
        return super().run_node(n)


def traced(program: ExportedProgram, plan: Decompositions) -> tuple[fx.GraphModule, ExportGraphSignature]:
    """The graph made functional and decomposed, and its signature: new values of written inputs come first.

    Raises EdgeError for a program that writes a constant.
    """
    source = program.graph_module
    inputs = [n for n in source.graph.nodes if n.op == "placeholder"]
    written: list[int] = []

    def functional(*values: Any) -> list[Any]:
        with FunctionalTensorMode(export=True):
            wrapped = [FunctionalTensor.to_functional(v) if isinstance(v, torch.Tensor) else v for v in values]
            returned = Interpreter(source, plan).run(*wrapped, enable_io_processing=False)
            written[:] = [i for i, w in enumerate(wrapped) if has_data_mutation(w)]
            plain: list[Any] = tree_map_only(
                FunctionalTensor, FunctionalTensor.from_functional, [*(wrapped[i] for i in written), *returned]
            )
            return plain

    with (
        _compiling_state_context(),
        _use_lazy_graph_module(True),
        traceback.preserve_node_meta(),
        enable_python_dispatcher(),
    ):
        trace = make_fx(functional, decomposition_table=plan.table(), _allow_non_fake_inputs=True)
        module: fx.GraphModule = trace(*(n.meta["val"] for n in inputs))
    module.graph.eliminate_dead_code()
    return module, _finished(program, module, [inputs[i] for i in written])


def _finished(program: ExportedProgram, module: fx.GraphModule, written: Sequence[fx.Node]) -> ExportGraphSignature:
    """Give the traced graph the program's input names and its checks of dynamic sizes; return its signature."""
    names = [n.name for n in program.graph.nodes if n.op == "placeholder"]
    for twin, name in zip((n for n in module.graph.nodes if n.op == "placeholder"), names, strict=True):
        twin.name = twin.target = name
    shapes = _shape_env(module.graph)
    if shapes is not None:
        insert_deferred_runtime_asserts(module, shapes, "edge program", export=True)
    specs = dict(placeholders(program))
    mutations = [_mutation(specs[node]) for node in written]
    _drop_copies(module.graph, mutations)
    known = [*mutations, *program.graph_signature.output_specs]
    outputs = output_specs(output_values(module.graph), known)
    return ExportGraphSignature(list(program.graph_signature.input_specs), outputs)


def _mutation(spec: InputSpec) -> OutputSpec:
    """The record of an input's new value. Raises EdgeError for inputs that cannot change."""
    if spec.kind not in WRITTEN:
        raise EdgeError("the program writes a constant", spec.kind.name, "a registered buffer", spec.arg.name)
    target = spec.arg.name if spec.kind == InputKind.USER_INPUT else spec.target
    return OutputSpec(WRITTEN[spec.kind], spec.arg, target)


def _drop_copies(graph: fx.Graph, mutations: Sequence[OutputSpec]) -> None:
    """A buffer that is overwritten takes the new value itself, not a copy of it."""
    for spec, value in zip(mutations, output_values(graph), strict=False):
        if spec.kind == OutputKind.USER_INPUT_MUTATION or not isinstance(value, fx.Node):
            continue
        source = value.args[1] if value.target is torch.ops.aten.copy.default else None
        if isinstance(source, fx.Node):
            value.replace_all_uses_with(source)
            graph.erase_node(value)


def _shape_env(graph: fx.Graph) -> ShapeEnv | None:
    """The environment of the symbols in dynamic shapes; None if all sizes are numbers."""
    for node in graph.nodes:
        value = node.meta.get("val")
        for item in value if isinstance(value, (list, tuple)) else (value,):
            sizes = (item, *item.shape) if isinstance(item, torch.Tensor) else (item,)
            for size in sizes:
                if isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                    found: ShapeEnv = size.node.shape_env
                    return found
    return None
