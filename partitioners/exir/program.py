"""Edge programs: the ExportedProgram subclass, its verifier, and the cheap way to make one by hand.

`torch.export.ExportedProgram` generates Python source for its graph on construction, which costs
more than everything else here together. `EdgeProgram` keeps the graph module lazy: source is
generated only when somebody calls the module.
"""

from __future__ import annotations

import builtins
import copy
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, ClassVar

import torch
import torch.utils._pytree as pytree
from torch import fx
from torch._export.verifier import SpecViolationError, Verifier
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ArgumentSpec,
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from torch.fx._lazy_graph_module import _LazyGraphModule

from npu_assay.partitioners.exir.errors import EdgeError
from npu_assay.partitioners.exir.ops import EdgeOp, edge_op, node_name, target_name
from npu_assay.partitioners.exir.values import arguments, fill_values

# Overloads that stay plain torch operators in the edge dialect, as they do not compute tensors from tensors.
PLAIN_ATEN = frozenset(
    {
        "aten._assert_async.msg",
        "aten._assert_scalar.default",
        "aten.scalar_tensor.default",
        "aten.sym_constrain_range_for_size.default",
        "aten.sym_numel.default",
        "aten.sym_size.int",
        "aten.sym_storage_offset.default",
        "aten.sym_stride.int",
    }
)


def check_operators(graph: fx.Graph) -> None:
    """Raise EdgeError for the first node whose target is a plain torch overload or a module call."""
    for node in graph.nodes:
        if node.op in ("call_module", "call_method"):
            raise EdgeError("a call that is not a function", f"{node.op} {node.target}", "call_function", node.name)
        if isinstance(node.target, OpOverload) and target_name(node.target) not in PLAIN_ATEN:
            raise EdgeError(
                "operator of another dialect",
                f"torch operator {target_name(node.target)}",
                "an edge operator",
                node.name,
            )


class EdgeVerifier(Verifier):
    """Checks a program of the edge dialect; torch runs it whenever such a program is built."""

    dialect = "EDGE"

    def allowed_op_types(self) -> tuple[type[Any], ...]:
        """The kinds of target a call_function node may have besides Python's own operators."""
        return (EdgeOp, OpOverload, HigherOrderOperator)

    def allowed_getattr_types(self) -> tuple[type[Any], ...]:
        """What a get_attr node of the top graph may refer to."""
        return (fx.GraphModule, torch.Tensor, pytree.TreeSpec)

    def check_additional(self, gm: fx.GraphModule) -> None:
        """Refuse graphs that still hold operators of another dialect."""
        check_operators(gm.graph)


class EdgeProgram(ExportedProgram):
    """An ExportedProgram of the edge dialect with a lazily compiled graph module.

    The constructor stores what it gets, without copying. Raises EdgeError (or torch's
    SpecViolationError turned into one) when graph, signature and state do not fit together.
    `verify=False` leaves that out, for graphs just written from a program that was verified. Subclasses, of another
    dialect, are not verified.
    """

    verifier: ClassVar[type[Verifier]] = EdgeVerifier

    def __init__(
        self,
        root: torch.nn.Module | dict[str, Any],
        graph: fx.Graph,
        graph_signature: ExportGraphSignature,
        state_dict: dict[str, torch.Tensor | torch.nn.Parameter],
        range_constraints: dict[Any, Any] | None = None,
        module_call_graph: list[ModuleCallEntry] | None = None,
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
        constants: dict[str, Any] | None = None,
        *,
        verify: bool = True,
    ) -> None:
        graph._codegen = fx.graph.CodeGen()
        self._graph_module = _LazyGraphModule(root, graph)
        self._graph_signature = graph_signature
        self._state_dict = state_dict
        self._range_constraints = {} if range_constraints is None else range_constraints
        self._module_call_graph = call_graph(graph_signature) if module_call_graph is None else module_call_graph
        self._example_inputs = example_inputs
        self._constants = {} if constants is None else constants
        self._verifiers = [self.verifier]
        # Guards restrict dynamic shapes of torch.export's own programs; edge programs carry ranges instead.
        self._guards_code: list[str] = []
        if verify and self.verifier is EdgeVerifier:
            check_program(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> EdgeProgram:
        twin = copy_program(self, kind=type(self))
        twin._state_dict = copy.deepcopy(self._state_dict, memo)
        twin._constants = copy.deepcopy(self._constants, memo)
        return twin


def check_program(program: ExportedProgram) -> None:
    """Run the program's verifiers; raise EdgeError when they refuse it."""
    check_operators(program.graph)
    try:
        EdgeVerifier().check(program)
    except SpecViolationError as error:
        raise EdgeError(
            str(error).splitlines()[0].rstrip(". "), "an invalid program", "valid edge dialect", "edge program"
        ) from error


def call_graph(signature: ExportGraphSignature) -> list[ModuleCallEntry]:
    """The calling convention of a flat function: positional user inputs, a tuple of user outputs."""
    inputs: list[ArgumentSpec] = [s.arg for s in signature.input_specs if s.kind == InputKind.USER_INPUT]
    outputs: list[ArgumentSpec] = [s.arg for s in signature.output_specs if s.kind == OutputKind.USER_OUTPUT]
    specs = _flat_specs(len(inputs), len(outputs))
    return [ModuleCallEntry("", ModuleCallSignature(inputs, outputs, *specs))]


@lru_cache(maxsize=64)
def _flat_specs(inputs: int, outputs: int) -> tuple[pytree.TreeSpec, pytree.TreeSpec]:
    """How the inputs (positional, no keywords) and the outputs (a tuple) of a flat function nest."""
    return pytree.tree_structure(((0,) * inputs, {})), pytree.tree_structure((0,) * outputs)


def renamed_call_graph(program: ExportedProgram, signature: ExportGraphSignature) -> list[ModuleCallEntry]:
    """`program`'s calling convention (how inputs and outputs nest) with the argument names of `signature`."""
    flat = call_graph(signature)
    known = program.module_call_graph[0].signature if program.module_call_graph else None
    if known is None or flat[0].signature is None:
        return flat
    flat[0].signature.in_spec = known.in_spec
    flat[0].signature.out_spec = known.out_spec
    flat[0].signature.forward_arg_names = known.forward_arg_names
    return flat


def flat_program(program: ExportedProgram) -> ExportedProgram:
    """The program as a function of positional inputs that returns a tuple: itself if it is one, else a copy."""
    signature = program.module_call_graph[0].signature if program.module_call_graph else None
    flat = call_graph(program.graph_signature)
    wanted = flat[0].signature
    assert wanted is not None  # call_graph writes one
    if signature is not None and (signature.in_spec, signature.out_spec) == (wanted.in_spec, wanted.out_spec):
        return program
    twin = copy_program(program, verify=False)
    twin._module_call_graph, twin._example_inputs = flat, None
    return twin


def argument(value: object) -> ArgumentSpec:
    """The signature's record for one graph input or output."""
    if not isinstance(value, fx.Node):
        return ConstantArgument(name="", value=value)  # type: ignore[arg-type]  # torch checks the kind itself
    if isinstance(value.meta.get("val"), (int, torch.SymInt)):
        return SymIntArgument(value.name)
    return TensorArgument(value.name)


def call(graph: fx.Graph, op: str, args: Iterable[Any], kwargs: Mapping[str, Any] | None = None) -> fx.Node:
    """Append one application of the edge operator called `op`, e.g. aten.add.Tensor."""
    return graph.create_node("call_function", edge_op(op), tuple(args), dict(kwargs or {}), name=node_name(op))


def _input_spec(node: fx.Node, constants: Mapping[str, torch.Tensor]) -> InputSpec:
    if node.name not in constants:
        return InputSpec(InputKind.USER_INPUT, argument(node), None)
    if isinstance(constants[node.name], torch.nn.Parameter):
        return InputSpec(InputKind.PARAMETER, argument(node), node.name)
    return InputSpec(InputKind.BUFFER, argument(node), node.name, persistent=True)


def edge_program(
    graph: fx.Graph | fx.GraphModule,
    constants: Mapping[str, torch.Tensor] | None = None,
    inputs: Mapping[str, torch.Tensor] | None = None,
) -> EdgeProgram:
    """Wrap a hand-built graph, whose targets are edge operators, as a program.

    `constants` maps placeholder names to weights: an nn.Parameter becomes a parameter, any other
    tensor a persistent buffer; the name is also its key in `state_dict`. `inputs` gives a tensor
    (or fake tensor) for each remaining placeholder without `meta["val"]`. The graph is used, not copied;
    its output must be a tuple or list of nodes. Raises EdgeError.
    """
    root: torch.nn.Module = torch.nn.Module()
    if isinstance(graph, fx.GraphModule):
        root, graph = graph, graph.graph
    check_operators(graph)
    constants = {} if constants is None else dict(constants)
    fill_values(graph, {**constants, **(inputs or {})})
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    unknown = sorted(set(constants) - {n.name for n in placeholders})
    if unknown:
        raise EdgeError(
            "constant without a placeholder", unknown[0], f"one of {[n.name for n in placeholders]}", "constants"
        )
    outputs = [OutputSpec(OutputKind.USER_OUTPUT, argument(a), None) for a in output_values(graph)]
    signature = ExportGraphSignature([_input_spec(n, constants) for n in placeholders], outputs)
    return EdgeProgram(root, graph, signature, constants)


def output_values(graph: fx.Graph) -> tuple[Any, ...]:
    """What the graph returns. Raises EdgeError unless that is a tuple or list."""
    node = graph.output_node()
    values = node.args[0]
    if not isinstance(values, (tuple, list)):
        raise EdgeError("output in an unusual form", type(values).__name__, "a tuple of nodes", node.name)
    return tuple(values)


def returned(program: ExportedProgram) -> Iterator[tuple[Any, OutputSpec]]:
    """What the program's graph returns, each with its record in the signature."""
    return zip(output_values(program.graph), program.graph_signature.output_specs, strict=True)


def user_outputs(program: ExportedProgram) -> list[Any]:
    """What the program returns to its user."""
    return [value for value, spec in returned(program) if spec.kind == OutputKind.USER_OUTPUT]


def output_specs(values: Iterable[Any], known: Iterable[OutputSpec]) -> list[OutputSpec]:
    """The records of what a graph returns, of the same kinds and targets as in `known`; constants keep theirs."""
    pairs = zip(values, known, strict=True)
    return [OutputSpec(s.kind, argument(v) if isinstance(v, fx.Node) else copy.copy(s.arg), s.target) for v, s in pairs]


def copy_program(
    program: ExportedProgram, *, verify: bool = True, kind: type[EdgeProgram] = EdgeProgram
) -> EdgeProgram:
    """A program of its own graph, signature and dictionaries; tensors and node values are shared.

    Node names, meta (one level deep) and order are the same. Delegates and constants attached to
    the graph module are shared; bodies of control flow are copied. Raises EdgeError for an invalid
    program, unless `verify` is False.
    """
    root, graph = copy_attributes(program.graph_module), _copy_graph(program.graph)
    return with_graph(program, root, graph, copy_signature(program.graph_signature), kind, verify=verify)


def with_graph(
    program: ExportedProgram,
    root: torch.nn.Module,
    graph: fx.Graph,
    signature: ExportGraphSignature,
    kind: type[EdgeProgram],
    *,
    verify: bool = False,
) -> EdgeProgram:
    """A program of another graph, with the state, the ranges and the calling convention of `program`."""
    return kind(
        root,
        graph,
        signature,
        dict(program.state_dict),
        dict(program.range_constraints),
        renamed_call_graph(program, signature),
        program.example_inputs,
        dict(program.constants),
        verify=verify,
    )


def copy_module(module: fx.GraphModule) -> fx.GraphModule:
    """A module with a graph of its own, as `copy_program` makes one: for whoever reads nothing else of a program."""
    return _LazyGraphModule(copy_attributes(module), _copy_graph(module.graph))


def _copy_graph(graph: fx.Graph) -> fx.Graph:
    copied = fx.Graph()
    twins: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        twins[node] = copy_node(copied, node, twins)
    return copied


def copy_node(graph: fx.Graph, node: fx.Node, twins: Mapping[fx.Node, fx.Node]) -> fx.Node:
    """Append a copy of `node` whose arguments are the `twins` of its own; its meta is copied one level deep."""
    # `create_node` looks into the arguments it is given for symbolic numbers, which a copy cannot bring in anew,
    # and setting an attribute makes the graph look the node up, so nothing is set that is right already.
    twin = graph.create_node(node.op, node.target, name=node.name, type_expr=node.type)
    twin.args, kwargs = arguments(node, twins.__getitem__)
    if kwargs:
        twin.kwargs = kwargs
    twin.meta.update(node.meta)
    keep_name(twin, node.name)
    return twin


def keep_name(node: fx.Node, name: str) -> None:
    """Undo fx's renaming of names that are also Python builtins, such as the placeholder `input`."""
    if node.name != name and hasattr(builtins, name):
        node.name = name


def copy_attributes(module: fx.GraphModule) -> torch.nn.Module:
    """A root module that has what get_attr nodes of `module` refer to: bodies of control flow as copies."""
    root = torch.nn.Module()
    for name, child in module.named_children():
        root.add_module(name, copy.deepcopy(child) if isinstance(child, fx.GraphModule) else child)
    for name, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
        setattr(root, name, tensor)
    for name, value in vars(module).items():
        if isinstance(value, (torch.Tensor, pytree.TreeSpec)):
            setattr(root, name, value)
    return root


def copy_signature(signature: ExportGraphSignature) -> ExportGraphSignature:
    """The same signature in records of its own."""
    return ExportGraphSignature(
        [InputSpec(s.kind, copy.copy(s.arg), s.target, s.persistent) for s in signature.input_specs],
        [OutputSpec(s.kind, copy.copy(s.arg), s.target) for s in signature.output_specs],
    )
