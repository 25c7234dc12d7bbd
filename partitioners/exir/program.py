"""Edge programs: the ExportedProgram subclass, its verifier, and the cheap way to make one by hand.

`torch.export.ExportedProgram` generates Python source for its graph on construction, which costs
more than everything else here together. `EdgeProgram` keeps the graph module lazy: source is
generated only when somebody calls the module.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx
from torch._export.verifier import SpecViolationError, Verifier
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses import FakeTensor, FakeTensorMode
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

from partitioners.exir.errors import EdgeError
from partitioners.exir.ops import QUANTIZE, EdgeOp, edge_op, node_name, target_name

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
_CPU = torch.device("cpu")
_DEQUANTIZE_PER_TENSOR = "quantized_decomposed.dequantize_per_tensor.default"


def check_operators(graph: fx.Graph) -> None:
    """Raise EdgeError for the first node whose target is a plain torch overload or a module call."""
    for node in graph.nodes:
        if node.op in ("call_module", "call_method"):
            raise EdgeError(
                "a call that is not a function",
                found=f"{node.op} {node.target}",
                expected="call_function",
                where=node.name,
            )
        if isinstance(node.target, OpOverload) and target_name(node.target) not in PLAIN_ATEN:
            raise EdgeError(
                "operator of another dialect",
                found=f"torch operator {target_name(node.target)}",
                expected="an edge operator",
                where=node.name,
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
    """

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
    ) -> None:
        graph._codegen = fx.graph.CodeGen()
        self._graph_module = _LazyGraphModule(root, graph)
        self._graph_signature = graph_signature
        self._state_dict = state_dict
        self._range_constraints = {} if range_constraints is None else range_constraints
        self._module_call_graph = call_graph(graph_signature) if module_call_graph is None else module_call_graph
        self._example_inputs = example_inputs
        self._constants = {} if constants is None else constants
        self._verifiers = [EdgeVerifier]
        # Guards restrict dynamic shapes of torch.export's own programs; edge programs carry ranges instead.
        self._guards_code: list[str] = []
        check_program(self)


def check_program(program: ExportedProgram) -> None:
    """Run the program's verifiers; raise EdgeError when they refuse it."""
    check_operators(program.graph)
    try:
        program.validate()
    except SpecViolationError as error:
        raise EdgeError(
            str(error).splitlines()[0], found="an invalid program", expected="valid edge dialect", where="edge program"
        ) from error


def call_graph(signature: ExportGraphSignature) -> list[ModuleCallEntry]:
    """The calling convention of a flat function: positional user inputs, a tuple of user outputs."""
    inputs: list[ArgumentSpec] = [s.arg for s in signature.input_specs if s.kind == InputKind.USER_INPUT]
    outputs: list[ArgumentSpec] = [s.arg for s in signature.output_specs if s.kind == OutputKind.USER_OUTPUT]
    in_spec = pytree.tree_structure(((0,) * len(inputs), {}))
    out_spec = pytree.tree_structure((0,) * len(outputs))
    return [ModuleCallEntry("", ModuleCallSignature(inputs, outputs, in_spec, out_spec))]


def argument(value: object) -> ArgumentSpec:
    """The signature's record for one graph input or output."""
    if not isinstance(value, fx.Node):
        return ConstantArgument(name="", value=value)  # type: ignore[arg-type]  # torch checks the kind itself
    if isinstance(value.meta.get("val"), (int, torch.SymInt)):
        return SymIntArgument(value.name)
    return TensorArgument(value.name)


def fake_like(value: torch.Tensor, mode: FakeTensorMode, dtype: torch.dtype | None = None) -> FakeTensor:
    """A CPU tensor without data with `value`'s shape and strides."""
    dtype = value.dtype if dtype is None else dtype
    meta = torch.empty_strided(value.shape, value.stride(), dtype=dtype, device="meta")
    return FakeTensor(mode, meta, _CPU)


def fake_mode_of(graph: fx.Graph) -> FakeTensorMode | None:
    """The mode of the first fake tensor among the graph's values, or None."""
    for node in graph.nodes:
        values = node.meta.get("val")
        for value in values if isinstance(values, (list, tuple)) else (values,):
            if isinstance(value, FakeTensor):
                return value.fake_mode
    return None


def node_value(node: fx.Node, mode: FakeTensorMode) -> Any:
    """The value of a call_function node, computed on the values of its arguments.

    Quantize and dequantize of dense tensors are elementwise, which is decided here: torch runs
    their decomposition operator by operator, at ten times the cost.
    """
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    name = target_name(node.target)
    dtype = _elementwise_dtype(name, args, kwargs)
    if dtype is not None:
        return fake_like(args[0], mode, dtype)
    if node.target is operator.getitem:
        return args[0][args[1]]
    with mode:
        return node.target(*args, **kwargs)  # type: ignore[operator]  # call_function targets are callable


def _elementwise_dtype(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.dtype | None:
    """Result type of a well-formed quantize or dequantize in its usual spelling, else None."""
    if kwargs or len(args) < 6 or not isinstance(args[0], FakeTensor):
        return None
    if not torch._prims_common.is_non_overlapping_and_dense_or_false(args[0]):
        return None
    if name in QUANTIZE and args[0].dtype == torch.float32:
        return args[-1] if isinstance(args[-1], torch.dtype) else None
    if name == _DEQUANTIZE_PER_TENSOR and args[0].dtype == args[5]:
        return torch.float32
    return None


def fill_values(
    graph: fx.Graph, tensors: Mapping[str, torch.Tensor] | None = None, mode: FakeTensorMode | None = None
) -> None:
    """Give every node that has none its `meta["val"]`.

    `tensors` holds a tensor per placeholder name; only shape, strides and type are used. Raises
    EdgeError for a placeholder without a tensor and for a node whose arguments its operator refuses.
    """
    tensors = {} if tensors is None else tensors
    mode = mode or fake_mode_of(graph) or FakeTensorMode()
    for node in graph.nodes:
        if "val" in node.meta or node.op in ("output", "get_attr"):
            continue
        if node.op == "placeholder":
            node.meta["val"] = _placeholder_value(node, tensors, mode)
        else:
            node.meta["val"] = _checked_value(node, mode)


def _placeholder_value(node: fx.Node, tensors: Mapping[str, torch.Tensor], mode: FakeTensorMode) -> FakeTensor:
    if node.name not in tensors:
        raise EdgeError(
            "placeholder of unknown shape",
            found="no tensor for it",
            expected="meta['val'] or a tensor",
            where=node.name,
        )
    return fake_like(tensors[node.name], mode)


def _checked_value(node: fx.Node, mode: FakeTensorMode) -> Any:
    try:
        return node_value(node, mode)
    except (RuntimeError, TypeError, ValueError, IndexError, AssertionError) as error:
        found = ", ".join(_describe(a.meta["val"]) if isinstance(a, fx.Node) else repr(a) for a in node.args)
        raise EdgeError(
            f"{target_name(node.target)} refuses its arguments ({str(error).splitlines()[0] if str(error) else error!r})",
            found=f"({found})",
            expected="arguments that fit its schema",
            where=node.name,
        ) from error


def _describe(value: object) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__


def call(graph: fx.Graph, op: str, args: Iterable[Any], kwargs: Mapping[str, Any] | None = None) -> fx.Node:
    """Append one application of the edge operator called `op`, e.g. aten.relu.default."""
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
    constants = {} if constants is None else dict(constants)
    fill_values(graph, {**constants, **(inputs or {})})
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    unknown = sorted(set(constants) - {n.name for n in placeholders})
    if unknown:
        raise EdgeError(
            "constant without a placeholder",
            found=unknown[0],
            expected=f"one of {[n.name for n in placeholders]}",
            where="constants",
        )
    outputs = [OutputSpec(OutputKind.USER_OUTPUT, argument(a), None) for a in output_values(graph)]
    signature = ExportGraphSignature([_input_spec(n, constants) for n in placeholders], outputs)
    return EdgeProgram(root, graph, signature, constants)


def output_values(graph: fx.Graph) -> tuple[Any, ...]:
    """What the graph returns. Raises EdgeError unless that is a tuple or list."""
    node = graph.output_node()
    values = node.args[0]
    if not isinstance(values, (tuple, list)):
        raise EdgeError(
            "output in an unusual form", found=type(values).__name__, expected="a tuple of nodes", where=node.name
        )
    return tuple(values)
