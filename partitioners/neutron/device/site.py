"""One operator of a loaded model, with the checks that every operator's rules are made of.

A rule either holds or refuses the model with what was found, what is expected, and which operator it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import torch

from npu_assay.partitioners.common.machine import DeviceError, at_most, tensor_of
from npu_assay.partitioners.neutron.tflite_model import Operator, Tensor
from npu_assay.reference.affine import Affine

Shape = tuple[int, ...]

SCALE_LIMITS: Final = (2.0**-40, 2.0**40)
"""Scales the device takes; products and quotients of three such scales stay within float32."""
RATIO_LIMIT: Final = 2.0**30
"""A rescale's ratio stays under this: its multiplier's left shift then is at most 30."""
ELEMENT_LIMIT: Final = 2**23
"""Elements of one tensor, padded inputs included."""
WINDOW_LIMIT: Final = 2**26
"""Values that a window operator gathers: outputs x taps."""
SIDE_LIMIT: Final = 2**17
"""Height and width of a window, and of a resized image; the limits above bound the work that they make."""
WORK_LIMIT: Final = 2**34
"""Multiply-accumulates of one operator."""


@dataclass(frozen=True)
class Site:
    """An operator and its tensors. `where` names it in errors."""

    operator: Operator
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    where: str

    def require(self, holds: bool, what: str, found: object, expected: str) -> None:
        """Raise DeviceError unless the rule holds."""
        if not holds:
            raise DeviceError(what, found, expected, self.where)

    def option(self, name: str) -> Any:
        """An option's value; a model that was read has all of them."""
        return self.operator.options[name]

    def input(self, position: int) -> Tensor:
        """The tensor at a position that must not be left out."""
        tensor = self.inputs[position] if position < len(self.inputs) else None
        if tensor is None:
            raise DeviceError(f"input {position}", "absent", "a tensor", self.where)
        return tensor

    @property
    def x(self) -> Tensor:
        return self.input(0)

    @property
    def y(self) -> Tensor:
        return self.outputs[0]

    def affine(self, tensor: Tensor) -> Affine:
        """The quantization of an int8 tensor with one scale."""
        self.require(tensor.dtype == "int8", f"dtype of {tensor.name!r}", tensor.dtype, "int8")
        self.require(len(tensor.scales) == 1, f"scales of {tensor.name!r}", len(tensor.scales), "one per tensor")
        return Affine(self.scale(tensor, tensor.scales[0]), tensor.zero_points[0])

    def scale(self, tensor: Tensor, scale: float) -> float:
        """The scale, when the device can take it."""
        low, high = SCALE_LIMITS
        self.require(low <= scale <= high, f"scale of {tensor.name!r}", scale, f"from {low} to {high}")
        return scale

    def ratio(self, ratio: float) -> None:
        """Refuse a rescale that shifts out of 32 bits."""
        self.require(ratio < RATIO_LIMIT, "ratio of scales", ratio, f"less than {RATIO_LIMIT}")

    def same_quantisation(self, tensor: Tensor, other: Tensor) -> None:
        """Data movement keeps codes, so both tensors must mean the same by them."""
        found = (other.scales, other.zero_points)
        expected = (tensor.scales, tensor.zero_points)
        self.require(found == expected, f"quantization of {other.name!r}", found, f"{expected} as {tensor.name!r}")

    def fixed_output(self, scale: float, zero_point: int) -> None:
        """Refuse any other output quantization."""
        found = (self.y.scales, self.y.zero_points)
        self.require(found == ((scale,), (zero_point,)), "output quantization", found, f"{scale}, {zero_point}")

    def output_shape(self, expected: Sequence[int]) -> None:
        """Refuse an output whose shape is not the one the operator makes."""
        found = tuple(self.y.shape)
        self.require(found == tuple(expected), "output shape", list(found), str(list(expected)))

    def rank(self, tensor: Tensor, rank: int) -> None:
        self.require(len(tensor.shape) == rank, f"shape of {tensor.name!r}", list(tensor.shape), f"rank {rank}")

    def constant(self, position: int, dtype: str) -> torch.Tensor:
        """A fresh torch tensor of a constant input."""
        tensor = self.input(position)
        self.require(tensor.dtype == dtype, f"dtype of {tensor.name!r}", tensor.dtype, dtype)
        if tensor.data is None:
            raise DeviceError(f"input {position}", f"{tensor.name!r}, not constant", "a constant", self.where)
        return tensor_of(tensor.data)

    def integers(self, position: int, length: int) -> tuple[int, ...]:
        """The numbers of a constant int32 vector."""
        values = self.constant(position, "int32")
        self.require(values.shape == (length,), f"shape of input {position}", list(values.shape), f"[{length}]")
        return tuple(values.tolist())

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front."""
        self.require(-rank <= axis < rank, "axis", axis, f"from {-rank} to {rank - 1}")
        return axis % rank

    def elements(self, shape: Sequence[int], limit: int = ELEMENT_LIMIT, what: str = "elements") -> None:
        """Refuse what would not fit the device's memory, or take it too long."""
        at_most(f"number of {what}", prod(shape), limit, self.where)

    def accumulator(self, terms: int, *factors: Affine, bias: int = 0) -> None:
        """Refuse sums of so many products of int8 codes, less their zero points, that could leave 32 bits."""
        largest = terms * prod(max(127 - x.zero_point, x.zero_point + 128) for x in factors) + bias
        self.require(largest < 2**31, "accumulator", f"up to {largest}", "less than 2**31")

    def no_fused_activation(self) -> None:
        name = self.option("fused_activation_function")
        self.require(name == "NONE", "fused_activation_function", name, "NONE")
