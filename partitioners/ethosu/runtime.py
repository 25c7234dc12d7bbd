"""The simulated Ethos-U: loads a TOSA flatbuffer and runs it with TOSA's integer arithmetic.

`load` reads and checks everything once; what it returns is a list of prepared kernel calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import prod
from threading import Lock
from typing import Final

import torch

from npu_assay.partitioners.common.int8.buffers import Buffers
from npu_assay.partitioners.common.stored import TIMES, stored_bytes
from npu_assay.partitioners.ethosu import tosa_format
from npu_assay.partitioners.ethosu.device.operators import PRODUCTS, prepare
from npu_assay.partitioners.ethosu.device.site import DeviceError, Kernel, Site, Span, tensor_of
from npu_assay.partitioners.ethosu.device.spans import of_result, of_tensor
from npu_assay.partitioners.ethosu.kernels.numbers import DTYPES, Unpredictable
from npu_assay.partitioners.ethosu.tosa_check import completed
from npu_assay.partitioners.ethosu.tosa_model import TModel, TOperator, TShape, TTensor
from npu_assay.partitioners.exir.backend import CompileSpec

WORK_LIMIT: Final = 2**35
"""Multiplications of all operators of a graph together."""

MEMORY_LIMIT: Final = 2**26
"""Elements of all tensors of a graph together."""


class InputError(ValueError):
    """Inputs that do not fit the loaded graph."""


class UnpredictableError(InputError):
    """Inputs for which TOSA defines no result: an overflow, an index outside, ..."""


@dataclass(frozen=True)
class Port:
    """One argument of the delegate."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """One kernel call on values by tensor index; `where` names the operator."""

    kernel: Kernel
    arguments: tuple[int, ...]
    result: int
    where: str


@dataclass(frozen=True)
class Program:
    """A loaded graph: the handle that `execute` takes. `inputs` and `outputs` are as the delegate's arguments.

    `constants` has a value for each tensor that is one; `last_use`, per call, what nobody needs after it.
    """

    constants: tuple[torch.Tensor | None, ...]
    calls: tuple[Call, ...]
    last_use: tuple[tuple[int, ...], ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    places: tuple[tuple[int, ...], tuple[int, ...]]
    """Tensor indices of the inputs and of the outputs."""
    busy: AbstractContextManager[object] = field(default_factory=Lock, repr=False, compare=False)
    """Held during a run: kernels keep their memory between runs."""


class EthosURuntime:
    """The device's `Runtime`: INT8, INT16, INT32 and BOOL tensors, in the order of the delegated subgraph."""

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec] = ()) -> Program:
        """Parse and check a graph once.

        Raises FormatError for bytes that are not a TOSA graph of the integer profile, and its subclass
        DeviceError for a graph that the device cannot run.
        """
        return prepared(tosa_format.read(bytes(processed_bytes)))

    def execute(self, handle: Program, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run a program on tensors that stay as they are; the outputs are fresh.

        Raises InputError for another number of inputs, another dtype or shape, and its subclass
        UnpredictableError for numbers that TOSA defines no result for.
        """
        return run_program(handle, inputs)


def load_model(model: TModel) -> Program:
    """Check a graph and prepare its kernels. Errors as `EthosURuntime.load`."""
    tosa_format.check(model)
    return prepared(model)


def prepared(model: TModel) -> Program:
    """A program of a checked graph. Raises DeviceError for what the device cannot run."""
    total = sum(prod(tensor.shape) for tensor in model.tensors)
    most = MEMORY_LIMIT + TIMES * stored_bytes(tensor.data for tensor in model.tensors)
    if total > most:
        raise DeviceError("number of elements of all tensors", total, f"at most {most}", "graph")
    _check_work(model)
    indices = {tensor.name: index for index, tensor in enumerate(model.tensors)}
    calls = _calls(model, indices)
    inputs, outputs = (tuple(indices[name] for name in names) for names in (model.inputs, model.outputs))
    used = {index for call in calls for index in call.arguments} | set(outputs)
    return Program(
        constants=tuple(
            tensor_of(tensor.data) if tensor.data is not None and index in used else None
            for index, tensor in enumerate(model.tensors)
        ),
        calls=calls,
        last_use=_last_use(calls, {*outputs, *(i for i, each in enumerate(model.tensors) if each.data is not None)}),
        inputs=tuple(_port(model.tensors[index]) for index in inputs),
        outputs=tuple(_port(model.tensors[index]) for index in outputs),
        places=(inputs, outputs),
    )


def _check_work(model: TModel) -> None:
    """Raise DeviceError for a graph that computes more than the limit."""
    shapes = {tensor.name: tensor.shape for tensor in model.tensors}
    found = sum(_work(operator, shapes) for operator in model.operators)
    if found > WORK_LIMIT:
        raise DeviceError("multiplications of all operators", found, f"at most {WORK_LIMIT}", "graph")


def _work(operator: TOperator, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Multiplications; of a pool, numbers in its windows."""
    result = shapes[operator.outputs[0]]
    match operator.code:
        case "CONV2D" | "CONV3D":
            return prod(result) * prod(shapes[operator.inputs[1]][1:])
        case "DEPTHWISE_CONV2D":
            return prod(result) * prod(shapes[operator.inputs[1]][:2])
        case "TRANSPOSE_CONV2D":
            return prod(shapes[operator.inputs[0]][:3]) * prod(shapes[operator.inputs[1]])
        case "MATMUL":
            return prod(result) * shapes[operator.inputs[0]][-1]
        case "AVG_POOL2D" | "MAX_POOL2D":
            return prod(result) * int(prod(operator.attributes["kernel"]))
    return 0


def _port(tensor: TTensor) -> Port:
    if tensor.dtype == "INT48":
        raise DeviceError("type of an argument", tensor.dtype, "one that torch has", f"tensor {tensor.name!r}")
    return Port(tensor.name, DTYPES[tensor.dtype], tensor.shape)


def _calls(model: TModel, indices: dict[str, int]) -> tuple[Call, ...]:
    """A call for each operator; a product and the RESCALE that alone takes its result are one."""
    records: tuple[TTensor | TShape, ...] = (*model.tensors, *model.shapes)
    named = {each.name: each for each in records}
    known = {tensor.name: of_tensor(tensor) for tensor in model.tensors}
    rescales = _rescales(model)
    fused = {id(rescale) for rescale in rescales.values()}
    calls, buffers = [], Buffers()
    for position, operator in enumerate(model.operators):
        if id(operator) in fused:
            continue
        rescale = rescales.get(operator.outputs[0]) if operator.code in PRODUCTS else None
        site = site_of(operator, named, known, f"operator {position} {operator.code}", buffers)
        last = (
            None if rescale is None else site_of(rescale, named, known, f"the RESCALE of operator {position}", buffers)
        )
        step = prepare(site, last)
        bound = None if step.product is None else step.product.bound
        known[operator.outputs[0]] = of_result(site) if bound is None else (-bound, bound)
        result = indices[(operator if rescale is None else rescale).outputs[0]]
        calls.append(Call(step.kernel, tuple(indices[operator.inputs[p]] for p in step.arguments), result, site.where))
    return tuple(calls)


def _rescales(model: TModel) -> dict[str, TOperator]:
    """By tensor: the RESCALE that takes it, where nothing else needs a product's accumulators."""
    uses = Counter([*model.outputs, *(name for operator in model.operators for name in operator.inputs)])
    products = {operator.outputs[0] for operator in model.operators if operator.code in PRODUCTS}
    return {
        operator.inputs[0]: operator
        for operator in model.operators
        if operator.code == "RESCALE" and operator.inputs[0] in products and uses[operator.inputs[0]] == 1
    }


def site_of(
    operator: TOperator,
    named: dict[str, TTensor | TShape],
    known: dict[str, Span],
    where: str,
    buffers: Buffers | None = None,
) -> Site:
    """An operator with its operands by name, and what is known of their numbers."""
    result = named[operator.outputs[0]]
    assert isinstance(result, TTensor)  # tosa_check
    spans = tuple(known[name] for name in operator.inputs if name in known)
    return Site(
        completed(operator), tuple(named[name] for name in operator.inputs), where, result, spans, buffers or Buffers()
    )


def _last_use(calls: Sequence[Call], kept: set[int]) -> tuple[tuple[int, ...], ...]:
    last = {index: position for position, call in enumerate(calls) for index in (*call.arguments, call.result)}
    dead: list[list[int]] = [[] for _ in calls]
    for index, position in last.items():
        if index not in kept:
            dead[position].append(index)
    return tuple(map(tuple, dead))


def run_program(program: Program, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Run the prepared calls in order. Errors as `EthosURuntime.execute`."""
    if len(inputs) != len(program.inputs):
        raise InputError(f"device inputs: found {len(inputs)}, expected {len(program.inputs)}")
    with program.busy:
        return _run(program, inputs)


def _run(program: Program, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    values = list(program.constants)
    for index, port, tensor in zip(program.places[0], program.inputs, inputs, strict=True):
        values[index] = _accepted(port, tensor)
    for call, dead in zip(program.calls, program.last_use, strict=True):
        try:
            values[call.result] = call.kernel(*(values[index] for index in call.arguments))
        except Unpredictable as error:
            raise UnpredictableError(f"{call.where}: {error}") from error
        for index in dead:
            values[index] = None
    return [_returned(values[index], port) for index, port in zip(program.places[1], program.outputs, strict=True)]


def _accepted(port: Port, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype != port.dtype or tuple(tensor.shape) != port.shape:
        found, expected = f"{tensor.dtype} {list(tensor.shape)}", f"{port.dtype} {list(port.shape)}"
        raise InputError(f"device input {port.name!r}: found {found}, expected {expected}")
    return tensor.contiguous().detach()  # a tensor of its own, whose memory stays where it is


def _returned(value: torch.Tensor | None, port: Port) -> torch.Tensor:
    if value is None:
        raise InputError(f"device output {port.name!r}: found none, expected one from a kernel")
    return value.clone(memory_format=torch.contiguous_format)
