"""One operator of a graph with its operands, as the rules see it, and what many rules share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from npu_assay.partitioners.ethosu.tosa_model import Array, TOperator, TShape, TTensor
from npu_assay.partitioners.exir.flatbuffer import FormatError

RANK_LIMIT: Final = 6
SIDE_LIMIT: Final = 8192
"""Kernels, strides and paddings (level 8K)."""

INTEGERS: Final = ("INT8", "INT16", "INT32")
DATA: Final = ("BOOL", *INTEGERS)

Shape = tuple[int, ...]
Result = tuple[str, Shape]
"""Type and shape of an operator's only result."""


@dataclass(frozen=True)
class Use:
    """An operator and its operands, which are of the kinds it asks for. `where` names it in errors."""

    operator: TOperator
    operands: tuple[TTensor | TShape, ...]
    where: str

    def require(self, holds: bool, what: str, found: object, expected: str) -> None:
        """Raise FormatError unless the rule holds."""
        if not holds:
            raise FormatError(what, found, expected, self.where)

    def within(self, what: str, found: int, low: int, high: int) -> None:
        self.require(low <= found <= high, what, found, f"from {low} to {high}")

    @property
    def code(self) -> str:
        return self.operator.code

    def attribute(self, name: str) -> Any:
        return self.operator.attributes[name]

    @property
    def tensors(self) -> list[TTensor]:
        """The operands that are not SHAPE constants."""
        return [each for each in self.operands if isinstance(each, TTensor)]

    @property
    def x(self) -> TTensor:
        """The first operand."""
        return self.tensors[0]

    def shape(self, position: int) -> Shape:
        """The numbers of a SHAPE operand."""
        operand = self.operands[position]
        if not isinstance(operand, TShape):
            raise FormatError(f"operand {position}", "a tensor", "a SHAPE constant", self.where)
        return operand.values

    def constant(self, position: int, dtype: str, shape: Shape) -> Array:
        """The data of a constant operand of that type and shape."""
        operand = self.operands[position]
        if not isinstance(operand, TTensor) or operand.data is None:
            raise FormatError(f"operand {position}", "computed", "a constant tensor", self.where)
        found = f"{operand.dtype} {list(operand.shape)}"
        self.require(
            (operand.dtype, operand.shape) == (dtype, shape), f"operand {position}", found, f"{dtype} {list(shape)}"
        )
        return operand.data

    def zero_point(self, position: int, dtype: str) -> None:
        """Refuse a zero point other than 0 for types that have none."""
        data = self.constant(position, dtype, (1,))
        self.require(dtype == "INT8" or not data.any(), f"zero point of {dtype}", data.item(), "0")

    def types(self, *allowed: str) -> str:
        """The type that all tensors have, one of those allowed."""
        return self.same_type(self.tensors, allowed)

    def same_type(self, tensors: Sequence[TTensor], allowed: Collection[str]) -> str:
        found = [tensor.dtype for tensor in tensors]
        kinds = set(found)
        self.require(len(kinds) == 1 and kinds <= set(allowed), "types", found, f"one of {list(allowed)} for all")
        return kinds.pop()

    def rank(self, tensor: TTensor, rank: int) -> None:
        self.require(len(tensor.shape) == rank, "rank", len(tensor.shape), str(rank))

    def axis(self) -> int:
        """The attribute of that name, checked against the first operand."""
        axis = self.attribute("axis")
        self.require(0 <= axis < len(self.x.shape), "axis", axis, f"from 0 to {len(self.x.shape) - 1}")
        return int(axis)

    def sides(self, name: str, count: int, low: int) -> tuple[int, ...]:
        """An attribute with one number per side: strides, paddings, ..."""
        found = self.attribute(name)
        holds = len(found) == count and all(low <= each <= SIDE_LIMIT for each in found)
        self.require(holds, name, found, f"{count} numbers from {low} to {SIDE_LIMIT}")
        return tuple(found)

    def broadcast(self, tensors: Sequence[TTensor]) -> Shape:
        """The common shape of tensors of one rank whose sizes agree or are 1."""
        shapes = [tensor.shape for tensor in tensors]
        result = tuple(map(max, zip(*shapes, strict=True))) if len({len(each) for each in shapes}) == 1 else None
        holds = result is not None and all(n in (1, m) for shape in shapes for n, m in zip(shape, result, strict=True))
        self.require(holds, "shapes", [list(each) for each in shapes], "one rank, sizes equal or 1")
        return result or ()
