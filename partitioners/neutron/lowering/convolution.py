"""Convolutions: CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV, on explicitly padded NHWC tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import fx

from npu_assay.partitioners.common.lowering import static_shape
from npu_assay.partitioners.exir.compiling import bind, pair, require
from npu_assay.partitioners.exir.layout import Layout, to_channels_last
from npu_assay.partitioners.neutron.lowering.bias import bias_tensor
from npu_assay.partitioners.neutron.lowering.context import Context
from npu_assay.partitioners.neutron.lowering.model import Array
from npu_assay.partitioners.neutron.lowering.padding import pad_spatial
from npu_assay.partitioners.neutron.lowering.quantization import Quantisation
from npu_assay.partitioners.neutron.lowering.values import Value

# Device order of the axes of torch's weights [outputs, inputs, kh, kw]; transposed: [inputs, outputs, kh, kw].
OHWI = (0, 2, 3, 1)
DEPTHWISE = (1, 2, 3, 0)
TRANSPOSED_OHWI = (1, 2, 3, 0)


@dataclass(frozen=True)
class Window:
    """How the kernel moves: (vertical, horizontal) pairs; a 1-D convolution has height 1."""

    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int


def convolution(ctx: Context, node: fx.Node) -> None:
    """aten.convolution of rank 3 or 4 with constant symmetric weights."""
    bound = bind(node)
    x = ctx.value(bound["input"], node)
    weights = ctx.constant(bound["weight"], node, "weights")
    require(x.rank in (3, 4), node, "rank of the input", x.rank, "3 or 4")
    require(not any(weights.quantisation.zero_points), node, "zero point of weights", "not 0", 0)
    window = _window(bound, x.rank)
    tensor = _image(ctx, node, x)
    codes = _kernel(weights)
    if bound["transposed"]:
        output = _transposed(ctx, node, bound, window, tensor, weights, codes)
    else:
        output = _direct(ctx, node, bound, window, tensor, weights, codes)
    _define(ctx, node, output)


def _window(bound: Mapping[str, Any], rank: int) -> Window:
    flat = rank == 3
    stride, padding, dilation = (pair(bound[name]) for name in ("stride", "padding", "dilation"))
    if flat:
        stride, padding, dilation = (1, stride[1]), (0, padding[1]), (1, dilation[1])
    return Window(stride, padding, dilation, bound["groups"])


def _image(ctx: Context, node: fx.Node, x: Value) -> int:
    """The input as an NHWC tensor; a 1-D one gets height 1."""
    tensor = ctx.tensor(x, to_channels_last(x.rank))
    if x.rank == 4:
        return tensor
    batch, width, channels = ctx.model.shape(tensor)
    return ctx.model.reshape(tensor, (batch, 1, width, channels), f"{node.name}_image")


def _kernel(weights: Value) -> Array:
    """The weights' codes with four axes."""
    assert weights.data is not None
    return weights.data if weights.data.ndim == 4 else weights.data[:, :, None, :]


def _weights(ctx: Context, node: fx.Node, weights: Value, codes: Array, layout: Layout, axis: int) -> int:
    """The weights in device order; their scales must run along torch's `axis`, the outputs."""
    quantisation = weights.quantisation
    if quantisation.per_channel:
        require(quantisation.axis == axis, node, "axis of the weights' scales", quantisation.axis, axis)
        quantisation = quantisation.moved(layout.index(axis))
    return ctx.model.constant(weights.name, codes.transpose(layout), quantisation)


def _direct(
    ctx: Context, node: fx.Node, bound: Mapping[str, Any], window: Window, tensor: int, weights: Value, codes: Array
) -> int:
    """CONV_2D for one group; DEPTHWISE_CONV_2D when every input channel is a group."""
    model = ctx.model
    inputs, outputs = model.shape(tensor)[3], codes.shape[0]
    padded = pad_spatial(model, tensor, window.padding, node.name)
    options: dict[str, Any] = {
        "padding": "VALID",
        "stride_h": window.stride[0],
        "stride_w": window.stride[1],
        "dilation_h_factor": window.dilation[0],
        "dilation_w_factor": window.dilation[1],
        "fused_activation_function": "NONE",
    }
    depthwise = window.groups > 1
    require(window.groups in (1, inputs), node, "groups", window.groups, f"1 or {inputs}")
    filters = _weights(ctx, node, weights, codes, DEPTHWISE if depthwise else OHWI, 0)
    bias = bias_tensor(ctx, node, bound["bias"], model.quantisation(tensor), weights.quantisation, outputs)
    if depthwise:
        options["depth_multiplier"] = outputs // inputs
    code = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    return model.emit(
        code, [padded, filters, bias], node.name, _device_shape(node), ctx.output_quantisation(node), options
    )


def _transposed(
    ctx: Context, node: fx.Node, bound: Mapping[str, Any], window: Window, tensor: int, weights: Value, codes: Array
) -> int:
    """TRANSPOSE_CONV of the whole output, then SLICE to take the padding off its borders."""
    model = ctx.model
    require(window.groups == 1, node, "groups", window.groups, 1)
    require(window.dilation == (1, 1), node, "dilation", window.dilation, (1, 1))
    filters = _weights(ctx, node, weights, codes, TRANSPOSED_OHWI, 1)
    bias = bias_tensor(ctx, node, bound["bias"], model.quantisation(tensor), weights.quantisation, codes.shape[1])
    wanted = _device_shape(node)
    extra = pair(bound["output_padding"])
    require(extra == (0, 0), node, "output padding", extra, (0, 0))
    batch, *image, _ = model.shape(tensor)
    sizes = ((size - 1) * step + span for size, step, span in zip(image, window.stride, codes.shape[2:], strict=True))
    whole = (batch, *sizes, wanted[3])
    options = {"padding": "VALID", "stride_h": window.stride[0], "stride_w": window.stride[1]}
    inputs = [model.integers(f"{node.name}_shape", whole), filters, tensor, bias]
    quantisation = ctx.output_quantisation(node)
    output = model.emit("TRANSPOSE_CONV", inputs, node.name, whole, quantisation, options)
    return output if whole == wanted else _cropped(ctx, node, output, wanted, window.padding, quantisation)


def _cropped(
    ctx: Context, node: fx.Node, tensor: int, wanted: tuple[int, ...], border: tuple[int, int], y: Quantisation
) -> int:
    begin = ctx.model.integers(f"{node.name}_begin", (0, *border, 0))
    size = ctx.model.integers(f"{node.name}_size", wanted)
    return ctx.model.emit("SLICE", [tensor, begin, size], f"{node.name}_cropped", wanted, y)


def _device_shape(node: fx.Node) -> tuple[int, ...]:
    """The result's NHWC shape; a 1-D result has height 1."""
    shape = static_shape(node)
    return (shape[0], *(shape[2:] if len(shape) == 4 else (1, shape[2])), shape[1])


def _define(ctx: Context, node: fx.Node, tensor: int) -> None:
    rank = len(static_shape(node))
    if rank == 3:
        batch, _, width, channels = ctx.model.shape(tensor)
        tensor = ctx.model.reshape(tensor, (batch, width, channels), f"{node.name}_line")
    ctx.define(node, tensor, to_channels_last(rank))
