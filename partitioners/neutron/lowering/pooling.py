"""Pools: channels-last operators over positions."""

from __future__ import annotations

from typing import Any

from torch import fx

from npu_assay.partitioners.common.lowering import static_shape
from npu_assay.partitioners.exir.compiling import bind, pair, require
from npu_assay.partitioners.exir.layout import to_channels_last
from npu_assay.partitioners.neutron.lowering.context import Context
from npu_assay.partitioners.neutron.lowering.padding import LOWEST, pad_spatial

NHWC = to_channels_last(4)


def avg_pool2d(ctx: Context, node: fx.Node) -> None:
    """aten.avg_pool2d -> PAD and AVERAGE_POOL_2D, so that padding counts as zeros."""
    bound = bind(node)
    padding = pair(bound["padding"])
    require(not bound["ceil_mode"], node, "ceil_mode", True, False)
    require(bound["divisor_override"] is None, node, "divisor_override", bound["divisor_override"], None)
    require(bound["count_include_pad"] or padding == (0, 0), node, "count_include_pad", False, "True with padding")
    kernel = pair(bound["kernel_size"])
    tensor = pad_spatial(ctx.model, input_tensor(ctx, node), padding, node.name)
    _pool(ctx, node, "AVERAGE_POOL_2D", tensor, kernel, _stride(bound["stride"], kernel))


def adaptive_avg_pool2d(ctx: Context, node: fx.Node) -> None:
    """aten._adaptive_avg_pool2d -> AVERAGE_POOL_2D, when the output size divides the input size."""
    tensor = input_tensor(ctx, node)
    sizes, wanted = ctx.model.shape(tensor)[1:3], static_shape(node)[2:]
    divides = all(out > 0 and size % out == 0 for size, out in zip(sizes, wanted, strict=True))
    require(divides, node, "output size", wanted, f"a divisor of {sizes}")
    kernel = (sizes[0] // wanted[0], sizes[1] // wanted[1])
    _pool(ctx, node, "AVERAGE_POOL_2D", tensor, kernel, kernel)


def max_pool2d(ctx: Context, node: fx.Node) -> None:
    """aten.max_pool2d(_with_indices) -> PADV2 with the lowest code and MAX_POOL_2D; no indices."""
    bound = bind(node)
    require(not bound["ceil_mode"], node, "ceil_mode", True, False)
    require(pair(bound["dilation"]) == (1, 1), node, "dilation", bound["dilation"], 1)
    kernel = pair(bound["kernel_size"])
    tensor = pad_spatial(ctx.model, input_tensor(ctx, node), pair(bound["padding"]), node.name, LOWEST)
    _pool(ctx, node, "MAX_POOL_2D", tensor, kernel, _stride(bound["stride"], kernel))


def input_tensor(ctx: Context, node: fx.Node) -> int:
    """The NHWC tensor of the first operand, with the result's quantization, which the operator keeps."""
    value = ctx.value(node.args[0], node)
    require(value.rank == 4, node, "rank of the input", value.rank, 4)
    return ctx.tensor(ctx.requantised(value, ctx.output_quantisation(node)), NHWC)


def _stride(stride: Any, kernel: tuple[int, int]) -> tuple[int, int]:
    """No stride means the kernel size."""
    return kernel if stride is None or stride == [] else pair(stride)


def _pool(
    ctx: Context, node: fx.Node, code: str, tensor: int, kernel: tuple[int, int], stride: tuple[int, int]
) -> None:
    options = {
        "padding": "VALID",
        "stride_h": stride[0],
        "stride_w": stride[1],
        "filter_height": kernel[0],
        "filter_width": kernel[1],
        "fused_activation_function": "NONE",
    }
    ctx.emit(node, code, [tensor], options, layout=NHWC)
