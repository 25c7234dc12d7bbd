"""Writes an edge program node by node, with a fake value on every node and a signature at the end."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
    StrictMinMaxConstraint,
)
from torch.utils._sympy.value_ranges import ValueRanges

from npu_assay.conformance.common.memory import keep, once
from npu_assay.conformance.programs.edge_form import Output, edge_form, layer_in_parts
from npu_assay.partitioners.exir.ops import DEQUANTIZE, QUANTIZE, edge_op, node_name
from npu_assay.partitioners.exir.program import EdgeProgram

Meta = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]  # shape, strides, type
_CPU = torch.device("cpu")
# Operators whose shape function in C++ takes or gives no open sizes; torch has another one, in Python.
_SYMBOLIC_IN_PYTHON = frozenset(
    {
        "aten.constant_pad_nd.default",
        "aten.permute_copy.default",
        "aten.slice_copy.Tensor",
        "aten.upsample_bilinear2d.vec",
    }
)
LINEAR = "torch.nn.modules.linear.Linear"
OPEN_LIMIT = 2
"""Largest symbolic size, as a multiple of the size that the case runs with."""


@dataclass(frozen=True)
class _Like:
    """Stands for a tensor argument of which only shape, strides and type matter."""

    meta: Meta


@dataclass(frozen=True)
class _Constant:
    """A number, name or None as it was written: 1, 1.0 and True are equal but make tensors of different types."""

    kind: type
    value: Any


def _meta(tensor: Tensor) -> Meta:
    return tuple(tensor.shape), tensor.stride(), tensor.dtype


def _is_real(value: Any) -> bool:
    """Whether an operator's (first) result holds real numbers."""
    first = value[0] if isinstance(value, tuple) else value
    return bool(first.dtype.is_floating_point)


def _empty(meta: Meta) -> Tensor:
    shape, stride, dtype = meta
    return torch.empty_strided(shape, stride, dtype=dtype, device="meta")


def _hashable(argument: Any) -> Any:
    if isinstance(argument, fx.Node):
        return _Like(_meta(argument.meta["val"]))
    if isinstance(argument, list | tuple):
        return tuple(_hashable(item) for item in argument)
    return _Constant(type(argument), argument)


def _tensors(argument: Any) -> Any:
    if isinstance(argument, _Like):
        return _empty(argument.meta)
    if isinstance(argument, tuple):
        return [_tensors(item) for item in argument]
    return argument.value if isinstance(argument, _Constant) else argument


@keep(16384)
def _infer(op: str, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...]) -> tuple[bool, list[Meta]]:
    """Shape, strides and type of an operator's outputs, by running it on tensors without data.

    The first item says whether the operator returns a list or tuple.
    """
    result = edge_op(op)(*(_tensors(item) for item in args), **{key: _tensors(item) for key, item in kwargs})
    return (False, [_meta(result)]) if isinstance(result, Tensor) else (True, [_meta(item) for item in result])


@once
def _mode() -> FakeTensorMode:
    """The mode of all fake values here: making one takes as long as writing five nodes, and it keeps no tensors."""
    return FakeTensorMode()


@dataclass
class EdgeWriter:
    """A graph under construction. Buffers are declared first, then user inputs, then everything else."""

    graph: fx.Graph = field(default_factory=fx.Graph)
    mode: FakeTensorMode = field(default_factory=_mode)
    buffers: dict[str, tuple[str, Tensor]] = field(default_factory=dict)  # placeholder -> (target, tensor)
    first_input: fx.Node | None = None
    step: str | None = None
    preserve: frozenset[str] = frozenset()
    open: bool = False  # whether some sizes are symbols
    mark: str = ""  # a quantizer's note on nodes of steps, "" for none
    marked: frozenset[str] = frozenset()  # steps that carry it; others do when their result is no real number

    def open_sizes(self) -> None:
        """Let user inputs have symbolic sizes; the program gets a mode, and so a set of symbols, of its own."""
        self.mode, self.open = FakeTensorMode(shape_env=ShapeEnv()), True

    def buffer(self, name: str, tensor: Tensor) -> fx.Node:
        """The placeholder of a constant that `state_dict` holds as `name`."""
        return self._buffer(f"b_{name}", name, tensor)

    def _buffer(self, placeholder: str, target: str, tensor: Tensor) -> fx.Node:
        self.buffers[placeholder] = (target, tensor)
        return self._placeholder(placeholder, _meta(tensor))

    def user_input(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: torch.dtype = torch.float32,
        dynamic: tuple[int, ...] = (),
        channels_last: bool = False,
    ) -> fx.Node:
        """The placeholder of a model input; the sizes of the axes `dynamic` are symbols."""
        node = self.graph.placeholder(name)
        layout = torch.channels_last if channels_last else torch.contiguous_format
        like = torch.empty(shape, dtype=dtype, device="meta", memory_format=layout)
        node.meta["val"] = self._symbolic(name, like, dynamic) if dynamic else self._fake(_meta(like))
        self.first_input = node if self.first_input is None else self.first_input
        return node

    def _placeholder(self, name: str, meta: Meta) -> fx.Node:
        node = self.graph.placeholder(name)
        node.meta["val"] = self._fake(meta)
        return node

    def _symbolic(self, name: str, like: Tensor, dynamic: tuple[int, ...]) -> Tensor:
        """A fake tensor with one symbol per open axis, 1 to `OPEN_LIMIT` times the size that the case runs with.

        As torch.export has it, a size of 0 is never open; nor is a dimension that the tensor does not have.
        """
        dynamic = tuple(axis for axis in dynamic if axis < like.dim() and like.shape[axis])
        kinds = [DimDynamic.DYNAMIC if axis in dynamic else DimDynamic.STATIC for axis in range(like.dim())]
        bounds: list[Any] = [
            StrictMinMaxConstraint(warn_only=False, vr=ValueRanges(1, OPEN_LIMIT * like.shape[axis]))
            if axis in dynamic
            else None
            for axis in range(like.dim())
        ]
        context: StatelessSymbolicContext[Any, Any] = StatelessSymbolicContext(
            dynamic_sizes=kinds, constraint_sizes=bounds
        )
        source = ConstantSource(name)
        return self.mode.from_tensor(torch.empty(like.shape, dtype=like.dtype), source=source, symbolic_context=context)

    def scalar(self, number: float) -> fx.Node:
        """A number as `to_edge` lifts it: a 0-d buffer, numbered by the buffers before it."""
        name = f"_lifted_tensor_constant{len(self.buffers)}"
        with self.graph.inserting_before(self.first_input):
            return self._buffer(name, name, torch.tensor(number))

    def emit(self, op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> fx.Node:
        """Append one operator application. Raises what torch raises for arguments that do not fit."""
        if op == "getitem":
            return self._append(operator.getitem, op, args, kwargs, args[0].meta["val"][args[1]])
        return self._append(edge_op(op), node_name(op), args, kwargs, self._value(op, args, kwargs))

    def _append(self, target: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], value: Any) -> fx.Node:
        # `create_node` looks into the arguments it is given for symbolic numbers; there are none here.
        node = self.graph.create_node("call_function", target, name=name)
        node.args = tuple(args)
        if kwargs:
            node.kwargs = dict(kwargs)
        node.meta["val"] = value
        if self.step is not None:
            node.meta["step"] = self.step
            if self.mark and (self.step in self.marked or not _is_real(value)):
                node.meta["custom"] = {self.mark: {"quantized": True}}
        return node

    def _value(self, op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if op in QUANTIZE or op in DEQUANTIZE:
            shape, stride, _ = _meta(args[0].meta["val"])
            return self._fake((shape, stride, args[-1] if op in QUANTIZE else kwargs.get("out_dtype", torch.float32)))
        if self.open:
            return self._run(op, args, kwargs)
        many, meta = _infer(
            op, tuple(map(_hashable, args)), tuple((key, _hashable(item)) for key, item in kwargs.items())
        )
        values = tuple(self._fake(item) for item in meta)
        return values if many else values[0]

    def _run(self, op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The fake value of an operator on fake values that may have symbolic sizes."""

        def value(node: fx.Node) -> Any:
            return node.meta["val"]

        dispatcher = enable_python_dispatcher() if op in _SYMBOLIC_IN_PYTHON else nullcontext()
        with dispatcher, self.mode:
            result = edge_op(op)(*fx.node.map_arg(tuple(args), value), **fx.node.map_arg(dict(kwargs), value))
        return tuple(result) if isinstance(result, list | tuple) else result

    def _fake(self, meta: Meta) -> FakeTensor:
        return FakeTensor(self.mode, _empty(meta), _CPU)

    def apply(self, step: str, op: str, args: Sequence[Any], kwargs: Mapping[str, Any], parts: bool = False) -> Output:
        """Write one step in its edge form; its nodes carry the step's name.

        parts: a linear layer is decomposed even if it is preserved, and its nodes, the last operands' dequantize nodes
        among them, say that they come from one `torch.nn.Linear`, as those of an exported module do.
        """
        self.step, first = step, len(self.graph.nodes)
        form = layer_in_parts if parts else partial(edge_form, whole=op in self.preserve)
        output = form(self.emit, self.scalar, op, args, kwargs)
        self.step = None
        if parts:
            for node in (*args[1:], *list(self.graph.nodes)[first:]):
                if isinstance(node, fx.Node) and node.op == "call_function":
                    node.meta["nn_module_stack"] = {step: (step, LINEAR)}
        return output

    def program(self, outputs: Sequence[fx.Node]) -> ExportedProgram:
        """Close the graph: it returns `outputs`, and items that nobody uses go."""
        self.graph.output(tuple(outputs))
        for node in [n for n in self.graph.nodes if n.target is operator.getitem and not n.users]:
            self.graph.erase_node(node)
        inputs = [self._spec(node.name) for node in self.graph.nodes if node.op == "placeholder"]
        specs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in outputs]
        state = dict(self.buffers.values())
        signature = ExportGraphSignature(inputs, specs)
        ranges = dict(self.mode.shape_env.var_to_range) if self.open and self.mode.shape_env is not None else {}
        return EdgeProgram(torch.nn.Module(), self.graph, signature, state, ranges, verify=False)

    def _spec(self, name: str) -> InputSpec:
        if name in self.buffers:
            return InputSpec(InputKind.BUFFER, TensorArgument(name), self.buffers[name][0], persistent=True)
        return InputSpec(InputKind.USER_INPUT, TensorArgument(name), None)
