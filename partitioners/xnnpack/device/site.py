"""One operator of a loaded model, as the functions that prepare kernels see it.

A model that was read or checked keeps the rules of `xnn_check`: types, quantizations, options and shapes fit
together. Here are only the device's own limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any, Final

import numpy as np
import torch

from npu_assay.partitioners.common.int8.accumulate import Padding, Pair
from npu_assay.partitioners.common.int8.output import Bounds
from npu_assay.partitioners.common.machine import DeviceError, Kernel
from npu_assay.partitioners.xnnpack.kernels.output import code
from npu_assay.partitioners.xnnpack.xnn_model import Array, PerChannel, PerTensor, XNode, XValue
from npu_assay.reference.affine import Affine

ELEMENT_LIMIT: Final = 2**26
"""Elements of one value, and values that the windows of one operator gather, divided by 4."""
SIDE_LIMIT: Final = 2**17
"""Height and width of a window; the limit above bounds the work that they make."""
FLOATS: Final = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
NUMBERS: Final = {**FLOATS, "qint8": torch.int8}
"""The torch type of an argument."""


@dataclass(frozen=True)
class Site:
    """An operator and its values; an absent input is None. `where` names it in errors.

    normal: of each input, whether it is known to hold no subnormal number.
    """

    node: XNode
    inputs: tuple[XValue | None, ...]
    y: XValue
    where: str
    normal: tuple[bool, ...]

    def require(self, holds: bool, what: str, found: object, expected: str) -> None:
        """Raise DeviceError unless the rule holds."""
        if not holds:
            raise DeviceError(what, found, expected, self.where)

    def option(self, name: str) -> Any:
        """An option's value."""
        return self.node.options[name]

    def pair(self, name: str) -> Pair:
        """The options `<name>_height` and `<name>_width`."""
        return self.option(f"{name}_height"), self.option(f"{name}_width")

    def padding(self) -> Padding:
        """The cells around an image: (top, bottom), (left, right)."""
        o = self.node.options
        return ((o["padding_top"], o["padding_bottom"]), (o["padding_left"], o["padding_right"]))

    def input(self, position: int) -> XValue:
        """The value at a position that must not be left out."""
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is None:
            raise DeviceError(f"input {position}", "absent", "a value", self.where)
        return value

    @property
    def x(self) -> XValue:
        return self.input(0)

    @property
    def on_codes(self) -> bool:
        """Whether the operator works on codes throughout."""
        return self.y.dtype == "qint8" and self.x.dtype == "qint8"

    def affine(self, value: XValue) -> Affine:
        """The quantization of a value with one scale."""
        quant = value.quant
        if not isinstance(quant, PerTensor):
            raise DeviceError("quantization", type(quant).__name__, "PerTensor", self.where)
        return Affine(quant.scale, quant.zero_point)

    def limits(self) -> tuple[float, float] | None:
        """The limits of a fused activation, None when they do not limit anything."""
        return None if self.node.limits == (-inf, inf) else self.node.limits

    def codes(self, y: Affine) -> Bounds | None:
        """The limits as codes of the output."""
        found = self.limits()
        return None if found is None else (code(found[0], y), code(found[1], y))

    def data(self, position: int) -> Array:
        """The array of a constant input."""
        data = self.input(position).data
        if data is None:
            raise DeviceError(f"input {position}", "not constant", "a constant", self.where)
        return data

    def constant(self, position: int) -> torch.Tensor:
        """A fresh torch tensor of a constant input."""
        return tensor_of(self.data(position), self.input(position).dtype)

    def scales(self, position: int) -> tuple[float, ...]:
        """The scales of weights: one, or one per channel."""
        quant = self.input(position).quant
        if isinstance(quant, PerTensor):
            return (quant.scale,)
        if isinstance(quant, PerChannel):
            return tuple(float(scale) for scale in quant.scales)
        raise DeviceError("weight quantization", type(quant).__name__, "per tensor or per channel", self.where)

    def windows(self) -> None:
        """Refuse windows that would not fit the device's memory."""
        check_windows(self.node, self.x.shape, self.y.shape, self.where)


def check_windows(node: XNode, x: Sequence[int], y: Sequence[int], where: str) -> None:
    """Raise DeviceError where the windows of a pool or convolution, NHWC x to y, would not fit the device's memory."""
    found = _gathered(node, x, y)
    if found > 4 * ELEMENT_LIMIT:
        raise DeviceError("values in windows", found, f"to {4 * ELEMENT_LIMIT}", where)


def _gathered(node: XNode, x: Sequence[int], y: Sequence[int]) -> int:
    """The values that the windows of an operator hold, all places together; 0 for an operator without windows."""
    o = node.options
    if "pooling_height" in o:
        return prod((*y, o["pooling_height"], o["pooling_width"]))
    return prod((*y[:3], x[3], o["kernel_height"], o["kernel_width"])) if "kernel_height" in o else 0


def tensor_of(data: Array, dtype: str) -> torch.Tensor:
    """A fresh torch tensor of a constant; bfloat16 numbers are given by their bits."""
    if dtype == "bf16":
        return torch.from_numpy(np.array(data).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(data))


def in_float32(kernel: Kernel, dtype: str, given: str = "fp32") -> Kernel:
    """`kernel`, which computes in float32, for values of a float type: rounded to that type once, at the end.

    given: the operands' type where the result's is float32, as of bfloat16 products with float32 sums.
    """
    if dtype == given == "fp32":
        return kernel
    target = FLOATS[dtype]
    return lambda *values: kernel(*(value.float() for value in values)).to(target)


def limited(kernel: Kernel, limits: tuple[float, float] | None) -> Kernel:
    """`kernel` with its results clamped."""
    if limits is None:
        return kernel
    low, high = limits
    return lambda *values: kernel(*values).clamp(low, high)
