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

from npu_assay.partitioners.common import machine
from npu_assay.partitioners.common.int8.buffers import Buffers
from npu_assay.partitioners.common.machine import Call, DeviceError, Port, at_most, tensor_of
from npu_assay.partitioners.common.stored import TIMES, stored_bytes
from npu_assay.partitioners.ethosu import tosa_format
from npu_assay.partitioners.ethosu.device.operators import OPERATORS, of_result, prepare
from npu_assay.partitioners.ethosu.device.site import Site, Span
from npu_assay.partitioners.ethosu.device.spans import of_tensor
from npu_assay.partitioners.ethosu.kernels.numbers import DTYPES
from npu_assay.partitioners.ethosu.tosa_check import completed
from npu_assay.partitioners.ethosu.tosa_model import TModel, TOperator, TShape, TTensor
from npu_assay.partitioners.exir.backend import CompileSpec

WORK_LIMIT: Final = 2**35
"""Multiplications of all operators of a graph together."""

MEMORY_LIMIT: Final = 2**26
"""Elements of all tensors of a graph together."""


@dataclass(frozen=True)
class Program(machine.Program[Call, Port]):
    """A loaded graph: the handle that `execute` takes."""

    busy: AbstractContextManager[object] = field(default_factory=Lock, repr=False, compare=False)
    """Held during a run: kernels keep their memory between runs."""

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """One run at a time."""
        with self.busy:
            return super().run(inputs)


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
        UnpredictableError for numbers for which TOSA defines no result.
        """
        return handle.run(inputs)


def load_model(model: TModel) -> Program:
    """Check a graph and prepare its kernels. Errors as `EthosURuntime.load`."""
    tosa_format.check(model)
    return prepared(model)


def prepared(model: TModel) -> Program:
    """A program of a checked graph. Raises DeviceError for what the device cannot run."""
    total = sum(prod(tensor.shape) for tensor in model.tensors)
    most = MEMORY_LIMIT + TIMES * stored_bytes(tensor.data for tensor in model.tensors)
    at_most("number of elements of all tensors", total, most, "graph")
    _check_work(model)
    indices = {tensor.name: index for index, tensor in enumerate(model.tensors)}
    calls = _calls(model, indices)
    inputs, outputs = (
        tuple(_port(model.tensors[indices[name]], indices[name]) for name in names)
        for names in (model.inputs, model.outputs)
    )
    return Program(*machine.parts([tensor.data for tensor in model.tensors], tensor_of, calls, inputs, outputs))


def _check_work(model: TModel) -> None:
    """Raise DeviceError for a graph that computes more than the limit."""
    shapes = {tensor.name: tensor.shape for tensor in model.tensors}
    found = sum(_work(operator, shapes) for operator in model.operators)
    at_most("multiplications of all operators", found, WORK_LIMIT, "graph")


def _work(operator: TOperator, shapes: Mapping[str, tuple[int, ...]]) -> int:
    row = OPERATORS.get(operator.code)
    first, second = (*(shapes.get(name, ()) for name in operator.inputs[:2]), (), ())[:2]
    if row is None or row.work is None:
        return 0
    return row.work(shapes[operator.outputs[0]], first, second, operator.attributes)


def _port(tensor: TTensor, index: int) -> Port:
    if tensor.dtype == "INT48":
        raise DeviceError("type of an argument", tensor.dtype, "one that torch has", f"tensor {tensor.name!r}")
    return Port(tensor.name, index, DTYPES[tensor.dtype], tensor.shape)


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
        rescale = rescales.get(operator.outputs[0]) if _accumulates(operator) else None
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


def _accumulates(operator: TOperator) -> bool:
    row = OPERATORS.get(operator.code)
    return row is not None and row.accumulates


def _rescales(model: TModel) -> dict[str, TOperator]:
    """By tensor: the RESCALE that takes it, where nothing else needs a product's accumulators."""
    uses = Counter([*model.outputs, *(name for operator in model.operators for name in operator.inputs)])
    products = {operator.outputs[0] for operator in model.operators if _accumulates(operator)}
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
