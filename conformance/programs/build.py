"""From a case's plain data to programs: its numbers, its edge program, and the module it stands for.

`build` writes the edge program directly (an `fx.Graph` with fake values, about a millisecond);
`module` is the same model as torch sees it, for `torch.export`. A test proves on every table row that
`to_edge(torch.export.export(module(graph)))` is the program that `build` writes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram

from npu_assay.conformance.common.memory import remember
from npu_assay.conformance.programs.edge_form import Emit, Output, aten_form, returns_indices, returns_many
from npu_assay.conformance.programs.graph import (
    ChannelsLast,
    Fill,
    Graph,
    LayerInParts,
    Quant,
    Ref,
    Step,
    Value,
    references,
)
from npu_assay.partitioners.exir.ops import (
    CHOOSE_QPARAMS_PER_TENSOR,
    CHOOSE_QPARAMS_PER_TOKEN,
    DEQUANTIZE_PER_CHANNEL,
    DEQUANTIZE_PER_GROUP,
    DEQUANTIZE_PER_TENSOR,
    DEQUANTIZE_PER_TENSOR_DYNAMIC,
    DEQUANTIZE_PER_TOKEN,
    GETITEM,
    QUANTIZE_PER_CHANNEL,
    QUANTIZE_PER_TENSOR,
    QUANTIZE_PER_TENSOR_DYNAMIC,
    QUANTIZE_PER_TOKEN,
    edge_op,
)

DTYPES: Mapping[str, torch.dtype] = {name: getattr(torch, name) for name in ("int8", "uint8", "int16", "int32")}
"""The storage range of each code type: what quantize and dequantize nodes are given."""
REALS: Mapping[str, torch.dtype] = {
    **{name: getattr(torch, name) for name in ("float16", "bfloat16", "float32", "float64")},
    **DTYPES,
    **{name: getattr(torch, name) for name in ("int64", "bool")},
}
"""The types of plain numbers."""
CODES = (-128, 127)
"""The codes of an activation that is quantized at run time."""
EPSILON = 2.0**-12
"""The smallest scale that such an activation may get: what PT2E's observers use."""


# ------------------------------------------------------------------------------------ numbers


@remember(512)
def materialise(value: Value) -> Tensor:
    """The numbers of a value: integer codes of `value.quant.dtype`, or `value.dtype` when it is not quantized.

    The tensor is shared between calls: read it, never write it. Raises ValueError for an unknown fill.
    """
    if value.quant is None:
        return _plain(value).to(REALS[value.dtype])
    codes = _codes(value.shape, value.fill, value.quant)
    return codes.to(DTYPES[value.quant.dtype])


def _repeated(numbers: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`numbers` one after another, from the start again when they run out, in shape `shape`."""
    index = torch.arange(math.prod(shape)) % numbers.numel()
    return numbers[index].reshape(shape)


def _codes(shape: tuple[int, ...], fill: Fill, quant: Quant) -> Tensor:
    """int64 codes within [quant.qmin, quant.qmax]."""
    low, high, zero = quant.qmin, quant.qmax, quant.zero_point
    if fill.kind == "random":
        return torch.randint(low, high + 1, shape, generator=torch.Generator().manual_seed(fill.seed))
    if fill.kind == "one_hot":
        codes = torch.full((math.prod(shape),), zero)
        codes[fill.index] = high
        return codes.reshape(shape)
    if fill.kind == "list":
        return _repeated(torch.tensor(fill.values).to(torch.int64).clamp(low, high), shape)
    if fill.kind == "reals" and not isinstance(quant.scale, tuple):
        # As the program's quantize node has it: a product in float32 may lie on a tie that the quotient misses.
        steps = torch.tensor(fill.values) * torch.tensor(1.0 / quant.scale)
        return _repeated(steps.round().add_(zero).clamp_(low, high).to(torch.int64), shape)
    if fill.kind in ("all_codes", "ramp"):
        return torch.arange(math.prod(shape)).remainder(high - low + 1).add(low).reshape(shape)
    constants = {"min": (low,), "max": (high,), "zero": (zero,), "alternating": (low, high)}
    if fill.kind not in constants:
        raise ValueError(
            f"no numbers of fill {fill.kind!r}: expected random, one_hot, list, ramp, all_codes or {[*constants]}"
        )
    return _repeated(torch.tensor(constants[fill.kind]), shape)


def _plain(value: Value) -> Tensor:
    """Numbers that are not quantized: whole ones within int8 for integers, two of them for booleans."""
    dtype = REALS[value.dtype]
    if dtype.is_floating_point or value.fill.kind == "list":
        return _floats(value.shape, value.fill)
    bounds = (0, 1) if dtype == torch.bool else (0, 255) if dtype == torch.uint8 else (-128, 127)
    return _codes(value.shape, value.fill, Quant(1.0, 0, *bounds))


def _floats(shape: tuple[int, ...], fill: Fill) -> Tensor:
    """float32 numbers: uniform in [-4, 4) for "random", the listed ones for "list", else codes / 32."""
    if fill.kind == "random":
        return torch.rand(shape, generator=torch.Generator().manual_seed(fill.seed)) * 8 - 4
    if fill.kind == "list":
        return _repeated(torch.tensor(fill.values, dtype=torch.float32), shape)
    return _codes(shape, fill, Quant(1.0)).to(torch.float32) / 32


def model_inputs(graph: Graph) -> tuple[Tensor, ...]:
    """The model's inputs. A quantized one is scale * (code - zero point), or reals: quantizing it gives the codes."""
    return tuple(_real(value) for value in graph.inputs)


def _real(value: Value) -> Tensor:
    numbers = _reals(value)
    return numbers.to(memory_format=torch.channels_last) if _is_channels_last(value) else numbers


def _is_channels_last(value: Value) -> bool:
    """Whether it is an image of that layout; a search may have given it other dimensions."""
    return isinstance(value, ChannelsLast) and len(value.shape) == 4


def _reals(value: Value) -> Tensor:
    codes, quant = materialise(value), value.quant
    if quant is None:
        return codes
    if value.fill.kind == "reals":
        return _floats(value.shape, replace(value.fill, kind="list"))
    scale = quant.scale
    if isinstance(scale, tuple):
        sizes = [-1 if axis == quant.axis else 1 for axis in range(codes.dim())]
        scales = torch.tensor(scale, dtype=torch.float32).reshape(sizes)
        return (codes.to(torch.float32) - quant.zero_point) * scales
    return (codes.to(torch.float32) - quant.zero_point) * scale


def _scale(name: str, quant: Quant) -> float:
    if isinstance(quant.scale, tuple):
        raise ValueError(f"{name}: found {len(quant.scale)} scales, expected one")
    return quant.scale


# ------------------------------------------------------------------------------------ the walk

Apply = Callable[[Step, list[Any]], Output]  # writes one operator application on float nodes


@dataclass
class _Model:
    """The nodes that references stand for while a model is being written.

    `emit` appends a quantize or dequantize node. Float nodes are unquantized values and steps;
    integer nodes are quantized ones; per-channel constants also have a scale and a zero point node.
    """

    emit: Emit
    floats: dict[Ref, fx.Node] = field(default_factory=dict)
    codes: dict[Ref, tuple[fx.Node, Quant]] = field(default_factory=dict)
    channels: dict[Ref, tuple[fx.Node, fx.Node]] = field(default_factory=dict)

    def dequantised(self, ref: Ref) -> fx.Node:
        """The float node of a reference; a quantized one gets a new dequantize node each time."""
        if ref in self.floats:
            return self.floats[ref]
        node, quant = self.codes[ref]
        if quant.group is not None:
            args = (node, *self.channels[ref], *_range(quant), quant.group, torch.float32)
            return self.emit(DEQUANTIZE_PER_GROUP, args, {})
        if ref in self.channels:
            return self.emit(DEQUANTIZE_PER_CHANNEL, (node, *self.channels[ref], quant.axis, *_range(quant)), {})
        return self.emit(DEQUANTIZE_PER_TENSOR, (node, *_per_tensor(ref.name, quant)), {})

    def define(self, ref: Ref, node: fx.Node, quant: Quant | None) -> None:
        """Record the float node of a reference, quantized when it has a quantization."""
        if quant is None:
            self.floats[ref] = node
        elif ref in self.channels:
            args = (node, *self.channels[ref], quant.axis, *_range(quant))
            self.codes[ref] = (self.emit(QUANTIZE_PER_CHANNEL, args, {}), quant)
        else:
            self.codes[ref] = (self.emit(QUANTIZE_PER_TENSOR, (node, *_per_tensor(ref.name, quant)), {}), quant)


def _range(quant: Quant) -> tuple[int, int, torch.dtype]:
    """Code range and type as in quantize nodes; an int32 bias spans its type, whatever its fill."""
    low, high = (-(2**31), 2**31 - 1) if quant.dtype == "int32" else (quant.qmin, quant.qmax)
    return low, high, DTYPES[quant.dtype]


def _per_tensor(name: str, quant: Quant) -> tuple[Any, ...]:
    return (_scale(name, quant), quant.zero_point, *_range(quant))


def _substitute(argument: Any, nodes: Mapping[Ref, fx.Node]) -> Any:
    """Arguments as fx wants them: nodes for references, lists for tuples."""
    if isinstance(argument, Ref):
        return nodes[argument]
    if isinstance(argument, tuple):
        return [_substitute(item, nodes) for item in argument]
    return argument


def _write_step(model: _Model, step: Step, used: set[Ref], apply: Apply) -> None:
    """Dequantize each distinct operand once, apply the operator, quantize each consumed output."""
    nodes: dict[Ref, fx.Node] = {}
    for ref in references(step.args):
        if ref not in nodes:
            nodes[ref] = model.dequantised(ref)
    if step.dynamic is not None:
        first = references(step.args)[0]
        nodes[first] = _quantised_at_run_time(model.emit, nodes[first], step.dynamic)
    output = apply(step, [_substitute(argument, nodes) for argument in step.args])
    items = {index: output(index) for index in range(step.outputs) if Ref(step.name, index) in used}
    for index, node in items.items():
        model.define(Ref(step.name, index), node, None if returns_indices(step.op, index) else step.quant)


@dataclass(frozen=True)
class _RunTime:
    """The operators of a quantization whose parameters the program computes; `last` ends dequantize's arguments."""

    choose: str
    arguments: tuple[Any, ...]
    quantize: str
    dequantize: str
    last: tuple[Any, ...] = ()


_RUN_TIME: Mapping[str, _RunTime] = {
    "per_tensor": _RunTime(
        CHOOSE_QPARAMS_PER_TENSOR,
        (*CODES, EPSILON, torch.int8),
        QUANTIZE_PER_TENSOR_DYNAMIC,
        DEQUANTIZE_PER_TENSOR_DYNAMIC,
    ),
    "per_token": _RunTime(
        CHOOSE_QPARAMS_PER_TOKEN, (torch.int8,), QUANTIZE_PER_TOKEN, DEQUANTIZE_PER_TOKEN, (torch.float32,)
    ),
}


def _quantised_at_run_time(emit: Emit, node: fx.Node, how: str) -> fx.Node:
    """Choose parameters for a real tensor, quantize it, dequantize it."""
    ops = _RUN_TIME[how]
    chosen = emit(ops.choose, (node, *ops.arguments), {})
    scale, zero_point = (emit(GETITEM, (chosen, index), {}) for index in (0, 1))
    parameters = (scale, zero_point, *CODES, torch.int8)
    return emit(ops.dequantize, (emit(ops.quantize, (node, *parameters), {}), *parameters, *ops.last), {})


def _write(model: _Model, graph: Graph, apply: Apply) -> list[fx.Node]:
    """Write everything after the placeholders; returns the output nodes."""
    for value in graph.values:
        ref = Ref(value.name)
        if not value.constant and value.quant is not None:
            model.define(ref, model.floats.pop(ref), value.quant)
    used = {ref for step in graph.steps for ref in references(step.args)} | set(graph.outputs)
    for step in graph.steps:
        _write_step(model, step, used, apply)
    return [model.dequantised(ref) for ref in graph.outputs]


def _bind(model: _Model, graph: Graph, nodes: Mapping[str, fx.Node]) -> None:
    """Tell the model which node holds each value's numbers, and which ones the scales of channels."""
    for value in graph.values:
        ref = Ref(value.name)
        if not value.constant or value.quant is None:
            model.floats[ref] = nodes[value.name]
        else:
            model.codes[ref] = (nodes[value.name], value.quant)
        if has_channels(value.quant):
            model.channels[ref] = (nodes[f"{value.name}_scale"], nodes[f"{value.name}_zero_point"])
    for step in graph.steps:
        if has_channels(step.quant):
            both = (nodes[f"{step.name}_scale"], nodes[f"{step.name}_zero_point"])
            model.channels |= {Ref(step.name, index): both for index in range(step.outputs)}


def _buffers(graph: Graph) -> dict[str, Tensor]:
    """Constants in order, per-channel ones with scales (float32) and zero points (int64); those of results last."""
    buffers: dict[str, Tensor] = {}
    for value in graph.values:
        if value.constant:
            buffers[value.name] = materialise(value)
        if value.quant is not None and isinstance(value.quant.scale, tuple):
            scale = torch.tensor(value.quant.scale, dtype=torch.float32)
            if value.quant.group is not None:
                scale = scale.reshape(value.shape[0], -1)
            buffers[f"{value.name}_scale"] = scale
            buffers[f"{value.name}_zero_point"] = torch.full(scale.shape, value.quant.zero_point)
    for step in graph.steps:
        if step.quant is not None and isinstance(step.quant.scale, tuple):
            scale = torch.tensor(step.quant.scale, dtype=torch.float32)
            buffers[f"{step.name}_scale"] = scale
            buffers[f"{step.name}_zero_point"] = torch.full(scale.shape, step.quant.zero_point)
    return buffers


def has_channels(quant: Quant | None) -> bool:
    """Whether there are several scales: one per channel, or per group."""
    return quant is not None and isinstance(quant.scale, tuple)


# ------------------------------------------------------------------------------------ torch module


def module(graph: Graph) -> nn.Module:
    """The model as a torch module: ATen operators and quantize/dequantize, constants as buffers."""
    written = fx.Graph()
    buffers = _buffers(graph)
    nodes = {name: written.get_attr(name) for name in buffers}
    nodes |= {value.name: written.placeholder(value.name) for value in graph.values if not value.constant}

    def emit(op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> fx.Node:
        if op == GETITEM:
            return written.call_function(operator.getitem, tuple(args))
        return written.call_function(edge_op(op)._op, tuple(args), dict(kwargs))

    def apply(step: Step, args: list[Any]) -> Output:
        node = aten_form(written, step.op, args, dict(step.kwargs))
        return lambda index: written.call_function(operator.getitem, (node, index)) if returns_many(step.op) else node

    model = _Model(emit)
    _bind(model, graph, nodes)
    written.output(tuple(_write(model, graph, apply)))
    root = nn.Module()
    for name, tensor in buffers.items():
        root.register_buffer(name, tensor)
    return fx.GraphModule(root, written)


# ------------------------------------------------------------------------------------ edge program


def quantised_steps(graph: Graph) -> frozenset[str]:
    """The steps that a quantizer deals with: those whose result is quantized, or that of the next, if they fuse.

    Of an operator between real numbers, though, no quantizer takes note; one without operands is the next one's.
    """
    own = {step.name for step in graph.steps if step.quant is not None}
    quantised = own | {value.name for value in graph.values if value.quant is not None}
    before = {ref.name for step in graph.steps if step.name in own for ref in references(step.args)}

    def is_marked(step: Step) -> bool:
        operands = {ref.name for ref in references(step.args)}
        return step.name in own or (step.name in before and (not operands or bool(operands & quantised)))

    return frozenset(step.name for step in graph.steps if is_marked(step))


def build(graph: Graph, preserve: Collection[str] = (), mark: str = "") -> ExportedProgram:
    """The model as an edge program. Every node of a step carries the step's name in `meta["step"]`.

    preserve: operators that `to_edge` is told not to decompose. mark: the name of a quantizer's note on the nodes of
    quantized steps (`quantised_steps`), "" for none. Raises EdgeError when an operator refuses its
    arguments.
    """
    from npu_assay.conformance.programs.edge_writer import EdgeWriter  # late: half a second that goldens do without

    writer = EdgeWriter(preserve=frozenset(preserve), mark=mark, marked=quantised_steps(graph) if mark else frozenset())
    if any(value.dynamic for value in graph.values):
        writer.open_sizes()
    nodes = {name: writer.buffer(name, tensor) for name, tensor in _buffers(graph).items()}
    for value in graph.values:
        if not value.constant:
            dtype = torch.float32 if value.quant is not None else REALS[value.dtype]
            last = _is_channels_last(value)
            nodes[value.name] = writer.user_input(value.name, value.shape, dtype, value.dynamic, last)
    model = _Model(writer.emit)
    _bind(model, graph, nodes)

    def apply(step: Step, args: list[Any]) -> Output:
        return writer.apply(step.name, step.op, args, dict(step.kwargs), isinstance(step, LayerInParts))

    return writer.program(_write(model, graph, apply))
