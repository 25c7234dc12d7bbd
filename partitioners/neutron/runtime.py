"""The simulated Neutron NPU: loads a TFLite flatbuffer and runs it with integer kernels.

The numbers are those of TensorFlow Lite's reference kernels. `load` reads and checks everything once:
shapes, quantization, options, memory; what it returns is a list of prepared kernel calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

import torch

from npu_assay.partitioners.common import machine
from npu_assay.partitioners.common.machine import Call, DeviceError, Port, at_most, tensor_of
from npu_assay.partitioners.common.stored import TIMES, stored_bytes
from npu_assay.partitioners.exir.backend import CompileSpec
from npu_assay.partitioners.exir.layout import arranged, to_channels_first, to_channels_last
from npu_assay.partitioners.neutron import neutron_io, tflite
from npu_assay.partitioners.neutron.device.fusion import fused_operators
from npu_assay.partitioners.neutron.device.operators import prepare
from npu_assay.partitioners.neutron.device.site import ELEMENT_LIMIT, Site
from npu_assay.partitioners.neutron.tflite_model import Model, Operator

WORK_LIMIT: Final = 2**35
"""Multiplications of all operators of a model together, of which 2^30 take about 0.1 s."""

MEMORY_LIMIT: Final = 2**25
"""Elements of all tensors of a model together."""


Program = machine.Program[Call, Port]
"""A loaded model: the handle that `execute` takes."""


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
        return handle.run(inputs)


def load_model(model: Model) -> Program:
    """Prepare a model that `tflite.check` accepts. Raises DeviceError for what the device cannot run."""
    _check_memory(model)
    flags = neutron_io.decode(model.metadata.get(neutron_io.KEY), len(model.inputs), len(model.outputs))
    calls = tuple(_call(model, position, operator) for position, operator in fused_operators(model).items())
    inputs, outputs = (
        tuple(_port(model, index, flag) for index, flag in zip(tensors, first, strict=True))
        for tensors, first in zip((model.inputs, model.outputs), flags, strict=True)
    )
    return Program(*machine.parts([tensor.data for tensor in model.tensors], tensor_of, calls, inputs, outputs))


def _check_memory(model: Model) -> None:
    """Limits for models that a few bytes say; those whose weights are larger have as much again as they store."""
    stored = stored_bytes(tensor.data for tensor in model.tensors)
    most, all_together = max(ELEMENT_LIMIT, stored), MEMORY_LIMIT + TIMES * stored
    for index, tensor in enumerate(model.tensors):
        if not 1 <= prod(tensor.shape) <= most:
            expected = f"1 to {most}"
            raise DeviceError("number of elements", prod(tensor.shape), expected, f"tensor {index} {tensor.name!r}")
    total = sum(prod(tensor.shape) for tensor in model.tensors)
    at_most("number of elements of all tensors", total, all_together, "model")
    found = sum(_work(operator, model) for operator in model.operators)
    at_most("multiplications of all operators", found, WORK_LIMIT, "model")


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
            return result * int(operator.options["filter_height"] * operator.options["filter_width"])
    return 0


def _call(model: Model, position: int, operator: Operator) -> Call:
    site = Site(
        operator,
        tuple(None if index < 0 else model.tensors[index] for index in operator.inputs),
        tuple(model.tensors[index] for index in operator.outputs),
        f"operator {position} {operator.code}",
    )
    step = prepare(site)
    return Call(step.kernel, tuple(operator.inputs[p] for p in step.arguments), operator.outputs[0], site.where)


def _port(model: Model, index: int, channels_first: bool) -> Port:
    """An argument, whose value is channels-last; the caller may have it channels-first."""
    tensor = model.tensors[index]
    if tensor.dtype != "int8":
        raise DeviceError("dtype", tensor.dtype, "int8", f"model input or output {tensor.name!r}")
    shape, rank = tensor.shape, len(tensor.shape)
    if not channels_first:
        return Port(tensor.name, index, torch.int8, shape)
    first = arranged(shape, to_channels_first(rank))
    return Port(tensor.name, index, torch.int8, first, to_channels_last(rank))
