"""Pools, reductions and resizing; all channels-last."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_assay.partitioners.exir.compiling import axis_of, pair, require
from npu_assay.partitioners.xnnpack.lowering.context import bounds
from npu_assay.partitioners.xnnpack.lowering.operation import Operation
from npu_assay.partitioners.xnnpack.lowering.values import Value
from npu_assay.partitioners.xnnpack.xnn_model import ALIGN_CORNERS, KEEP_DIMS


def _operand(operation: Operation) -> tuple[Value, int]:
    x = operation.operand(operation.node.args[0])
    require(x.rank == 4, operation.node, "rank", x.rank, 4)
    return x, operation.id_of(x, True)


def window(
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    extra: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
) -> dict[str, int]:
    """Options of a pool; `extra` rows and columns of padding are at the bottom and at the right."""
    sides = _sides(padding, extra) | _along("pooling", kernel)
    return sides | _along("stride", stride) | _along("dilation", dilation)


def _sides(padding: tuple[int, int], extra: tuple[int, int] = (0, 0)) -> dict[str, int]:
    (top, left), (below, right) = padding, extra
    return {
        "padding_top": top,
        "padding_right": left + right,
        "padding_bottom": top + below,
        "padding_left": left,
    }


def _along(name: str, sizes: tuple[int, int]) -> dict[str, int]:
    return {f"{name}_height": sizes[0], f"{name}_width": sizes[1]}


def _kernel(arguments: dict[str, Any]) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Kernel, stride (the kernel's when it is left out) and padding."""
    kernel = pair(arguments["kernel_size"])
    return kernel, pair(arguments["stride"] or kernel), pair(arguments["padding"])


def avg_pool2d(operation: Operation) -> Value:
    """aten.avg_pool2d over full windows -> AvgPooling2d; with a window of one element, a product with 1."""
    arguments = operation.arguments
    kernel, stride, padding = _kernel(arguments)
    counted = not arguments["count_include_pad"] or padding == (0, 0)
    require(counted and not arguments["ceil_mode"], operation.node, "padding", "counted", "not counted")
    divisor = arguments["divisor_override"]
    require(divisor in (None, kernel[0] * kernel[1]), operation.node, "divisor", divisor, kernel[0] * kernel[1])
    x, source = _operand(operation)
    if kernel == (1, 1):
        return operation.result(_picked(operation, x, source, stride), True)
    return operation.result(
        operation.emit("AvgPooling2d", [source], window(kernel, stride, padding), flags=KEEP_DIMS), True
    )


def _picked(operation: Operation, x: Value, source: int, stride: tuple[int, int]) -> int:
    """Every stride-th element in height and width: a product of each channel with 1."""
    channels, model = x.shape[1], operation.ctx.model
    ones = model.add("fp32", (1, 1, 1, channels), data=np.ones((1, 1, 1, channels), np.float32))
    options = convolution_options((1, 1), stride, groups=channels, group_channels=(1, 1))
    return operation.emit("DepthwiseConv2d", [source, ones, -1], options)


def convolution_options(
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
    group_channels: tuple[int, int] = (1, 1),
    adjustment: tuple[int, int] = (0, 0),
) -> dict[str, int]:
    """Options of a convolution; `group_channels` are the inputs and outputs of a group."""
    channels = {"group_input_channels": group_channels[0], "group_output_channels": group_channels[1], "groups": groups}
    moves = _along("kernel", kernel) | _along("subsampling", stride) | _along("dilation", dilation)
    return _sides(padding) | moves | channels | _along("adjustment", adjustment)


def max_pool2d(operation: Operation) -> Value:
    """aten.max_pool2d -> MaxPooling2d; in ceil_mode, with more padding at the bottom and at the right."""
    arguments = operation.arguments
    kernel, stride, padding = _kernel(arguments)
    dilation = pair(arguments["dilation"])
    x, source = _operand(operation)
    extra = (0, 0)
    if arguments["ceil_mode"]:
        require(not x.open_axes, operation.node, "sizes in ceil_mode", "open", "fixed")
        shape, _ = bounds(operation.node)
        missing = [
            (out - 1) * s + d * (k - 1) + 1 - (size + 2 * p)
            for out, s, d, k, size, p in zip(shape[2:], stride, dilation, kernel, x.shape[2:], padding, strict=True)
        ]
        extra = (max(missing[0], 0), max(missing[1], 0))
    options = window(kernel, stride, padding, extra, dilation)
    return operation.result(_maxima(operation, source, options), True)


def _maxima(operation: Operation, source: int, options: dict[str, int]) -> int:
    """MaxPooling2d keeps the operand's type and quantization."""
    return operation.ctx.model.emit("MaxPooling2d", [source], options=options, flags=KEEP_DIMS)


def max_dim(operation: Operation) -> Value:
    """The maxima of aten.max.dim over height or width -> MaxPooling2d with a window over all of it."""
    arguments = operation.arguments
    x, source = _operand(operation)
    axis = axis_of(operation.node, arguments["dim"], x.rank)
    fits = axis in (2, 3) and arguments["keepdim"] and axis not in x.open_axes
    require(fits, operation.node, "reduction", f"dim {axis}, keepdim {arguments['keepdim']}", "a fixed spatial one")
    if x.shape[axis] == 1:
        return x
    kernel = (x.shape[2], 1) if axis == 2 else (1, x.shape[3])
    return operation.result(_maxima(operation, source, window(kernel)), True)


def mean(operation: Operation) -> Value:
    """aten.mean over height and width -> GlobalAvgPooling2d."""
    arguments = operation.arguments
    _, source = _operand(operation)
    dims = sorted(axis_of(operation.node, dim, 4) for dim in arguments["dim"] or ())
    fits = dims == [2, 3] and arguments["keepdim"] and arguments["dtype"] is None
    require(fits, operation.node, "reduction", f"dims {dims}, keepdim {arguments['keepdim']}", "[2, 3], True")
    return operation.result(operation.emit("GlobalAvgPooling2d", [source], flags=KEEP_DIMS), True)


def resize_bilinear(operation: Operation) -> Value:
    """aten.upsample_bilinear2d.vec -> StaticResizeBilinear2D."""
    _, source = _operand(operation)
    shape, open_axes = bounds(operation.node)
    require(not {2, 3} & set(open_axes), operation.node, "output size", "open", "fixed")
    flags = ALIGN_CORNERS if operation.arguments["align_corners"] else 0
    options = {"new_height": shape[2], "new_width": shape[3]}
    return operation.result(operation.emit("StaticResizeBilinear2D", [source], options, flags=flags), True)
