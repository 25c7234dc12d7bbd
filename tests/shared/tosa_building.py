"""TOSA graphs that grow operator by operator, with numbers for their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_assay.partitioners.ethosu.tosa_check import RULES, completed
from npu_assay.partitioners.ethosu.tosa_model import NUMPY_TYPES, TModel, TOperator, TShape, TTensor
from npu_assay.partitioners.ethosu.tosa_rules.use import Use

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
