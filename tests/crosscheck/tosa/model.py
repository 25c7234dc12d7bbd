"""Arm's TOSA reference model, and graphs that it and our device run. Needs tosa-tools."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import tosa_reference_model

from partitioners.ethosu.runtime import EthosURuntime, UnpredictableError
from partitioners.ethosu.tosa_check import RULES, completed
from partitioners.ethosu.tosa_format import write
from partitioners.ethosu.tosa_model import NUMPY_TYPES, TModel, TOperator, TShape, TTensor
from partitioners.ethosu.tosa_rules.use import Use

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Program:
    """A graph and numbers for its inputs."""

    model: TModel
    inputs: tuple[Array, ...]


@dataclass
class Building:
    """A graph that grows operator by operator; results have the type and shape that the rules give them."""

    operands: dict[str, TTensor | TShape] = field(default_factory=dict)
    operators: list[TOperator] = field(default_factory=list)
    inputs: dict[str, Array] = field(default_factory=dict)

    def _add(self, operand: TTensor | TShape) -> str:
        self.operands[operand.name] = operand
        return operand.name

    def _name(self) -> str:
        return f"t{len(self.operands)}"

    def input(self, array: Array, dtype: str) -> str:
        name = self._name()
        self.inputs[name] = np.asarray(array, NUMPY_TYPES[dtype])
        return self._add(TTensor(name, self.inputs[name].shape, dtype))

    def constant(self, values: npt.ArrayLike, dtype: str) -> str:
        data = np.asarray(values, NUMPY_TYPES[dtype])
        return self._add(TTensor(self._name(), data.shape, dtype, data))

    def shape(self, values: Sequence[int]) -> str:
        return self._add(TShape(self._name(), tuple(int(value) for value in values)))

    def apply(self, code: str, *operands: str, target: str = "", **attributes: Any) -> str:
        """Add an operator; `target` is its result's type where its operands leave that open."""
        operator = TOperator(code, operands, (self._name(),), attributes)
        use = Use(completed(operator), tuple(self.operands[name] for name in operands), code)
        dtype, shape = RULES[code](use, target)
        self.operators.append(operator)
        return self._add(TTensor(operator.outputs[0], shape, dtype))

    def program(self, *outputs: str) -> Program:
        tensors = tuple(each for each in self.operands.values() if isinstance(each, TTensor))
        shapes = tuple(each for each in self.operands.values() if isinstance(each, TShape))
        model = TModel(tensors, shapes, tuple(self.operators), tuple(self.inputs), outputs)
        return Program(model, tuple(self.inputs.values()))


@contextmanager
def _silent() -> Iterator[None]:
    """The reference model prints on file descriptors 1 and 2."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept, nothing = [os.dup(1), os.dup(2)], os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nothing, number)
    try:
        yield
    finally:
        for number, before in enumerate(kept, 1):
            os.dup2(before, number)
        for number in (nothing, *kept):
            os.close(number)


def run_reference(blob: bytes, inputs: Sequence[Array]) -> list[Array] | None:
    """The outputs, None where the model calls them unpredictable. Fails for a graph that it refuses."""
    with _silent():
        outputs, status = tosa_reference_model.run(blob, list(inputs))
    if status == tosa_reference_model.GraphStatus.TOSA_UNPREDICTABLE:
        return None
    assert status == tosa_reference_model.GraphStatus.TOSA_VALID, str(status)
    return list(outputs)


def run_device(blob: bytes, inputs: Sequence[Array]) -> list[Array] | None:
    """The outputs, None where the device calls them unpredictable."""
    runtime = EthosURuntime()
    try:
        outputs = runtime.execute(runtime.load(blob), [torch.from_numpy(np.array(array)) for array in inputs])
    except UnpredictableError:
        return None
    return [output.numpy() for output in outputs]


def differing(program: Program) -> tuple[int, bool]:
    """How many output numbers differ, and whether there are defined ones; a type or shape that differs counts all."""
    blob = write(program.model)
    expected, found = run_reference(blob, program.inputs), run_device(blob, program.inputs)
    if expected is None or found is None:
        return int((expected is None) != (found is None)), False
    assert len(expected) == len(found)
    count = 0
    for e, f in zip(expected, found, strict=True):
        e = np.asarray(e)
        count += e.size if (e.shape, e.dtype) != (f.shape, f.dtype) else int((e != f).sum())
    return count, True
