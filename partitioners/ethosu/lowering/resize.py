"""aten.upsample_* -> RESIZE."""

from __future__ import annotations

from npu_assay.partitioners.ethosu.lowering.operation import Operation
from npu_assay.partitioners.ethosu.lowering.pooling import average
from npu_assay.partitioners.ethosu.lowering.values import Value
from npu_assay.partitioners.ethosu.lowering.windows import NHWC
from npu_assay.partitioners.ethosu.support.resize import Axis, axes

DOWNSCALE = 16
"""The one factor by which bilinear resizing shrinks without RESIZE: it takes the middle two of 16 elements."""


def nearest(operation: Operation) -> Value:
    """aten.upsample_nearest2d -> RESIZE: torch rounds the source position down."""
    x = operation.first
    tensor = operation.tensor(x, NHWC)
    made = _resize(operation, tensor, axes(operation.node), "NEAREST", operation.model.dtype(tensor))
    return operation.result(made, NHWC, quant=None if x.quant is None else operation.quant_of(x))


def bilinear(operation: Operation) -> Value:
    """aten.upsample_bilinear2d -> RESIZE, whose weights are taken off again by a RESCALE."""
    x, found, quant = operation.first, axes(operation.node), operation.quant_of(operation.first)
    tensor = operation.tensor(x, NHWC)
    smallest = all(axis.denominator == DOWNSCALE * axis.numerator for axis in found)
    if smallest and not operation.arguments["align_corners"]:
        return operation.result(_middle(operation, tensor), NHWC, quant=quant)
    dtype = operation.model.dtype(tensor)
    wide = _resize(operation, tensor, found, "BILINEAR", "INT32" if dtype == "INT8" else "INT48")
    codes = operation.rescale(wide, (1 / (found[0].numerator * found[1].numerator),), dtype)
    return operation.result(codes, NHWC, quant=quant)


def _middle(operation: Operation, tensor: str) -> str:
    """The average of elements 7 and 8 of every 16, along both axes."""
    operation.require(not operation.ctx.is_u55, "scale factor", 1 / DOWNSCALE, "none below 1 on this device")
    high, wide = operation.shape[2:]
    for axis, count in ((1, high), (2, wide)):
        tensor = operation.slice(tensor, axis, DOWNSCALE // 2 - 1, DOWNSCALE * (count - 1) + 2)
    pads, quant = (0, 0, 0, 0), operation.quant_of(operation.first)
    return average(operation, tensor, (high, wide), (2, 2), (DOWNSCALE, DOWNSCALE), pads, quant)


def _resize(operation: Operation, tensor: str, found: list[Axis], mode: str, dtype: str) -> str:
    model, shape = operation.model, operation.shape
    for axis in found:
        operation.require(axis.defect() is None, "resizing", axis.defect(), "one that RESIZE has")
    scale = [number for axis in found for number in (axis.numerator, axis.denominator)]
    operands = [
        tensor,
        model.sizes(scale),
        model.sizes([axis.offset for axis in found]),
        model.sizes([axis.border for axis in found]),
    ]
    return operation.emit("RESIZE", operands, (shape[0], *shape[2:], shape[1]), dtype, mode=mode)
