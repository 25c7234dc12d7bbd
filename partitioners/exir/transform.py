"""Run graph passes on a program: on a copy of its graph, with signature and state kept in step."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from copy import copy
from itertools import count
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputSpec,
)
from torch.fx.passes.infra.pass_base import PassResult

from npu_assay.partitioners.exir.backend import ConstantPass, Pass
from npu_assay.partitioners.exir.constants import constant_nodes, placeholders
from npu_assay.partitioners.exir.errors import EdgeError, ExirError
from npu_assay.partitioners.exir.program import (
    EdgeProgram,
    argument,
    copy_program,
    output_specs,
    output_values,
    renamed_call_graph,
)
from npu_assay.partitioners.exir.values import fake_like, fake_mode_of, fill_values

GraphPass = Pass
LIFTED = "_lifted_tensor_constant"


def transform_program(program: ExportedProgram, passes: Sequence[GraphPass]) -> EdgeProgram:
    """A new program: `passes` applied in order to a copy of `program`'s graph.

    A pass takes the graph module and edits it in place (returning None), or returns another one,
    bare or in a torch PassResult. New nodes without `meta["val"]` get it; tensors that a pass attaches to
    the module and reads with get_attr become buffers; constants without users are dropped.
    Raises ExirError for a pass that is not callable, returns something else, or leaves an invalid program.
    """
    return apply_passes(copy_program(program, verify=False), passes)


def apply_passes(program: ExportedProgram, passes: Sequence[GraphPass]) -> EdgeProgram:
    """Apply passes in order, as `transform_program` does, without its copy: they edit the graph of `program`."""
    module: fx.GraphModule = program.graph_module
    constants = constant_data(program)
    for graph_pass in passes:
        module = _run_pass(graph_pass, module, constants)
    return rebuild(program, module)


def constant_data(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """The tensors of the program's constants, by placeholder name."""
    targets = {node.name: str(spec.target) for node, spec in placeholders(program)}
    stored = {**program.constants, **program.state_dict}
    return {n.name: stored[targets[n.name]] for n in constant_nodes(program) if targets[n.name] in stored}


def _run_pass(graph_pass: GraphPass, module: fx.GraphModule, constants: Mapping[str, torch.Tensor]) -> fx.GraphModule:
    name = getattr(graph_pass, "__name__", type(graph_pass).__name__)
    if not callable(graph_pass):
        raise ExirError("not a pass", name, "a callable that takes a GraphModule", "passes")
    result = graph_pass(module, constants) if isinstance(graph_pass, ConstantPass) else graph_pass(module)
    if isinstance(result, PassResult):
        result = result.graph_module
    if result is None:
        return module
    if not isinstance(result, fx.GraphModule):
        raise ExirError(
            "a pass returned something unusable", type(result).__name__, "None, a GraphModule or a PassResult", name
        )
    return result


def rebuild(program: ExportedProgram, module: fx.GraphModule) -> EdgeProgram:
    """The program that has `module`'s graph and `program`'s inputs, outputs and state.

    Placeholders are matched by name and outputs by position. Raises EdgeError when they differ.
    """
    graph = module.graph
    state, constants = dict(program.state_dict), dict(program.constants)
    # By the signature's names: the pass may have edited the program's own graph.
    known = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    known |= lift_constants(program, module, state)
    _drop_unused(graph, program, known)
    fill_values(graph)
    inputs = [_input_spec(n, known) for n in graph.nodes if n.op == "placeholder"]
    _check_user_inputs(program, inputs)
    signature = ExportGraphSignature(inputs, _output_specs(program, graph))
    used = {str(s.target) for s in inputs if s.kind != InputKind.USER_INPUT}
    return EdgeProgram(
        module,
        graph,
        signature,
        {k: v for k, v in state.items() if k in used},
        dict(program.range_constraints),
        renamed_call_graph(program, signature),
        program.example_inputs,
        {k: v for k, v in constants.items() if k in used},
    )


def lift_constants(program: ExportedProgram, module: fx.GraphModule, state: dict[str, Any]) -> dict[str, InputSpec]:
    """Turn tensors that the graph reads with get_attr into buffers; return their records by placeholder name.

    The tensors are added to `state`. Their placeholders, `_lifted_tensor_constant<number of buffers before>`,
    come right before the first user input.
    """
    graph = module.graph
    mode = fake_mode_of(graph) or FakeTensorMode()
    numbers = count(len(program.graph_signature.buffers))
    before = _first_user_input(program, graph)
    lifted: dict[str, InputSpec] = {}
    twins: dict[str, fx.Node] = {}
    for node in [n for n in graph.nodes if n.op == "get_attr"]:
        target = str(node.target)
        tensor = operator.attrgetter(target)(module)
        if not isinstance(tensor, torch.Tensor):
            continue
        if target not in twins:
            name = next(n for n in (f"{LIFTED}{number}" for number in numbers) if n not in state)
            with graph.inserting_before(before):
                twin = graph.create_node("placeholder", name, name=name)
            twin.meta = {**node.meta, "val": fake_like(tensor, mode)}
            twins[target] = twin
            lifted[twin.name] = InputSpec(InputKind.BUFFER, argument(twin), name, persistent=True)
            state[name] = tensor.detach()
        node.replace_all_uses_with(twins[target])
        graph.erase_node(node)
    return lifted


def _first_user_input(program: ExportedProgram, graph: fx.Graph) -> fx.Node:
    """The node before which constants go; the first operator if there is no user input."""
    users = {s.arg.name for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT}
    nodes: list[fx.Node] = list(graph.nodes)
    return next(n for n in nodes if n.op != "placeholder" or n.name in users)


def _drop_unused(graph: fx.Graph, program: ExportedProgram, specs: Mapping[str, InputSpec]) -> None:
    """Erase placeholders of constants that nothing reads or writes any more."""
    written = set(program.graph_signature.buffers_to_mutate.values())
    for node in [n for n in graph.nodes if n.op == "placeholder" and not n.users]:
        spec = specs.get(node.name)
        if spec is not None and spec.kind != InputKind.USER_INPUT and spec.target not in written:
            graph.erase_node(node)


def _input_spec(node: fx.Node, known: Mapping[str, InputSpec]) -> InputSpec:
    if node.name not in known:
        raise EdgeError("a pass added an input", "a new placeholder", f"one of {sorted(known)}", node.name)
    old = known[node.name]
    return InputSpec(old.kind, copy(old.arg), old.target, old.persistent)


def _check_user_inputs(program: ExportedProgram, inputs: Sequence[InputSpec]) -> None:
    """Callers pass user inputs by position, so a pass may neither drop nor reorder them."""
    before = [s.arg.name for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT]
    after = [s.arg.name for s in inputs if s.kind == InputKind.USER_INPUT]
    if before != after:
        raise EdgeError("a pass changed the user inputs", str(after), str(before), "placeholders")


def _output_specs(program: ExportedProgram, graph: fx.Graph) -> list[OutputSpec]:
    values, specs = output_values(graph), program.graph_signature.output_specs
    if len(values) != len(specs):
        raise EdgeError("a pass changed the number of outputs", str(len(values)), str(len(specs)), "output")
    return output_specs(values, specs)
