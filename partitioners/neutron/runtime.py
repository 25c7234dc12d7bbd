"""The simulated Neutron NPU: loads a TFLite flatbuffer and runs it with integer kernels.

The numbers are those of TensorFlow Lite's reference kernels. `load` reads and checks everything once:
shapes, quantisation, options, memory; what it returns is a list of prepared kernel calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import torch

from npu_assay.partitioners.common.stored import TIMES, stored_bytes
from npu_assay.partitioners.exir.backend import CompileSpec
from npu_assay.partitioners.neutron import neutron_io, tflite
from npu_assay.partitioners.neutron.device.fusion import fused_operators
from npu_assay.partitioners.neutron.device.operators import prepare
from npu_assay.partitioners.neutron.device.site import ELEMENT_LIMIT, DeviceError, Kernel, Site
from npu_assay.partitioners.neutron.tflite_model import Model, Operator, Tensor

WORK_LIMIT: Final = 2**35
"""Multiplications of all operators of a model together, of which 2^30 take about 0.1 s."""

MEMORY_LIMIT: Final = 2**25
"""Elements of all tensors of a model together."""


class InputError(ValueError):
    """Inputs that do not fit the loaded model."""


@dataclass(frozen=True)
class Port:
    """One input or output as the caller sees it: `perm` brings it to (or from) the device's format."""

    name: str
    tensor: int
    shape: tuple[int, ...]
    perm: tuple[int, ...] | None


@dataclass(frozen=True)
class Call:
    """One kernel call on values by tensor index."""

    kernel: Kernel
    arguments: tuple[int, ...]
    result: int


@dataclass(frozen=True)
class Program:
    """A loaded model: the handle that `execute` takes."""

    constants: tuple[torch.Tensor | None, ...]
    calls: tuple[Call, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


class NeutronRuntime:
    """The device's `Runtime`: int8 in, int8 out, in the order of the delegated subgraph."""

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec] = ()) -> Program:
        """Parse and check a blob once.

        Raises FormatError for bytes that are not a TFLite model, and its subclass DeviceError for a model
        that breaks a rule of the device.
        """
        return load_model(tflite.read(bytes(processed_bytes)))

    def execute(self, handle: Program, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run a program on int8 tensors of the model's input shapes, which stay as they are.

        Raises InputError for another number of inputs, another dtype or another shape.
        """
        return run_program(handle, inputs)


def load_model(model: Model) -> Program:
    """Prepare a model that `tflite.check` accepts. Raises DeviceError for what the device cannot run."""
    _check_memory(model)
    flags = neutron_io.decode(model.metadata.get(neutron_io.KEY), len(model.inputs), len(model.outputs))
    calls = tuple(_call(model, position, operator) for position, operator in fused_operators(model).items())
    return Program(
        constants=_constants(model, calls),
        calls=calls,
        inputs=tuple(_input(model, i, flag) for i, flag in zip(model.inputs, flags[0], strict=True)),
        outputs=tuple(_output(model, i, flag) for i, flag in zip(model.outputs, flags[1], strict=True)),
    )


def run_program(program: Program, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Run the prepared calls in order. The outputs are fresh, contiguous tensors."""
    if len(inputs) != len(program.inputs):
        raise InputError(f"device inputs: found {len(inputs)}, expected {len(program.inputs)}")
    values = list(program.constants)
    for port, tensor in zip(program.inputs, inputs, strict=True):
        values[port.tensor] = _accepted(port, tensor)
    with torch.inference_mode():  # spares every call the bookkeeping for gradients
        for call in program.calls:
            values[call.result] = call.kernel(*[values[index] for index in call.arguments])
    return [_returned(port, values[port.tensor]) for port in program.outputs]


def _check_memory(model: Model) -> None:
    """Limits for models that a few bytes say; those whose weights are larger have as much again as they store."""
    stored = stored_bytes(tensor.data for tensor in model.tensors)
    most, all_together = max(ELEMENT_LIMIT, stored), MEMORY_LIMIT + TIMES * stored
    for index, tensor in enumerate(model.tensors):
        if not 1 <= prod(tensor.shape) <= most:
            expected = f"1 to {most}"
            raise DeviceError("number of elements", prod(tensor.shape), expected, f"tensor {index} {tensor.name!r}")
    total = sum(prod(tensor.shape) for tensor in model.tensors)
    if total > all_together:
        raise DeviceError("number of elements of all tensors", total, f"at most {all_together}", "model")
    found = sum(_work(operator, model) for operator in model.operators)
    if found > WORK_LIMIT:
        raise DeviceError("multiplications of all operators", found, f"at most {WORK_LIMIT}", "model")


def _work(operator: Operator, model: Model) -> int:
    """Multiplications, at most; of a pool, numbers in its windows."""
    shapes = [model.tensors[index].shape for index in operator.inputs if index >= 0]
    result = prod(model.tensors[operator.outputs[0]].shape) if operator.outputs else 0
    match operator.code:
        case "CONV_2D" | "DEPTHWISE_CONV_2D" if len(shapes) > 1:
            return result * prod(shapes[1][1:])
        case "TRANSPOSE_CONV" if len(shapes) > 2:
            return prod(shapes[2]) * prod(shapes[1][:3])
        case "FULLY_CONNECTED" if len(shapes) > 1:
            return result * prod(shapes[1][1:])
        case "BATCH_MATMUL" if shapes and len(shapes[0]) > 1:
            return result * shapes[0][-2 if operator.options.get("adj_x") else -1]
        case "AVERAGE_POOL_2D" | "MAX_POOL_2D":
            return result * int(operator.options.get("filter_height", 1) * operator.options.get("filter_width", 1))
    return 0


def _call(model: Model, position: int, operator: Operator) -> Call:
    site = Site(
        operator,
        tuple(None if index < 0 else model.tensors[index] for index in operator.inputs),
        tuple(model.tensors[index] for index in operator.outputs),
        f"operator {position} {operator.code}",
    )
    step = prepare(site)
    return Call(step.kernel, tuple(operator.inputs[p] for p in step.arguments), operator.outputs[0])


def _constants(model: Model, calls: Sequence[Call]) -> tuple[torch.Tensor | None, ...]:
    """Values that kernels take as arguments or that are outputs; parameters are in the kernels already."""
    used = {index for call in calls for index in call.arguments} | set(model.outputs)
    return tuple(
        torch.from_numpy(tensor.data.copy()) if index in used and tensor.data is not None else None
        for index, tensor in enumerate(model.tensors)
    )


def _input(model: Model, index: int, channels_first: bool) -> Port:
    tensor = _int8(model, index)
    if not channels_first:
        return Port(tensor.name, index, tensor.shape, None)
    rank = len(tensor.shape)
    shape = tuple(tensor.shape[axis] for axis in neutron_io.to_channels_first(rank))
    return Port(tensor.name, index, shape, neutron_io.to_channels_last(rank))


def _output(model: Model, index: int, channels_first: bool) -> Port:
    tensor = _int8(model, index)
    perm = neutron_io.to_channels_first(len(tensor.shape)) if channels_first else None
    return Port(tensor.name, index, tensor.shape, perm)


def _int8(model: Model, index: int) -> Tensor:
    tensor = model.tensors[index]
    if tensor.dtype != "int8":
        raise DeviceError("dtype", tensor.dtype, "int8", f"model input or output {tensor.name!r}")
    return tensor


def _accepted(port: Port, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype != torch.int8 or tuple(tensor.shape) != port.shape:
        found, expected = f"{tensor.dtype} {list(tensor.shape)}", f"torch.int8 {list(port.shape)}"
        raise InputError(f"device input {port.name!r}: found {found}, expected {expected}")
    return tensor.contiguous() if port.perm is None else tensor.permute(port.perm).contiguous()


def _returned(port: Port, value: torch.Tensor | None) -> torch.Tensor:
    if value is None:
        raise InputError(f"device output {port.name!r}: found no value, expected one from a kernel")
    value = value if port.perm is None else value.permute(port.perm)
    return value.clone(memory_format=torch.contiguous_format)
