"""Programs on both sides of each of Neutron's constraints, and how to write them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from neutron_graphs import ACTIVATION, UNIT, WEIGHT, Builder, Params
from torch import fx

Write = Callable[[Builder], fx.Node]
OTHER = (0.1, 0, -128, 127, torch.int8)
TANH = (1 / 128, 0, -128, 127, torch.int8)
INT_MAX = 2**63 - 1


def scaled(scale: float) -> Params:
    """An activation's parameters with this scale and zero point 0."""
    return (scale, 0, -128, 127, torch.int8)


def unary(op: str, shape: tuple[int, ...], *args: object, q: Params = ACTIVATION, **kwargs: Any) -> Write:
    """An operator on one quantized model input."""
    return lambda b: b.op(op, b.input(*shape), *args, q=q, **kwargs)


def binary(op: str, first: tuple[int, ...], second: tuple[int, ...], **kwargs: Any) -> Write:
    """An operator on two quantized model inputs."""
    return lambda b: b.op(op, b.input(*first), b.input(*second), **kwargs)


def cat(shapes: list[tuple[int, ...]], dim: int, q: Params = ACTIVATION) -> Write:
    """A concatenation of quantized model inputs."""
    return lambda b: b.op("aten.cat.default", [b.input(*shape) for shape in shapes], dim, q=q)


def conv(x: tuple[int, ...], weight: tuple[int, ...], outputs: int | None = None, **kwargs: Any) -> Write:
    """A convolution with a bias."""
    return lambda b: b.conv(b.input(*x), b.weight(*weight), b.bias(outputs or weight[0]), **kwargs)


def behind_conv(channels: int, then: Callable[[Builder, fx.Node], fx.Node], size: int = 8) -> Write:
    """An operator on the channels-first result of a 1 x 1 convolution."""

    def write(b: Builder) -> fx.Node:
        x = b.input(1, 8, size, size)
        return then(b, b.conv(x, b.weight(channels, 8, 1, 1), b.bias(channels)))

    return write


def linear(x: tuple[int, ...], weight: tuple[int, ...], **kwargs: Any) -> Write:
    """addmm with a constant, already transposed weight."""
    return lambda b: b.op("aten.addmm.default", b.bias(weight[1]), b.input(*x), b.weight(*weight), **kwargs)


def max_pool(shape: tuple[int, ...], *args: object, q: Params = ACTIVATION) -> Write:
    """A max pool of one quantized model input."""
    return lambda b: b.max_pool(b.input(*shape), *args, q=q)


def prelu(shape: tuple[int, ...], slopes: int, q: Params = WEIGHT) -> Write:
    """prelu with constant slopes."""
    return lambda b: b.op("aten.prelu.default", b.input(*shape), b.weight(slopes, q=q))


def divided(shape: tuple[int, ...], divisor: torch.Tensor) -> Write:
    """Division by a constant."""
    return lambda b: b.op("aten.div.Tensor", b.input(*shape), b.raw_constant(divisor))


def abs_then(op: str, shape: tuple[int, ...], *args: object, **kwargs: Any) -> Write:
    """The operator in one partition with abs before it."""
    return lambda b: b.op(op, b.op("aten.abs.default", b.input(*shape)), *args, **kwargs)


ADAPTIVE = "aten._adaptive_avg_pool2d.default"
BMM = "aten.bmm.default"
CLONE = "aten.clone.default"
DIM_ORDER_CLONE = "dim_order_ops._clone_dim_order.default"
CONV = "aten.convolution.default"
POOL = "aten.max_pool2d_with_indices.default"
PAD = "aten.constant_pad_nd.default"
SLICE = "aten.slice_copy.Tensor"
PERMUTE = "aten.permute_copy.default"
VIEW = "aten.view_copy.default"
SOFTMAX = "aten._softmax.default"
CLAMP = "aten.clamp.default"
HARDTANH = "aten.hardtanh.default"
AVG = "aten.avg_pool2d.default"
UP = "aten.upsample_nearest2d.vec"
MEAN = "aten.mean.dim"
T_CONV = {"transposed": True}

REJECTED: dict[str, tuple[str, str, Write]] = {
    "adaptive 9 to 4": (
        ADAPTIVE,
        "output_divides_input",
        unary(ADAPTIVE, (1, 3, 9, 8), [4, 4]),
    ),
    "adaptive rank 3": (
        ADAPTIVE,
        "rank",
        unary(ADAPTIVE, (3, 8, 8), [4, 4]),
    ),
    "addmm alpha": ("aten.addmm.default", "alpha", linear((3, 7), (7, 5), alpha=2)),
    "addmm beta": ("aten.addmm.default", "beta", linear((3, 7), (7, 5), beta=2)),
    "mm of x and x": ("aten.mm.default", "distinct_inputs", lambda b: b.op("aten.mm.default", *[b.input(4, 4)] * 2)),
    "mm asymmetric": (
        "aten.mm.default",
        "weight_zero_point",
        lambda b: b.op("aten.mm.default", b.input(3, 7), b.weight(7, 5, q=(0.01, 1, -127, 127, torch.int8))),
    ),
    "addmm bias scale": (
        "aten.addmm.default",
        "static_bias",
        lambda b: b.op("aten.addmm.default", b.bias(5, 0.001), b.input(3, 7), b.weight(7, 5)),
    ),
    "add alpha": ("aten.add.Tensor", "alpha", binary("aten.add.Tensor", (2, 8), (2, 8), alpha=2)),
    "add broadcast": ("aten.add.Tensor", "same_shape", binary("aten.add.Tensor", (1, 3, 5, 7), (7,))),
    "sub": ("aten.sub.Tensor", "unsupported", binary("aten.sub.Tensor", (2, 8), (2, 8))),
    "avg padded, uncounted": (
        AVG,
        "count_include_pad",
        unary(AVG, (1, 3, 8, 8), [2, 2], [2, 2], [1, 1], False, False),
    ),
    "avg ceil": (AVG, "ceil_mode", unary(AVG, (1, 3, 8, 8), [2, 2], [2, 2], [0, 0], True)),
    "avg divisor": (AVG, "divisor_override", unary(AVG, (1, 3, 8, 8), [2, 2], [2, 2], [0, 0], False, True, 5)),
    "avg rescaled": (AVG, "same_qparams", unary(AVG, (1, 3, 8, 8), [2, 2], q=OTHER)),
    "avg rank 3": (AVG, "rank", unary(AVG, (3, 8, 8), [2, 2])),
    "bmm rows 7": (BMM, "matrix_dims_multiple_of", binary(BMM, (2, 7, 16), (2, 16, 8))),
    "bmm inner 12": (BMM, "matrix_dims_multiple_of", binary(BMM, (2, 8, 12), (2, 12, 8))),
    "bmm columns 7": (
        BMM,
        "matrix_dims_multiple_of",
        binary(BMM, (2, 8, 16), (2, 16, 7)),
    ),
    "cat 7 and 9": ("aten.cat.default", "channels_multiple_of", cat([(2, 7), (2, 9)], -1)),
    "cat 7 and 7": ("aten.cat.default", "channels_multiple_of", cat([(2, 7), (2, 7)], -1)),
    "cat one": ("aten.cat.default", "min_inputs", cat([(2, 8)], -1)),
    "cat batch 1": ("aten.cat.default", "dim_before_axis", cat([(1, 3, 8), (1, 5, 8)], 1)),
    "cat dim 0": ("aten.cat.default", "dim_before_axis", cat([(3, 8), (5, 8)], 0)),
    "cat (1,8,4,8)": ("aten.cat.default", "dim_before_axis", cat([(1, 8, 4, 8)] * 2, 1)),
    "cat rescaled": ("aten.cat.default", "same_qparams", cat([(2, 8), (2, 8)], -1, q=OTHER)),
    "clamp 0 6.5": (CLAMP, "bounds", unary(CLAMP, (1, 8), 0, 6.5)),
    "clamp None 6": (CLAMP, "bounds", unary(CLAMP, (1, 8), None, 6)),
    "clamp 0 inf": (CLAMP, "bounds", unary(CLAMP, (1, 8), 0, math.inf)),
    "clamp 0 6 of 7": (CLAMP, "alone_channels_multiple_of", unary(CLAMP, (1, 7), 0, 6)),
    "clone alone": (DIM_ORDER_CLONE, "not_alone", unary(DIM_ORDER_CLONE, (1, 8), dim_order=[0, 1])),
    "abs, plain clone": (CLONE, "memory_format", abs_then(CLONE, (1, 8))),
    "abs, channels-last clone": (
        DIM_ORDER_CLONE,
        "memory_format",
        abs_then(DIM_ORDER_CLONE, (1, 8, 4, 4), dim_order=[0, 2, 3, 1]),
    ),
    "pad last of formatless": (PAD, "channel_and_batch_padding", unary(PAD, (1, 8, 8, 8), [1, 1, 1, 1], 0.0)),
    "pad batch": (PAD, "channel_and_batch_padding", unary(PAD, (1, 8, 8, 8), [0, 0, 0, 0, 0, 0, 1, 0], 0.0)),
    "pad channels behind conv": (
        PAD,
        "channel_and_batch_padding",
        behind_conv(8, lambda b, x: b.op(PAD, x, [0, 0, 0, 0, 8, 0], 0.0)),
    ),
    "pad negative": (PAD, "non_negative_padding", unary(PAD, (1, 8, 8, 8), [0, 0, -1, 1], 0.0)),
    "pad rank 6": (PAD, "max_rank", unary(PAD, (1, 1, 1, 1, 8, 8), [0, 0, 1, 1], 0.0)),
    "conv batch 2": (CONV, "batch", conv((2, 3, 8, 8), (5, 3, 3, 3))),
    "conv multiplier 2": (CONV, "groups", conv((1, 8, 8, 8), (16, 1, 3, 3), groups=8)),
    "conv 2 groups": (CONV, "groups", conv((1, 8, 8, 8), (8, 4, 3, 3), groups=2)),
    "conv 3-D": (CONV, "spatial_rank", conv((1, 3, 8, 8, 8), (5, 3, 3, 3, 3))),
    "conv dynamic weight": (
        CONV,
        "static_weights",
        lambda b: b.conv(b.input(1, 3, 8, 8), b.input(5, 3, 3, 3), b.bias(5, 0.05 * 0.05)),
    ),
    "conv wrong axis": (
        CONV,
        "static_weights",
        lambda b: b.conv(b.input(1, 3, 8, 8), b.channel_weight(5, 3, 3, 3, axis=1), None),
    ),
    "conv asymmetric channels": (
        CONV,
        "static_weights",
        lambda b: b.conv(b.input(1, 3, 8, 8), b.channel_weight(5, 3, 3, 3, zero_point=2), None),
    ),
    "conv float bias": (
        CONV,
        "static_bias",
        lambda b: b.conv(b.input(1, 3, 8, 8), b.weight(5, 3, 3, 3), b.raw_constant(torch.zeros(5))),
    ),
    "conv bias scale": (
        CONV,
        "static_bias",
        lambda b: b.conv(b.input(1, 3, 8, 8), b.weight(5, 3, 3, 3), b.bias(5, 0.05 * 0.01 * 1.001)),
    ),
    "transposed kernel 3": (CONV, "transposed", conv((1, 8, 1, 16), (8, 16, 1, 3), 16, stride=[1, 2], **T_CONV)),
    "transposed 7 channels": (CONV, "transposed", conv((1, 7, 1, 16), (7, 16, 1, 2), 16, stride=[1, 2], **T_CONV)),
    "transposed 1-D": (CONV, "transposed", conv((1, 8, 16), (8, 16, 2), 16, stride=[2], **T_CONV)),
    "div 7": ("aten.div.Tensor", "any_dim_multiple_of", divided((3, 7), torch.tensor(4.0))),
    "div broadcast": ("aten.div.Tensor", "static_divisor", divided((3, 8), torch.full((8,), 4.0))),
    "div tensor 7": ("aten.div.Tensor", "any_dim_multiple_of", divided((3, 7), torch.full((3, 7), 4.0))),
    "div by zero": ("aten.div.Tensor", "nonzero_divisor", divided((3, 8), torch.tensor(0.0))),
    "div by input": ("aten.div.Tensor", "static_divisor", binary("aten.div.Tensor", (3, 8), (3, 8))),
    "hardtanh -2 2": (HARDTANH, "bounds", unary(HARDTANH, (1, 8), -2.0, 2.0)),
    "relu6 of 7": (HARDTANH, "alone_channels_multiple_of", unary(HARDTANH, (1, 7), 0.0, 6.0)),
    "max pool 7": (POOL, "channels_multiple_of", max_pool((1, 7, 8, 8), [2, 2], [2, 2])),
    "max pool batch 2": (POOL, "batch", max_pool((2, 8, 8, 8), [2, 2], [2, 2])),
    "max pool stride 3": (POOL, "stride_h", max_pool((1, 8, 9, 9), [2, 2], [3, 1])),
    "max pool window 3": (POOL, "stride_h", max_pool((1, 8, 9, 9), [3, 3])),
    "max pool dilated": (POOL, "dilation", max_pool((1, 8, 8, 8), [2, 2], [2, 2], [0, 0], [2, 2])),
    "max pool ceil": (POOL, "ceil_mode", max_pool((1, 8, 8, 8), [2, 2], [2, 2], [0, 0], [1, 1], True)),
    "max pool rescaled": (POOL, "same_qparams", max_pool((1, 8, 8, 8), [2, 2], [2, 2], q=OTHER)),
    "mean no keepdim": (MEAN, "keepdim", unary(MEAN, (1, 8, 4, 4), [-1, -2], False)),
    "mean 7": (MEAN, "channels_multiple_of", unary(MEAN, (1, 7, 4, 4), [-1, -2], True)),
    "mean dim 1": (MEAN, "dims", unary(MEAN, (1, 8, 4, 4), [1], True)),
    "mean dims 1 2": (MEAN, "dims", unary(MEAN, (1, 8, 4, 8), [1, 2], True)),
    "mean rank 3": (MEAN, "rank", unary(MEAN, (1, 8, 4), [-1, -2], True)),
    "mul 2 4": ("aten.mul.Tensor", "any_dim_multiple_of", binary("aten.mul.Tensor", (2, 4), (2, 4))),
    "mul broadcast": ("aten.mul.Tensor", "same_shape", binary("aten.mul.Tensor", (3, 8), (8,))),
    "prelu 64x65": ("aten.prelu.default", "positions", prelu((1, 8, 64, 65), 8)),
    "prelu batch 2": ("aten.prelu.default", "positions", prelu((2, 8, 64, 64), 8)),
    "prelu 7": ("aten.prelu.default", "channels_multiple_of", prelu((1, 7, 8, 8), 7)),
    "prelu rank 3": ("aten.prelu.default", "rank", prelu((1, 8, 8), 8)),
    "prelu dynamic": ("aten.prelu.default", "static_weights", binary("aten.prelu.default", (1, 8, 8, 8), (8,))),
    "relu of 7 alone": ("aten.relu.default", "alone_channels_multiple_of", unary("aten.relu.default", (3, 9, 7))),
    "slice of 7": (SLICE, "sliced_dim_multiple_of", unary(SLICE, (2, 7), 1, 0, 3)),
    "slice first": (SLICE, "transposition", unary(SLICE, (8, 8), 0, 0, 3)),
    "slice 4-D formatless": (SLICE, "transposition", unary(SLICE, (1, 8, 8, 8), 1, 0, 4)),
    "slice height behind conv": (SLICE, "transposition", behind_conv(16, lambda b, x: b.op(SLICE, x, 2, 0, 4))),
    "slice step 2": (SLICE, "step", unary(SLICE, (2, 8), 1, 0, 8, 2)),
    "slice negative start": (SLICE, "non_negative_range", unary(SLICE, (2, 8), 1, -3, INT_MAX)),
    "slice negative end": (SLICE, "non_negative_range", unary(SLICE, (2, 8), 1, 0, -1)),
    "softmax 2048": (SOFTMAX, "max_channels", unary(SOFTMAX, (1, 2048), 1, False, q=UNIT)),
    "softmax 4097 rows": (SOFTMAX, "positions", unary(SOFTMAX, (4097, 8), -1, False, q=UNIT)),
    "softmax 557056": (SOFTMAX, "max_size", unary(SOFTMAX, (4096, 136), 1, False, q=UNIT)),
    "softmax rank 1": (SOFTMAX, "min_rank", unary(SOFTMAX, (8,), 0, False, q=UNIT)),
    "softmax dim 0": (SOFTMAX, "channel_dim", unary(SOFTMAX, (8, 8), 0, False, q=UNIT)),
    "softmax 7": (SOFTMAX, "channels_multiple_of", unary(SOFTMAX, (5, 7), 1, False, q=UNIT)),
    "softmax last behind conv": (
        SOFTMAX,
        "channel_dim",
        behind_conv(8, lambda b, x: b.op(SOFTMAX, x, -1, False, q=UNIT)),
    ),
    "softmax free output": (SOFTMAX, "output_qparams", unary(SOFTMAX, (1, 8), 1, False)),
    "sigmoid free output": ("aten.sigmoid.default", "output_qparams", unary("aten.sigmoid.default", (1, 8))),
    "tanh free output": ("aten.tanh.default", "output_qparams", unary("aten.tanh.default", (1, 8))),
    "upsample 1": (UP, "scale", unary(UP, (1, 8, 4, 4), None, [1.0, 1.0])),
    "upsample 3": (UP, "scale", unary(UP, (1, 8, 4, 4), None, [3.0, 3.0])),
    "upsample 8": (UP, "scale", unary(UP, (1, 8, 4, 4), None, [8.0, 8.0])),
    "upsample 2 4": (UP, "scale", unary(UP, (1, 8, 4, 4), None, [2.0, 4.0])),
    "upsample 7 channels": (UP, "channels_multiple_of", unary(UP, (1, 7, 4, 4), None, [2.0, 2.0])),
    "upsample rescaled": (UP, "same_qparams", unary(UP, (1, 8, 4, 4), None, [2.0, 2.0], q=OTHER)),
    "view alone": (VIEW, "not_alone", unary(VIEW, (2, 8), [4, 4])),
    "abs of rank 9": ("aten.abs.default", "max_rank", unary("aten.abs.default", (2,) * 9)),
    "add of rank 9": ("aten.add.Tensor", "max_rank", binary("aten.add.Tensor", (2,) * 9, (2,) * 9)),
    "slice of rank 9": (SLICE, "max_rank", unary(SLICE, (*(1,) * 8, 8), 8, 0, 3)),
    "div of rank 9": ("aten.div.Tensor", "max_rank", divided((*(1,) * 8, 8), torch.tensor(4.0))),
    "view out of rank 9": (VIEW, "max_input_rank", abs_then(VIEW, (*(1,) * 8, 8), [2, 4])),
    "abs, view of rank 8": (VIEW, "max_rank", abs_then(VIEW, (2, 4), [1, 1, 1, 1, 1, 1, 2, 4])),
    "abs, view rescaled": (VIEW, "same_qparams", abs_then(VIEW, (2, 9), [3, 6], q=OTHER)),
    "conv, flatten 5x5": (VIEW, "transposition", behind_conv(8, lambda b, x: b.op(VIEW, x, [1, 200]), size=5)),
    "conv to 5, flatten": (VIEW, "transposition", behind_conv(5, lambda b, x: b.op(VIEW, x, [1, 320]))),
    "abs, view 8x8x5, conv": (
        VIEW,
        "transposition",
        lambda b: b.conv(
            b.op(VIEW, b.op("aten.abs.default", b.input(1, 320)), [1, 8, 8, 5]), b.weight(4, 8, 1, 1), b.bias(4)
        ),
    ),
    "permute w 4": (PERMUTE, "transposition", unary(PERMUTE, (1, 8, 4, 4), [0, 2, 3, 1])),
    "permute batch 2": (PERMUTE, "transposition", unary(PERMUTE, (2, 8, 8, 8), [0, 2, 3, 1])),
    "permute 4 pixels": (PERMUTE, "transposition", unary(PERMUTE, (1, 4, 1, 8), [0, 3, 1, 2])),
    "permute to first, batch 2": (PERMUTE, "transposition", unary(PERMUTE, (2, 8, 8, 8), [0, 3, 1, 2])),
    "permute last two": (PERMUTE, "transposition", unary(PERMUTE, (1, 8, 8, 8), [0, 1, 3, 2])),
    "permute middle": (PERMUTE, "transposition", unary(PERMUTE, (1, 8, 8, 8), [0, 2, 1, 3])),
    "permute matrix": (PERMUTE, "transposition", unary(PERMUTE, (8, 8), [1, 0])),
    "permute rank 3": (PERMUTE, "transposition", unary(PERMUTE, (1, 8, 8), [0, 2, 1])),
    "permute rescaled": (PERMUTE, "same_qparams", unary(PERMUTE, (1, 8), [1, 0], q=OTHER)),
    "exp": ("aten.exp.default", "unsupported", unary("aten.exp.default", (1, 8))),
    # What would be tagged but could not run, or would compute something else.
    "unquantised": ("aten.abs.default", "quantized", lambda b: b.call("aten.abs.default", b.raw_input(1, 8))),
    "unquantized result": ("aten.abs.default", "quantized", lambda b: b.call("aten.abs.default", b.input(1, 8))),
    "uint8": (
        "aten.abs.default",
        "quantized",
        lambda b: b.op("aten.abs.default", b.input(1, 8, q=(0.1, 3, 0, 255, torch.uint8))),
    ),
    "narrow result": (
        "aten.abs.default",
        "quantized",
        unary("aten.abs.default", (1, 8), q=(0.05, 3, -127, 127, torch.int8)),
    ),
    "zero scale": (
        "aten.abs.default",
        "quantized",
        lambda b: b.op("aten.abs.default", b.input(1, 8, q=(0.0, 3, -128, 127, torch.int8))),
    ),
    "infinite scale": (
        "aten.abs.default",
        "quantized",
        unary("aten.abs.default", (1, 8), q=(math.inf, 3, -128, 127, torch.int8)),
    ),
    "per-channel activation": (
        "aten.abs.default",
        "quantized",
        lambda b: b.op("aten.abs.default", b.channel_weight(8, 8)),
    ),
    "pad with infinity": (
        "aten.constant_pad_nd.default",
        "quantized",
        unary("aten.constant_pad_nd.default", (1, 8, 4, 4), [0, 0, 1, 1], math.inf),
    ),
    "empty": ("aten.abs.default", "static_shape", unary("aten.abs.default", (0, 8))),
    "abs rescaled by 2**23": (
        "aten.abs.default",
        "rescale",
        lambda b: b.op(
            "aten.abs.default", b.input(1, 8, q=(1.0, 0, -128, 127, torch.int8)), q=(2.0**-24, 0, -128, 127, torch.int8)
        ),
    ),
    "add rescaled by 2**19": (
        "aten.add.Tensor",
        "rescale",
        lambda b: b.op(
            "aten.add.Tensor",
            *[b.input(1, 8, q=scaled(1.0)) for _ in "ab"],
            q=scaled(2.0**-19),
        ),
    ),
    "softmax of 2**-26": (
        SOFTMAX,
        "rescale",
        lambda b: b.op(SOFTMAX, b.input(1, 8, q=scaled(2.0**-26)), 1, False, q=UNIT),
    ),
    "conv, tanh": (
        CONV,
        "fused_activation",
        lambda b: b.op("aten.tanh.default", b.conv(b.input(1, 3, 8, 8), b.weight(5, 3, 3, 3), q=None), q=TANH),
    ),
    "abs, relu unquantized": (
        "aten.abs.default",
        "quantized",
        lambda b: b.op("aten.relu.default", b.call("aten.abs.default", b.input(1, 8))),
    ),
}
