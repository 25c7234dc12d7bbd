"""Questions to the rules that TOSA has for one operator, without a graph around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npu_assay.partitioners.ethosu.tosa_check import RULES, completed
from npu_assay.partitioners.ethosu.tosa_model import NUMPY_TYPES, TOperator, TShape, TTensor
from npu_assay.partitioners.ethosu.tosa_rules.use import Use

Operand = TTensor | TShape


@dataclass(frozen=True)
class Asked:
    """One operator on operands, and `target`, the type of its result where they leave that open."""

    code: str
    operands: tuple[Operand, ...]
    attributes: dict[str, Any]
    target: str

    def result(self) -> tuple[str, tuple[int, ...]]:
        """What the rules give. Raises FormatError for what they refuse."""
        names = tuple(operand.name for operand in self.operands)
        operator = completed(TOperator(self.code, names, ("y",), self.attributes))
        return RULES[self.code](Use(operator, self.operands, "here"), self.target)


def ask(code: str, *operands: Operand, target: str = "", **attributes: Any) -> Asked:
    return Asked(code, operands, attributes, target)


def t(dtype: str, *shape: int) -> TTensor:
    """A computed tensor."""
    return TTensor("t", shape, dtype)


def c(dtype: str, *numbers: int) -> TTensor:
    """A constant list."""
    data = np.asarray(numbers, NUMPY_TYPES[dtype])
    return TTensor("c", data.shape, dtype, data)


def s(*numbers: int) -> TShape:
    """A list of sizes."""
    return TShape("s", numbers)


ZERO, ZERO16, ZERO32 = c("INT8", 0), c("INT16", 0), c("INT32", 0)


@dataclass(frozen=True)
class Answers:
    """What is accepted, with the type and shape of its result; what is refused, with what the error says."""

    accepted: list[tuple[Asked, str, tuple[int, ...]]] = field(default_factory=list)
    refused: list[tuple[Asked, str]] = field(default_factory=list)

    def accept(self, asked: Asked, dtype: str, *shape: int) -> None:
        self.accepted.append((asked, dtype, shape))

    def refuse(self, asked: Asked, message: str) -> None:
        self.refused.append((asked, message))
