"""The simulated XNNPACK delegate: loads a delegate blob and runs it with XNNPACK's arithmetic.

The shapes in a blob are those that a run without other sizes has: every run infers all shapes from those of its
inputs, smaller or larger, within the device's memory. What the program allows is the program's matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import torch

from npu_assay.partitioners.exir.backend import CompileSpec
from npu_assay.partitioners.exir.flatbuffer import FormatError
from npu_assay.partitioners.xnnpack import xnn_format
from npu_assay.partitioners.xnnpack.device.operators import prepare
from npu_assay.partitioners.xnnpack.device.site import NUMBERS, DeviceError, Kernel, Site, check_windows, tensor_of
from npu_assay.partitioners.xnnpack.device.work import check_work, work
from npu_assay.partitioners.xnnpack.kernels.output import OnCodes
from npu_assay.partitioners.xnnpack.xnn_model import ABSENT, XModel, XNode, XValue
from npu_assay.partitioners.xnnpack.xnn_shapes import output_shape

MEMORY_LIMIT: Final = 2**27
"""Elements of all values of a model together."""

Shape = tuple[int, ...]

_TO_NHWC: Final = (0, 2, 3, 1)
_TO_NCHW: Final = (0, 3, 1, 2)


class InputError(ValueError):
    """Inputs that do not fit the loaded model."""


@dataclass(frozen=True)
class Port:
    """One argument: its value, and whether its torch tensor is [N, C, H, W] of channels-last memory, or a scalar.

    `bounds` is the blob's shape; of an open size, the program's limit or the size that it was exported with.
    """

    value: int
    dtype: torch.dtype
    bounds: Shape
    channels_last: bool
    is_scalar: bool


@dataclass(frozen=True)
class Call:
    """One kernel call on values by index; `node` and `operands` give the result's shape."""

    kernel: Kernel
    arguments: tuple[int, ...]
    result: int
    node: XNode
    operands: tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """A loaded model: the handle that `execute` takes. `last_use` has, per call, the values nobody needs after it."""

    values: tuple[XValue, ...]
    constants: tuple[torch.Tensor | None, ...]
    calls: tuple[Call, ...]
    last_use: tuple[tuple[int, ...], ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


class XnnpackRuntime:
    """The device's `Runtime`: float32, float16 and int8 tensors, in the order of the delegated subgraph."""

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec] = ()) -> Program:
        """Parse and check a blob once.

        Raises FormatError for bytes that are not a delegate blob, and its subclass DeviceError for a model
        that the device cannot run.
        """
        return prepared(xnn_format.read(bytes(processed_bytes)))

    def load_named(
        self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec], named_data: Mapping[str, bytes]
    ) -> Program:
        """As `load`, for a blob of ExecuTorch's compiler, whose constants lie beside it under their names."""
        return prepared(xnn_format.read(bytes(processed_bytes), named_data))

    def execute(self, handle: Program, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run a program on tensors that stay as they are; the outputs are fresh.

        Raises InputError for another number of inputs, another dtype or rank, for shapes that do not fit together,
        and for more than the device's memory.
        """
        return run_program(handle, inputs)


def load_model(model: XModel) -> Program:
    """Check a model and prepare its kernels. Errors as `XnnpackRuntime.load`."""
    xnn_format.check(model)
    return prepared(model)


def prepared(model: XModel) -> Program:
    """A program of a checked model. Raises DeviceError for what the device cannot run."""
    _check_memory(value.shape for value in model.values)
    found = _work(model.nodes, model.values, [value.shape for value in model.values])
    check_work(found, _stored(model.values), "model")
    calls = _on_steps(model, [_call(model, position, node) for position, node in enumerate(model.nodes)])
    used = {index for call in calls for index in call.arguments} | set(model.outputs)
    return Program(
        values=model.values,
        constants=tuple(
            tensor_of(value.data, value.dtype) if value.data is not None and index in used else None
            for index, value in enumerate(model.values)
        ),
        calls=calls,
        last_use=_last_use(model, calls),
        inputs=tuple(_port(model, index) for index in model.inputs),
        outputs=tuple(_port(model, index) for index in model.outputs),
    )


def run_program(program: Program, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Run the prepared calls in order. Errors as `XnnpackRuntime.execute`."""
    if len(inputs) != len(program.inputs):
        raise InputError(f"device inputs: found {len(inputs)}, expected {len(program.inputs)}")
    values = list(program.constants)
    for position, (port, tensor) in enumerate(zip(program.inputs, inputs, strict=True)):
        values[port.value] = _accepted(port, tensor, position)
    if any(tuple(_of(values, port.value).shape) != port.bounds for port in program.inputs):
        _check_shapes(program, values)
    for call, dead in zip(program.calls, program.last_use, strict=True):
        values[call.result] = call.kernel(*(values[index] for index in call.arguments))
        for index in dead:
            values[index] = None
    return [_returned(port, _of(values, port.value)) for port in program.outputs]


def _check_memory(shapes: Iterable[Shape]) -> None:
    total = sum(prod(shape) for shape in shapes)
    if total > MEMORY_LIMIT:
        raise DeviceError("number of elements of all values", total, f"at most {MEMORY_LIMIT}", "model")


def _stored(values: Iterable[XValue]) -> int:
    """Bytes of the constants."""
    return sum(value.data.nbytes for value in values if value.data is not None)


def _work(nodes: Iterable[XNode], values: Sequence[XValue], shapes: Sequence[Shape] | Mapping[int, Shape]) -> int:
    """What all nodes compute, for values of these shapes."""
    operands = [(node, [index for index in node.inputs if index != ABSENT]) for node in nodes]
    return sum(
        work(node, values[given[0]].dtype, [shapes[index] for index in given], shapes[node.outputs[0]])
        for node, given in operands
    )


def _check_shapes(program: Program, values: Sequence[torch.Tensor | None]) -> None:
    """Raise InputError unless all shapes follow from those of the inputs, and the device has memory for them."""
    shapes = {index: value.shape for index, value in enumerate(program.values)}
    for port in program.inputs:
        shapes[port.value] = tuple(_of(values, port.value).shape)
    try:
        for call in program.calls:
            operands = [shapes[index] for index in call.operands]
            shapes[call.result] = output_shape(call.node, operands)
            check_windows(call.node, operands[0], shapes[call.result], call.node.op)
        _check_memory(shapes.values())
        found = _work([call.node for call in program.calls], program.values, shapes)
        check_work(found, _stored(program.values), "model")
    except FormatError as error:
        given = [list(shapes[port.value]) for port in program.inputs]
        raise InputError(f"device input shapes {given}: {error}") from error


def _call(model: XModel, position: int, node: XNode) -> Call:
    site = Site(
        node,
        tuple(None if index == ABSENT else model.values[index] for index in node.inputs),
        model.values[node.outputs[0]],
        f"node {position} {node.op}",
    )
    step = prepare(site)
    operands = tuple(index for index in node.inputs if index != ABSENT)
    return Call(step.kernel, tuple(node.inputs[p] for p in step.arguments), node.outputs[0], node, operands)


def _on_steps(model: XModel, calls: Sequence[Call]) -> tuple[Call, ...]:
    """The calls, with codes left out between kernels that go on from each other's steps."""
    makers = {call.result: call for call in calls if isinstance(call.kernel, OnCodes) and call.kernel.found is not None}
    used_as_codes = {index for call in calls if not isinstance(call.kernel, OnCodes) for index in call.arguments} | set(
        model.outputs
    )
    steps = makers.keys() - used_as_codes
    return tuple(_going_on(call, steps) for call in calls)


def _going_on(call: Call, steps: Set[int]) -> Call:
    if not isinstance(call.kernel, OnCodes):
        return call
    kernel = call.kernel.between([index in steps for index in call.arguments], call.result in steps)
    return replace(call, kernel=kernel)


def _last_use(model: XModel, calls: Sequence[Call]) -> tuple[tuple[int, ...], ...]:
    last: dict[int, int] = {}
    for position, call in enumerate(calls):
        for index in (*call.arguments, call.result):
            last[index] = position
    kept = set(model.outputs)
    return tuple(
        tuple(index for index, use in last.items() if use == position and index not in kept)
        for position in range(len(calls))
    )


def _port(model: XModel, index: int) -> Port:
    value = model.values[index]
    if value.dtype not in NUMBERS:
        raise DeviceError("type of an argument", value.dtype, f"one of {sorted(NUMBERS)}", f"value {index}")
    return Port(index, NUMBERS[value.dtype], value.shape, index in model.channels_last, index in model.scalars)


def _accepted(port: Port, tensor: torch.Tensor, position: int) -> torch.Tensor:
    shape = tuple(tensor.shape)
    if port.channels_last and len(shape) == 4:
        tensor = tensor.permute(_TO_NHWC)
    elif port.is_scalar and not shape:
        tensor = tensor.reshape(1)
    fits = len(tensor.shape) == len(port.bounds) and all(tensor.shape)
    if tensor.dtype != port.dtype or not fits:
        # No largest size: as XNNPACK, the device makes room for larger tensors than the blob was written for.
        found, expected = f"{tensor.dtype} {list(shape)}", f"{port.dtype} of rank {len(port.bounds)}, sizes 1 or more"
        raise InputError(f"device input {position}: found {found}, expected {expected}")
    return tensor.contiguous()


def _of(values: Sequence[torch.Tensor | None], index: int) -> torch.Tensor:
    value = values[index]
    if value is None:
        raise InputError(f"device value {index}: found none, expected one from a kernel")
    return value


def _returned(port: Port, value: torch.Tensor) -> torch.Tensor:
    fresh = value.clone(memory_format=torch.contiguous_format)
    if port.is_scalar:
        return fresh.reshape(())
    return fresh.permute(_TO_NCHW) if port.channels_last else fresh
