"""Pools over images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu_assay.partitioners.common.rules import adaptive_windows, pool_kernel, pool_padding, pool_stride
from npu_assay.partitioners.ethosu.lowering.model import LIMITS, ModelBuilder
from npu_assay.partitioners.ethosu.lowering.operation import Operation
from npu_assay.partitioners.ethosu.lowering.values import Value
from npu_assay.partitioners.ethosu.lowering.windows import NHWC, as_image, fitted
from npu_assay.partitioners.ethosu.support.pooling import dilation
from npu_assay.partitioners.exir.qdq import QParams

Pair = tuple[int, int]
LARGEST_U55_STRIDE = 3


def _window(operation: Operation) -> tuple[Pair, Pair, Pair]:
    """(kernel, stride, padding) of a pool."""
    return pool_kernel(operation.node), pool_stride(operation.node), pool_padding(operation.node)


def _sizes(operation: Operation) -> Pair:
    """Height and width of the result."""
    return operation.shape[-2], operation.shape[-1]


def avg_pool2d(operation: Operation) -> Value:
    """aten.avg_pool2d -> AVG_POOL2D, which leaves padding out of the average: PAD where it counts.

    With a divisor of its own it is a sum: a depthwise convolution with weights of its sign.
    """
    bound, (kernel, stride, padding) = operation.arguments, _window(operation)
    image, outputs = as_image(operation.first), _sizes(operation)
    quant, tensor = operation.quant_of(image), operation.tensor(image, NHWC)
    if bound["divisor_override"] is not None:
        return _summed(operation, image, (kernel, stride, padding), int(bound["divisor_override"]))
    if bound["count_include_pad"]:
        amounts = [(0, 0), (padding[0], padding[0]), (padding[1], padding[1]), (0, 0)]
        tensor, padding = (
            operation.model.pad(tensor, amounts, quant.zero_point, f"{operation.node.name}_padded"),
            (0, 0),
        )
    tensor, pads = fitted(operation, tensor, outputs, kernel, stride, padding)
    made = average(operation, tensor, outputs, kernel, stride, pads, quant)
    return operation.held(made, NHWC, quant)


def average(
    operation: Operation,
    tensor: str,
    outputs: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    pads: Sequence[int],
    quant: QParams,
) -> str:
    """AVG_POOL2D between codes of one quantization."""
    model = operation.model
    zero, sizes = model.number(quant.zero_point, model.dtype(tensor)), model.shape(tensor)
    attributes = {"kernel": tuple(kernel), "stride": tuple(stride), "pad": tuple(pads), "acc_type": "INT32"}
    shape = (sizes[0], *outputs, sizes[3])
    return operation.emit("AVG_POOL2D", [tensor, zero, zero], shape, model.dtype(tensor), **attributes)


def _summed(operation: Operation, image: Value, window: tuple[Pair, Pair, Pair], divisor: int) -> Value:
    kernel, stride, padding = window
    quant, outputs = operation.quant_of(image), _sizes(operation)
    tensor, pads = fitted(operation, operation.tensor(image, NHWC), outputs, kernel, stride, padding)
    weight = 1 if divisor > 0 else -1
    made = sum_windows(operation, tensor, outputs, kernel, stride, pads, quant, weight)
    codes = operation.narrowed(made, (quant.scale / (abs(divisor) * operation.y.scale),))
    return operation.held(codes, NHWC, operation.y)


def sum_windows(
    operation: Operation,
    tensor: str,
    outputs: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    pads: Sequence[int],
    quant: QParams,
    weight: int = 1,
) -> str:
    """The sum of each window and channel without zero points: a depthwise convolution with equal weights, 1 or -1."""
    model = operation.model
    sizes, dtype = model.shape(tensor), model.dtype(tensor)
    wide = "INT32" if dtype == "INT8" else "INT48"
    operands = [
        tensor,
        model.constant("ones", np.full((*kernel, sizes[3], 1), weight), "INT8"),
        model.constant("zeros", np.zeros(sizes[3]), wide),
        model.number(quant.zero_point, dtype),
        model.number(0, "INT8"),
    ]
    attributes = {"pad": tuple(pads), "stride": tuple(stride), "dilation": (1, 1), "acc_type": wide}
    return operation.emit("DEPTHWISE_CONV2D", operands, (sizes[0], *outputs, sizes[3]), wide, **attributes)


def max_pool2d(operation: Operation) -> Value:
    """aten.max_pool2d(_with_indices) -> MAX_POOL2D; no indices."""
    kernel, stride, padding = _window(operation)
    outputs, image = _sizes(operation), as_image(operation.first)
    gaps = tuple(gap if size > 1 else 1 for gap, size in zip(dilation(operation.node), kernel, strict=True))
    tensor = operation.tensor(image, NHWC)
    if gaps != (1, 1):
        made = _max_dilated(operation, tensor, kernel, stride, padding, gaps)
    elif operation.ctx.is_u55 and max(stride) > LARGEST_U55_STRIDE:
        made = _max_by_axis(operation, tensor, kernel, stride, padding)
    else:
        tensor, pads = fitted(operation, tensor, outputs, kernel, stride, padding)
        made = _maxima(operation, tensor, outputs, kernel, stride, pads)
    quant = None if image.quant is None else operation.quant_of(image)
    beyond = any(gap > size for gap, size in zip(gaps, image.shape[2:], strict=True))
    if quant is not None and beyond:  # a window may read padding alone, which is less than every code
        made = operation.ctx.limited(made, quant, operation.node)
    return operation.held(made, NHWC, quant)


def _maxima(
    operation: Operation,
    tensor: str,
    outputs: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    pads: Sequence[int],
) -> str:
    sizes, dtype = operation.model.shape(tensor), operation.model.dtype(tensor)
    operation.require(dtype in ("INT8", "INT16"), "type of the input", dtype, "8 or 16 bits")
    attributes = {"kernel": tuple(kernel), "stride": tuple(stride), "pad": tuple(pads), "nan_mode": "PROPAGATE"}
    return operation.emit("MAX_POOL2D", [tensor], (sizes[0], *outputs, sizes[3]), dtype, **attributes)


def _max_by_axis(operation: Operation, tensor: str, kernel: Pair, stride: Pair, padding: Pair) -> str:
    """Windows that do not overlap, one axis after the other, each window an image of its own."""
    model, name = operation.model, operation.node.name
    fits = kernel == stride and padding == (0, 0)
    operation.require(fits, "stride above 3", f"kernel {kernel}, padding {padding}", f"kernel {stride}, no padding")
    batch, channels, (high, wide) = model.shape(tensor)[0], model.shape(tensor)[3], _sizes(operation)
    tensor, _ = fitted(operation, tensor, (high, wide), kernel, stride, padding)
    rows = model.reshape(tensor, (batch * high, kernel[0], wide * kernel[1], channels), f"{name}_rows")
    tops = _maxima(operation, rows, (1, wide * kernel[1]), (kernel[0], 1), (1, 1), (0, 0, 0, 0))
    parts = model.reshape(tops, (batch * high * wide, 1, kernel[1], channels), f"{name}_parts")
    made = _maxima(operation, parts, (1, 1), (1, kernel[1]), (1, 1), (0, 0, 0, 0))
    return model.reshape(made, (batch, high, wide, channels), name)


def _max_dilated(
    operation: Operation,
    tensor: str,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    gaps: Sequence[int],
) -> str:
    """Every `gap`-th row and column is an image of its own, which is pooled without gaps, with stride 1.

    One direction after the other, as Vela limits transpositions of three dimensions least.
    """
    model, name, outputs = operation.model, operation.node.name, _sizes(operation)
    steps = [step if count > 1 else 1 for step, count in zip(stride, outputs, strict=True)]
    dense = all(gap == 1 or step == 1 for gap, step in zip(gaps, steps, strict=True))
    operation.require(dense, "stride of a dilated pool", stride, "1 where the dilation is not")
    reach = [(k - 1) * gap + 1 for k, gap in zip(kernel, gaps, strict=True)]
    tensor, pads = fitted(operation, tensor, outputs, reach, steps, padding)
    high, wide = model.shape(tensor)[1:3]
    padded = (high + pads[0] + pads[1], wide + pads[2] + pads[3])
    more = [-size % gap for size, gap in zip(padded, gaps, strict=True)]
    amounts = [(0, 0), (pads[0], pads[1] + more[0]), (pads[2], pads[3] + more[1]), (0, 0)]
    lowest = LIMITS[model.dtype(tensor)][0]
    tensor = model.pad(tensor, amounts, lowest, f"{name}_padded")
    batch, high, wide, channels = model.shape(tensor)
    count = (high // gaps[0], wide // gaps[1])
    rows = _exchanged(model, tensor, (batch * count[0], gaps[0], wide * channels), f"{name}_rows")
    columns = _exchanged(model, rows, (gaps[0] * batch * count[0] * count[1], gaps[1], channels), f"{name}_columns")
    images = model.reshape(columns, (gaps[1] * gaps[0] * batch, *count, channels), f"{name}_images")
    pooled = [(length - k) // step + 1 for length, k, step in zip(count, kernel, steps, strict=True)]
    made = _maxima(operation, images, pooled, kernel, steps, (0, 0, 0, 0))
    wide = pooled[1] * gaps[1]
    lines = _exchanged(model, made, (gaps[1], gaps[0] * batch * pooled[0] * pooled[1], channels), f"{name}_lines")
    planes = _exchanged(model, lines, (gaps[0], batch * pooled[0], wide * channels), f"{name}_planes")
    whole = model.reshape(planes, (batch, pooled[0] * gaps[0], wide, channels), f"{name}_whole")
    return model.slice(whole, (0, 0, 0, 0), (batch, *outputs, channels), name)


def _exchanged(model: ModelBuilder, tensor: str, sizes: tuple[int, int, int], name: str) -> str:
    """As three dimensions, of which the first two change places; nothing where one of them is 1."""
    if 1 in sizes[:2]:
        return tensor
    return model.transpose(model.reshape(tensor, sizes, f"{name}_apart"), (1, 0, 2), name)


def adaptive_avg_pool2d(operation: Operation) -> Value:
    """aten._adaptive_avg_pool2d -> one AVG_POOL2D where the windows are regular, else one per output, joined."""
    image, outputs = as_image(operation.first), _sizes(operation)
    quant, tensor = operation.quant_of(image), operation.tensor(image, NHWC)
    regular = [_regular(size, count) for size, count in zip(image.shape[2:], outputs, strict=True)]
    if all(found is not None for found in regular):
        kernel, stride = ([found[i] for found in regular if found is not None] for i in range(2))
        made = average(operation, tensor, outputs, kernel, stride, (0, 0, 0, 0), quant)
    else:
        made = _averages(operation, tensor, outputs, quant)
    return operation.held(made, NHWC, quant)


def _regular(size: int, count: int) -> Pair | None:
    """(kernel, stride) when windows of one size and distance, of at most 3, give the outputs; one may be of any."""
    stride, rest = divmod(size, count)
    if count == 1:
        return size, 1
    return (stride + rest, stride) if rest in (0, 1) and 1 <= stride <= 3 else None


def _averages(operation: Operation, tensor: str, outputs: Sequence[int], quant: QParams) -> str:
    high, wide = operation.model.shape(tensor)[1:3]
    rows = []
    for top, bottom in adaptive_windows(high, outputs[0]):
        row, parts = operation.slice(tensor, 1, top, bottom - top), []
        for left, right in adaptive_windows(wide, outputs[1]):
            part = operation.slice(row, 2, left, right - left)
            size = (bottom - top, right - left)
            parts.append(average(operation, part, (1, 1), size, (1, 1), (0, 0, 0, 0), quant))
        rows.append(operation.model.concat(parts, 2, f"{operation.node.name}_row"))
    return operation.model.concat(rows, 1, operation.node.name)
