"""The simulated XNNPACK delegate: loads a delegate blob and runs it with XNNPACK's arithmetic.

The shapes in a blob are defaults: every run infers all shapes from those of its inputs, smaller or larger, within the
device's memory. The program's limits of dynamic shapes are checked by `run_program`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import torch

from npu_assay.partitioners.common import machine
from npu_assay.partitioners.common.machine import Call, DeviceError, InputError, Values, at_most, existing
from npu_assay.partitioners.exir.backend import CompileSpec
from npu_assay.partitioners.exir.flatbuffer import FormatError
from npu_assay.partitioners.xnnpack import xnn_format
from npu_assay.partitioners.xnnpack.device.elementwise import without_subnormals
from npu_assay.partitioners.xnnpack.device.operators import RULES
from npu_assay.partitioners.xnnpack.device.scheduling import together
from npu_assay.partitioners.xnnpack.device.site import NUMBERS, Site, check_windows, tensor_of
from npu_assay.partitioners.xnnpack.device.work import check_work, work
from npu_assay.partitioners.xnnpack.kernels.output import OnCodes
from npu_assay.partitioners.xnnpack.xnn_model import ABSENT, XModel, XNode, XValue
from npu_assay.partitioners.xnnpack.xnn_shapes import output_shape

MEMORY_LIMIT: Final = 2**27
"""Elements of all values of a model together."""

Shape = tuple[int, ...]

_TO_NHWC: Final = (0, 2, 3, 1)
_TO_NCHW: Final = (0, 3, 1, 2)


@dataclass(frozen=True)
class Port:
    """One argument: its value, and whether its torch tensor is [N, C, H, W] of channels-last memory, or a scalar.

    `bounds` is the blob's shape; of a dynamic size, the program's limit or the size with which it was exported.
    """

    position: int
    value: int
    dtype: torch.dtype
    bounds: Shape
    channels_last: bool
    is_scalar: bool

    def accepted(self, tensor: torch.Tensor) -> torch.Tensor:
        """The value of an input. Raises InputError for another dtype or rank."""
        if tensor.shape == self.bounds and tensor.dtype == self.dtype and not self.channels_last:
            return tensor.contiguous()  # most of them: a small model spends more on its inputs than on some operators
        shape = tuple(tensor.shape)
        if self.channels_last and len(shape) == 4:
            tensor = tensor.permute(_TO_NHWC)
        elif self.is_scalar and not shape:
            tensor = tensor.reshape(1)
        fits = len(tensor.shape) == len(self.bounds) and all(tensor.shape)
        if tensor.dtype != self.dtype or not fits:
            # No largest size: as XNNPACK, the device makes room for larger tensors than the blob was written for.
            found = f"{tensor.dtype} {list(shape)}"
            expected = f"{self.dtype} of rank {len(self.bounds)}, sizes 1 or more"
            raise InputError(f"device input {self.position}: found {found}, expected {expected}")
        return tensor.contiguous()

    def returned(self, value: torch.Tensor) -> torch.Tensor:
        """A fresh tensor of an output."""
        fresh = value.clone(memory_format=torch.contiguous_format)
        if self.is_scalar:
            return fresh.reshape(())
        return fresh.permute(_TO_NCHW) if self.channels_last else fresh


@dataclass(frozen=True)
class Program(machine.Program[Call, Port]):
    """A loaded model: the handle that `execute` takes. `values` and `nodes` are as in the blob."""

    values: tuple[XValue, ...]
    nodes: tuple[XNode, ...]

    def check(self, values: Values) -> None:
        """Raise InputError unless the inputs' shapes, where they are not the blob's, fit each other and the memory."""
        if any(existing(values, port.value).shape != port.bounds for port in self.inputs):
            _check_shapes(self, values)


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
        return handle.run(inputs)


def load_model(model: XModel) -> Program:
    """Check a model and prepare its kernels. Errors as `XnnpackRuntime.load`."""
    xnn_format.check(model)
    return prepared(model)


def prepared(model: XModel) -> Program:
    """A program of a checked model. Raises DeviceError for what the device cannot run."""
    _check_memory(value.shape for value in model.values)
    found = _work(model.nodes, model.values, [value.shape for value in model.values])
    check_work(found, _stored(model.values), "model")
    normal = {node.outputs[0] for node in model.nodes if without_subnormals(node)}
    calls = _on_steps(model, [_call(model, normal, position, node) for position, node in enumerate(model.nodes)])
    calls = together(model, calls)
    inputs, outputs = (
        tuple(_port(model, position, index) for position, index in enumerate(indices))
        for indices in (model.inputs, model.outputs)
    )
    constants = [None if value.data is None else value for value in model.values]
    return Program(*machine.parts(constants, _tensor_of, calls, inputs, outputs), model.values, model.nodes)


def _tensor_of(value: XValue) -> torch.Tensor:
    assert value.data is not None
    return tensor_of(value.data, value.dtype)


def _check_memory(shapes: Iterable[Shape]) -> None:
    at_most("number of elements of all values", sum(map(prod, shapes)), MEMORY_LIMIT, "model")


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


def _check_shapes(program: Program, values: Values) -> None:
    """Raise InputError unless all shapes follow from those of the inputs, and the device has memory for them."""
    shapes = {index: value.shape for index, value in enumerate(program.values)}
    for port in program.inputs:
        shapes[port.value] = tuple(existing(values, port.value).shape)
    try:
        for node in program.nodes:
            operands = [shapes[index] for index in node.inputs if index != ABSENT]
            shapes[node.outputs[0]] = result = output_shape(node, operands)
            check_windows(node, operands[0], result, node.op)
        _check_memory(shapes.values())
        found = _work(program.nodes, program.values, shapes)
        check_work(found, _stored(program.values), "model")
    except FormatError as error:
        given = [list(shapes[port.value]) for port in program.inputs]
        raise InputError(f"device input shapes {given}: {error}") from error


def _call(model: XModel, normal: Set[int], position: int, node: XNode) -> Call:
    site = Site(
        node,
        tuple(None if index == ABSENT else model.values[index] for index in node.inputs),
        model.values[node.outputs[0]],
        f"node {position} {node.op}",
        tuple(index in normal for index in node.inputs),
    )
    step = machine.prepare(RULES, node.op, site)
    return Call(step.kernel, tuple(node.inputs[p] for p in step.arguments), node.outputs[0], site.where)


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


def _port(model: XModel, position: int, index: int) -> Port:
    value = model.values[index]
    if value.dtype not in NUMBERS:
        raise DeviceError("type of an argument", value.dtype, f"one of {sorted(NUMBERS)}", f"value {index}")
    channels_last, is_scalar = index in model.channels_last, index in model.scalars
    return Port(position, index, NUMBERS[value.dtype], value.shape, channels_last, is_scalar)
