"""aten.upsample_* -> RESIZE."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from npu_assay.partitioners.ethosu.lowering.operation import Operation
from npu_assay.partitioners.ethosu.lowering.pooling import average
from npu_assay.partitioners.ethosu.lowering.values import Value
from npu_assay.partitioners.ethosu.lowering.windows import NHWC

TOLERANCE = 1e-6
LARGEST_SIZE = 16384
LARGEST_SCALE = 2048
DOWNSCALE = 16
"""The one factor by which bilinear resizing shrinks without RESIZE: it takes the middle two of 16 elements."""


@dataclass(frozen=True)
class Axis:
    """Positions along one axis: input = (output * denominator + offset) / numerator, in whole numbers."""

    numerator: int
    denominator: int
    offset: int
    border: int

    def is_valid(self, size: int, count: int) -> bool:
        """Whether the device takes these, and `count` outputs are what they give for `size` inputs."""
        n, d = self.numerator, self.denominator
        covered = (size - 1) * n - self.offset + self.border
        return (
            max(size, count) < LARGEST_SIZE
            and 0 < n <= LARGEST_SCALE
            and 0 < d < min(DOWNSCALE * n, 2**15)
            and -n <= self.offset < 16 * n
            and -16 * n <= self.border < n
            and count == covered // d + 1
        )


def nearest(operation: Operation) -> Value:
    """aten.upsample_nearest2d -> RESIZE: torch rounds the source position down."""
    x = operation.first
    factors = operation.arguments.get("scale_factors")
    axes = []
    for i, (size, count) in enumerate(zip(x.shape[2:], operation.shape[2:], strict=True)):
        ratio = Fraction(count, size)
        if factors:
            ratio = Fraction(factors[i]).limit_denominator(LARGEST_SCALE)
            close = abs(float(ratio) - factors[i]) <= TOLERANCE
            operation.require(close, "scale factor", factors[i], "a ratio of small numbers")
        n, d = 2 * ratio.numerator, 2 * ratio.denominator
        offset = d // 2 - n // 2 if ratio.denominator == 1 else -(n // 2)
        axes.append(Axis(n, d, offset, d * (count - 1) - n * (size - 1) + offset))
    tensor = operation.tensor(x, NHWC)
    made = _resize(operation, tensor, axes, "NEAREST", operation.model.dtype(tensor))
    return operation.result(made, NHWC, quant=None if x.quant is None else operation.quant_of(x))


def bilinear(operation: Operation) -> Value:
    """aten.upsample_bilinear2d -> RESIZE, whose weights are taken off again by a RESCALE."""
    x, aligned = operation.first, operation.arguments["align_corners"]
    pairs, quant = list(zip(x.shape[2:], operation.shape[2:], strict=True)), operation.quant_of(x)
    tensor = operation.tensor(x, NHWC)
    if not aligned and all(size == DOWNSCALE * count for size, count in pairs):
        return operation.result(_middle(operation, tensor), NHWC, quant=quant)
    axes = []
    for size, count in pairs:
        ratio = Fraction(count - 1, size - 1) if aligned and size > 1 and count > 1 else Fraction(count, size)
        n, d = 2 * ratio.numerator, 2 * ratio.denominator
        offset = 0 if aligned else d // 2 - n // 2
        axes.append(Axis(n, d, offset, d * (count - 1) - n * (size - 1) + offset))
    dtype = operation.model.dtype(tensor)
    wide = _resize(operation, tensor, axes, "BILINEAR", "INT32" if dtype == "INT8" else "INT48")
    codes = operation.rescale(wide, (1 / (axes[0].numerator * axes[1].numerator),), dtype)
    return operation.result(codes, NHWC, quant=quant)


def _middle(operation: Operation, tensor: str) -> str:
    """The average of elements 7 and 8 of every 16, along both axes."""
    operation.require(not operation.ctx.is_u55, "scale factor", 1 / DOWNSCALE, "none below 1 on this device")
    high, wide = operation.shape[2:]
    for axis, count in ((1, high), (2, wide)):
        tensor = operation.slice(tensor, axis, DOWNSCALE // 2 - 1, DOWNSCALE * (count - 1) + 2)
    pads, quant = (0, 0, 0, 0), operation.quant_of(operation.first)
    return average(operation, tensor, (high, wide), (2, 2), (DOWNSCALE, DOWNSCALE), pads, quant)


def _resize(operation: Operation, tensor: str, axes: list[Axis], mode: str, dtype: str) -> str:
    model, shape = operation.model, operation.shape
    for axis, size, count in zip(axes, model.shape(tensor)[1:3], shape[2:], strict=True):
        operation.require(axis.is_valid(size, count), "resizing", f"{size} to {count} by {axis}", "one that RESIZE has")
    scale = [number for axis in axes for number in (axis.numerator, axis.denominator)]
    operands = [
        tensor,
        model.sizes(scale),
        model.sizes([axis.offset for axis in axes]),
        model.sizes([axis.border for axis in axes]),
    ]
    return operation.emit("RESIZE", operands, (shape[0], *shape[2:], shape[1]), dtype, mode=mode)
