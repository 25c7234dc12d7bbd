"""One operator of a loaded graph, as the functions that prepare kernels see it.

A graph that was read or checked keeps the rules of `tosa_check`: kinds, types, shapes and attributes fit
together. Here are only the device's own limits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Final

import torch

from npu_assay.partitioners.common import machine
from npu_assay.partitioners.common.int8.accumulate import Padding
from npu_assay.partitioners.common.int8.buffers import Buffers, Place
from npu_assay.partitioners.common.machine import DeviceError, at_most, tensor_of
from npu_assay.partitioners.ethosu.kernels.linear import Product
from npu_assay.partitioners.ethosu.kernels.numbers import Codes, codes
from npu_assay.partitioners.ethosu.tosa_model import TTensor
from npu_assay.partitioners.ethosu.tosa_rules.use import Use

Span = tuple[int, int]
"""The least and the largest number that a tensor can hold."""

ELEMENT_LIMIT: Final = 2**26
"""Elements that one operator may gather: padded images, windows, products."""


@dataclass(frozen=True)
class Step(machine.Step):
    """A prepared operator. `product`: of products, whose kernel does not give INT32 or INT48 yet."""

    product: Product | None = None


@dataclass(frozen=True)
class Site(Use):
    """An operator, its operands with their spans, and its result `y`."""

    y: TTensor
    spans: tuple[Span, ...]
    buffers: Buffers = field(default_factory=Buffers)

    @property
    def place(self) -> Place:
        """Where the operator's kernel runs."""
        return Place(self.buffers, self.x.shape, self.y.shape)

    def tensor(self, position: int) -> TTensor:
        operand = self.operands[position]
        if not isinstance(operand, TTensor):
            raise DeviceError(f"operand {position}", "a shape", "a tensor", self.where)
        return operand

    def data(self, position: int) -> torch.Tensor:
        """A fresh torch tensor of a constant operand."""
        data = self.tensor(position).data
        if data is None:
            raise DeviceError(f"operand {position}", "computed", "a constant", self.where)
        return tensor_of(data)

    def is_constant(self, position: int) -> bool:
        return self.tensor(position).data is not None

    def number(self, position: int) -> int:
        """The only number of a constant operand."""
        return int(self.data(position))

    def codes(self, position: int, zero_point: int, unsigned: bool = False) -> Codes:
        """The type of an operand with the zero point in another one."""
        return codes(self.tensor(position).dtype, self.number(zero_point), unsigned)

    def padding(self) -> Padding:
        top, bottom, left, right = self.attribute("pad")
        return ((top, bottom), (left, right))

    def gathers(self, *sizes: int) -> None:
        """Refuse an operator that would not fit the device's memory."""
        at_most("elements to gather", prod(sizes), ELEMENT_LIMIT, self.where)

    def pads(self) -> None:
        """Refuse paddings that make images larger than the device's memory."""
        pad, sides = self.attribute("pad"), self.x.shape[1:-1]
        padded = [n + pad[2 * axis] + pad[2 * axis + 1] for axis, n in enumerate(sides)]
        self.gathers(self.x.shape[0], *padded, max(self.x.shape[-1], self.y.shape[-1]))
