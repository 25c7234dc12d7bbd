"""Every operator's limits: just inside and just outside, as the vendor's released partitioner answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from neutron_graphs import ACTIVATION, UNIT, WEIGHT, Builder, Params, Verdict, judge, partitioned
from torch import fx

from npu_assay.conformance.table import Row, load_table
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_CHANNEL
from npu_assay.partitioners.neutron import generate_neutron_compile_spec
from npu_assay.partitioners.neutron.operators import operators
from npu_assay.partitioners.neutron.options import CustomDelegationOptions
from npu_assay.partitioners.neutron.partitioner import NeutronPartitioner
from npu_assay.partitioners.neutron.releases import RELEASES
from npu_assay.partitioners.neutron.support.common import UNFUSABLE
from npu_assay.partitioners.neutron.support.division import DIVISION_RULES
from npu_assay.partitioners.neutron.support.rules import RULES_OF
from npu_assay.partitioners.neutron.support.stage import DATA_ONLY, NEUTRAL
from npu_assay.partitioners.neutron.support.weights import LINEAR, through_permute

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


def split(shape: tuple[int, ...], sizes: list[int], dim: int) -> Write:
    """The first piece of a split."""

    def write(b: Builder) -> fx.Node:
        pieces = b.call("aten.split_with_sizes_copy.default", b.input(*shape), sizes, dim)
        return b.quantised(b.item(pieces, 0))

    return write


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
BILINEAR = "aten.upsample_bilinear2d.vec"
MEAN = "aten.mean.dim"
T_CONV = {"transposed": True}

ACCEPTED: dict[str, tuple[str, Write]] = {
    "abs": ("aten.abs.default", unary("aten.abs.default", (1, 3, 5, 7))),
    "neg": ("aten.neg.default", unary("aten.neg.default", (3, 5))),
    "leaky_relu": ("aten.leaky_relu.default", unary("aten.leaky_relu.default", (3, 5))),
    "sigmoid": ("aten.sigmoid.default", unary("aten.sigmoid.default", (3, 5), q=UNIT)),
    "tanh": ("aten.tanh.default", unary("aten.tanh.default", (3, 5), q=TANH)),
    "adaptive 8 to 4": (
        ADAPTIVE,
        unary(ADAPTIVE, (1, 3, 8, 8), [4, 4]),
    ),
    "addmm": ("aten.addmm.default", linear((3, 7), (7, 5))),
    "mm": ("aten.mm.default", lambda b: b.op("aten.mm.default", b.input(3, 7), b.weight(7, 5))),
    "mm of two inputs": ("aten.mm.default", binary("aten.mm.default", (3, 7), (7, 5))),
    "add": ("aten.add.Tensor", binary("aten.add.Tensor", (2, 3, 5), (2, 3, 5))),
    "avg padded, counted": (AVG, unary(AVG, (1, 3, 8, 8), [2, 2], [2, 2], [1, 1], False, True)),
    "avg unpadded, uncounted": (AVG, unary(AVG, (1, 3, 8, 8), [2, 2], [2, 2], [0, 0], False, False)),
    "avg no stride": (AVG, unary(AVG, (1, 3, 8, 8), [2, 2])),
    "avg empty stride": (AVG, unary(AVG, (1, 3, 8, 8), [2, 2], [])),
    "avg batch 2": (AVG, unary(AVG, (2, 3, 8, 8), [2, 2], [2, 2])),
    "bmm": (BMM, binary(BMM, (2, 8, 16), (2, 16, 8))),
    "bmm batch 3": (BMM, binary(BMM, (3, 8, 16), (3, 16, 8))),
    "cat last": ("aten.cat.default", cat([(2, 8), (2, 8)], -1)),
    "cat middle": ("aten.cat.default", cat([(2, 3, 8), (2, 5, 8)], 1)),
    "cat of partition members": (
        "aten.cat.default",
        lambda b: b.op("aten.cat.default", [b.op("aten.abs.default", b.input(1, 3, 8)) for _ in "ab"], 1),
    ),
    "clamp -1 1 of 7": (CLAMP, unary(CLAMP, (1, 7), -1, 1)),
    "clamp 0 6": (CLAMP, unary(CLAMP, (1, 8), 0.0, 6.0)),
    "clamp 0 1": (CLAMP, unary(CLAMP, (1, 8), 0, 1)),
    "clamp 0": (CLAMP, unary(CLAMP, (1, 8), 0)),
    "abs, clamp 0 6 of 7": (CLAMP, abs_then(CLAMP, (1, 7), 0, 6)),
    "abs, clone": (DIM_ORDER_CLONE, abs_then(DIM_ORDER_CLONE, (1, 8), dim_order=[0, 1])),
    "abs, clone contiguous": (CLONE, abs_then(CLONE, (1, 8), memory_format=torch.contiguous_format)),
    "pad middle": (PAD, unary(PAD, (1, 8, 8, 8), [0, 0, 1, 1], 0.0)),
    "pad two": (PAD, unary(PAD, (1, 8, 8, 8), [0, 0, 1, 1, 1, 1], 0.0)),
    "pad width behind conv": (PAD, behind_conv(8, lambda b, x: b.op(PAD, x, [1, 1, 2, 0], 0.0))),
    "pad value": (PAD, unary(PAD, (1, 8, 8, 8), [0, 0, 1, 1], 1.5)),
    "conv 3 to 5": (CONV, conv((1, 3, 8, 8), (5, 3, 3, 3))),
    "conv depthwise": (CONV, conv((1, 5, 8, 8), (5, 1, 3, 3), groups=5)),
    "conv spaced": (CONV, conv((1, 3, 9, 9), (5, 3, 3, 3), stride=[2, 2], padding=[1, 1], dilation=[2, 2])),
    "conv one number": (CONV, conv((1, 3, 9, 9), (5, 3, 3, 3), stride=[2], padding=[1])),
    "conv 1-D": (CONV, conv((1, 3, 9), (5, 3, 3))),
    "conv no bias": (CONV, lambda b: b.conv(b.input(1, 3, 8, 8), b.weight(5, 3, 3, 3))),
    "conv per channel": (CONV, lambda b: b.conv(b.input(1, 3, 8, 8), b.channel_weight(5, 3, 3, 3), b.bias(5))),
    "transposed": (CONV, conv((1, 8, 1, 16), (8, 16, 1, 2), 16, stride=[1, 2], **T_CONV)),
    "div 8": ("aten.mul.Tensor", divided((3, 8), torch.tensor(4.0))),
    "div all ones": ("aten.mul.Tensor", divided((1, 1), torch.tensor(4.0))),
    "div tensor": ("aten.mul.Tensor", divided((3, 8), torch.full((3, 8), 4.0))),
    "hardtanh 0 6": (HARDTANH, unary(HARDTANH, (1, 8), 0.0, 6.0)),
    "hardtanh 0 inf": (HARDTANH, unary(HARDTANH, (1, 8), 0.0, math.inf)),
    "hardtanh default": (HARDTANH, unary(HARDTANH, (1, 7))),
    "max pool": (POOL, max_pool((1, 8, 8, 8), [2, 2], [2, 2])),
    "max pool stride 2 5": (POOL, max_pool((1, 8, 8, 16), [2, 2], [2, 5])),
    "max pool padded": (POOL, max_pool((1, 8, 8, 8), [2, 2], [2, 2], [1, 1])),
    "max pool no stride": (POOL, max_pool((1, 8, 8, 8), [2, 2])),
    "mean": (MEAN, unary(MEAN, (1, 8, 4, 4), [-1, -2], True)),
    "mean positive": (MEAN, unary(MEAN, (1, 8, 4, 4), [2, 3], True)),
    "mul 3 8": ("aten.mul.Tensor", binary("aten.mul.Tensor", (3, 8), (3, 8))),
    "mul 8 3": ("aten.mul.Tensor", binary("aten.mul.Tensor", (8, 3), (8, 3))),
    "mul 1 1": ("aten.mul.Tensor", binary("aten.mul.Tensor", (1, 1), (1, 1))),
    "prelu 8x8": ("aten.prelu.default", prelu((1, 8, 8, 8), 8)),
    "prelu 64x64": ("aten.prelu.default", prelu((1, 8, 64, 64), 8)),
    "prelu one slope": ("aten.prelu.default", prelu((1, 8, 8, 8), 1)),
    "relu of 8 alone": ("aten.relu.default", unary("aten.relu.default", (3, 9, 8))),
    "conv to 5, relu": ("aten.relu.default", behind_conv(5, lambda b, x: b.op("aten.relu.default", x))),
    "slice last": (SLICE, unary(SLICE, (2, 8), 1, 0, 3)),
    "slice with step 1": (SLICE, unary(SLICE, (2, 8), 1, 0, 3, 1)),
    "slice to the end": (SLICE, unary(SLICE, (2, 8), -1, 2, INT_MAX)),
    "slice between ones": (SLICE, unary(SLICE, (1, 8, 1), 1, 2, 5)),
    "slice channels": (SLICE, behind_conv(16, lambda b, x: b.op(SLICE, x, 1, 0, 4))),
    "split 4 of 8": (SLICE, split((2, 8), [4, 4], 1)),
    "split 3 and 5": (SLICE, split((2, 8), [3, 5], 1)),
    "softmax 2040": (SOFTMAX, unary(SOFTMAX, (1, 2040), 1, False, q=UNIT)),
    "softmax 4096 rows": (SOFTMAX, unary(SOFTMAX, (4096, 8), -1, False, q=UNIT)),
    "softmax 524288": (SOFTMAX, unary(SOFTMAX, (4096, 128), 1, False, q=UNIT)),
    "softmax channels-first": (SOFTMAX, behind_conv(8, lambda b, x: b.op(SOFTMAX, x, 1, False, q=UNIT))),
    "upsample 2": (UP, unary(UP, (1, 8, 4, 4), None, [2.0, 2.0])),
    "upsample 4": (UP, unary(UP, (1, 8, 4, 4), [16, 16], None)),
    "upsample aligned": (BILINEAR, unary(BILINEAR, (1, 8, 4, 4), None, True, [2.0, 2.0])),
    "upsample batch 2": (UP, unary(UP, (2, 8, 4, 4), None, [2.0, 2.0])),
    "abs, view": (VIEW, abs_then(VIEW, (2, 9), [3, 6])),
    "conv, flatten 8x8": (VIEW, behind_conv(8, lambda b, x: b.op(VIEW, x, [1, 512]))),
    "abs of rank 8": ("aten.abs.default", unary("aten.abs.default", (2,) * 8)),
    "add of rank 8": ("aten.add.Tensor", binary("aten.add.Tensor", (2,) * 8, (2,) * 8)),
    "view out of rank 8": (VIEW, abs_then(VIEW, (*(1,) * 7, 8), [2, 4])),
    "conv, flatten 5x5, linear": (
        VIEW,
        behind_conv(
            8,
            lambda b, x: b.op("aten.mm.default", b.op(VIEW, x, [1, 200]), b.weight(200, 5)),
            size=5,
        ),
    ),
    "squeeze": (VIEW, abs_then("aten.squeeze_copy.dims", (2, 1, 9), [1])),
    "unsqueeze": (VIEW, abs_then("aten.unsqueeze_copy.default", (2, 9), 0)),
    "permute to channels-last": (PERMUTE, unary(PERMUTE, (1, 8, 8, 8), [0, 2, 3, 1])),
    "permute w 8": (PERMUTE, unary(PERMUTE, (1, 8, 1, 8), [0, 2, 3, 1])),
    "permute to channels-first": (PERMUTE, unary(PERMUTE, (1, 8, 8, 8), [0, 3, 1, 2])),
    "permute 4x2": (PERMUTE, unary(PERMUTE, (1, 4, 2, 8), [0, 3, 1, 2])),
    "permute of ones": (PERMUTE, unary(PERMUTE, (1, 8), [1, 0])),
    "permute rank 3 of ones": (PERMUTE, unary(PERMUTE, (1, 1, 8), [0, 2, 1])),
    "permute rank 4 of ones": (PERMUTE, unary(PERMUTE, (1, 1, 8, 8), [0, 2, 1, 3])),
    "permute trailing one": (PERMUTE, unary(PERMUTE, (8, 8, 8, 1), [3, 0, 1, 2])),
    "permute identity": (PERMUTE, unary(PERMUTE, (3, 5), [0, 1])),
    "permute before conv": (
        PERMUTE,
        lambda b: b.conv(b.op(PERMUTE, b.input(1, 5, 7, 3), [0, 3, 1, 2]), b.weight(4, 3, 1, 1), b.bias(4)),
    ),
    "permute behind conv": (PERMUTE, behind_conv(8, lambda b, x: b.op(PERMUTE, x, [0, 2, 3, 1]), size=3)),
}

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


@pytest.mark.parametrize("name", ACCEPTED)
def test_just_inside(name: str) -> None:
    op, write = ACCEPTED[name]
    verdict = judge(write)
    assert op in verdict.tagged, verdict.reasons
    assert verdict.codes(op) == []


@pytest.mark.parametrize("name", REJECTED)
def test_just_outside(name: str) -> None:
    op, code, write = REJECTED[name]
    verdict = judge(write)
    assert op not in verdict.tagged
    assert code in verdict.codes(op)


SINGLE = [
    name
    for name in REJECTED
    if not name.startswith(("softmax", "conv, ", "sub", "transposed", "pad rank", "conv float"))
]


@pytest.mark.parametrize("name", SINGLE)
def test_one_violation_gives_one_reason(name: str) -> None:
    op, code, write = REJECTED[name]
    assert set(judge(write).codes(op)) == {code}


def test_a_quotient_without_elements_has_no_known_shape() -> None:
    """One that stays a division, as its divisor is computed."""
    verdict = judge(lambda b: b.op("aten.div.Tensor", b.input(0, 8), b.input(0, 8)))
    assert verdict.codes("aten.div.Tensor") == ["static_shape"]


@pytest.mark.parametrize("factors", [[1.0, 2.0], [1.0, 2.0, 1.0, 3.0, 1.0]])
def test_the_first_wrong_scale_of_a_bias_is_named(factors: list[float]) -> None:
    def write(b: Builder) -> fx.Node:
        scales = b.raw_constant(torch.tensor(factors) * 0.05 * 0.01)
        zero_points = b.raw_constant(torch.zeros(len(factors), dtype=torch.int64))
        codes = b.raw_constant(torch.zeros(len(factors), dtype=torch.int32))
        limits = (0, -(2**31), 2**31 - 1, torch.int32)
        bias = b.call(DEQUANTIZE_PER_CHANNEL, codes, scales, zero_points, *limits)
        return b.conv(b.input(1, 3, 8, 8), b.channel_weight(len(factors), 3, 3, 3), bias)

    partitioner = NeutronPartitioner()
    judge(write, partitioner)
    (found,) = (each.found for each in partitioner.rejections if each.code == "static_bias")
    assert found == "bias scale 0.00100000005, expected 0.000499999996 (output 1)"


def test_all_reasons_are_kept_in_order() -> None:
    write = max_pool((2, 7, 9, 9), [2, 2], [3, 3], [0, 0], [2, 2], True, q=OTHER)
    expected = ["dilation", "ceil_mode", "channels_multiple_of", "batch", "stride_h", "same_qparams"]
    assert judge(write).codes(POOL) == expected


OTHER_SCALE, OTHER_POINT = (0.06, 3, -128, 127, torch.int8), (0.05, 4, -128, 127, torch.int8)
NARROW = (0.05, 3, -127, 127, torch.int8)


@pytest.mark.parametrize(
    ("params", "codes"), [(ACTIVATION, []), *((q, ["quantized"]) for q in (OTHER_SCALE, OTHER_POINT, NARROW))]
)
def test_a_result_is_quantised_in_one_way_for_all_that_take_it(params: Params, codes: list[str]) -> None:
    def write(b: Builder) -> list[fx.Node]:
        result = b.call("aten.abs.default", b.input(1, 8))
        return [b.quantised(result), b.quantised(result, params)]

    assert judge(write).codes("aten.abs.default") == codes


def test_used_indices_are_refused() -> None:
    def write(b: Builder) -> list[fx.Node]:
        pooled = b.call(POOL, b.input(1, 8, 8, 8), [2, 2])
        return [b.quantised(b.item(pooled, 0)), b.item(pooled, 1)]

    assert judge(write).codes(POOL) == ["indices_unused"]


@pytest.mark.parametrize(
    ("shapes", "no_op_partitions", "codes"),
    [([(2, 7), (2, 9)], False, []), ([(2, 7)], True, []), ([(2, 7)], False, ["not_alone"])],
)
def test_force_delegate_cat(shapes: list[tuple[int, ...]], no_op_partitions: bool, codes: list[str]) -> None:
    """One tensor alone is the result already: nothing to compute."""
    options = CustomDelegationOptions(force_delegate_cat=True, allow_no_op_partitions=no_op_partitions)
    verdict = judge(cat(shapes, -1), NeutronPartitioner(custom_delegation_options=options))
    assert verdict.codes("aten.cat.default") == codes
    assert ("aten.cat.default" in verdict.tagged) == (not codes)


def test_force_delegate_cat_keeps_the_other_rules() -> None:
    options = CustomDelegationOptions(force_delegate_cat=True)
    verdict = judge(cat([(1, 7), (1, 9)], -1, q=OTHER), NeutronPartitioner(custom_delegation_options=options))
    assert verdict.codes("aten.cat.default") == ["same_qparams"]


def test_allow_no_op_partitions() -> None:
    options = CustomDelegationOptions(allow_no_op_partitions=True)
    verdict = judge(unary(VIEW, (2, 8), [4, 4]), NeutronPartitioner(custom_delegation_options=options))
    assert verdict.tagged == (VIEW,)


@pytest.mark.parametrize(("op", "neutral"), [("aten.add.Tensor", 0), ("aten.mul.Tensor", 1)])
def test_arithmetic_with_a_neutral_constant_is_a_no_op(op: str, neutral: int) -> None:
    params = (1.0, 0, -128, 127, torch.int8)

    def write(b: Builder, number: int) -> fx.Node:
        codes = b.raw_constant(torch.full((3, 8), number, dtype=torch.int8))
        return b.op(op, b.input(3, 8), b.call("quantized_decomposed.dequantize_per_tensor.default", codes, *params))

    assert judge(lambda b: write(b, neutral)).codes(op) == ["not_alone"]
    assert judge(lambda b: write(b, 5)).tagged == (op,)


@pytest.mark.parametrize("shared", [False, True])
def test_a_transposed_weight_that_others_take_too_is_computed(shared: bool) -> None:
    """The product alone has its weight transposed ahead of time."""
    b = Builder()
    x, transposed = b.input(2, 8), b.call("aten.permute_copy.default", b.weight(16, 8), [1, 0])
    product = b.call("aten.mm.default", x, transposed)
    others = [b.op("aten.abs.default", transposed)] if shared else []
    b.program(b.quantised(product), *others)
    assert (through_permute(product, transposed) is transposed) is shared


def test_a_permutation_of_real_numbers_is_no_weight() -> None:
    b = Builder()
    transposed = b.call("aten.permute_copy.default", b.raw_constant(torch.ones(16, 8)), [1, 0])
    product = b.call("aten.mm.default", b.input(2, 8), transposed)
    b.program(b.quantised(product))
    assert through_permute(product, transposed) is transposed


def test_zero_points_that_differ_are_both_named() -> None:
    b = Builder()
    x, y = (b.input(2, 8, 8, q=(0.1, zero_point, -128, 127, torch.int8)) for zero_point in (3, -5))
    partitioner = NeutronPartitioner(generate_neutron_compile_spec("imxrt700", release="1.4"))
    partitioned(b.program(b.op("aten.bmm.default", x, y)), partitioner)
    (found,) = (each.found for each in partitioner.rejections if each.code == "equal_zero_points")
    assert found == "zero points 3 and -5"


def test_a_shared_dequantize_must_stay_in_one_partition() -> None:
    def shared(passes: bool) -> Verdict:
        b = Builder()
        x = b.input(1, 8)
        program = b.program(b.op("aten.abs.default", x), b.op("aten.exp.default", x))
        return partitioned(program, passes=passes)

    assert shared(passes=False).codes("aten.abs.default") == ["quantized"]
    assert shared(passes=True).tagged == ("aten.abs.default",)


def test_found_values_and_sentences_are_readable() -> None:
    partitioner = NeutronPartitioner()
    judge(cat([(2, 7), (2, 9)], -1), partitioner)
    (reason,) = partitioner.rejections
    assert reason.node == "aten_cat_default"
    assert "has 7 channels, 8 MAC units" in reason.found
    assert reason.sentence == "the channel count must be a multiple of the number of MAC units"


# ------------------------------------------------------------------------------------ the table

# Reasons that no row lists: the operator is not one of the table, or the user excluded it.
OUTSIDE_THE_TABLE = {"unsupported", "excluded"}
TABLES = {release: load_table(f"neutron@{release}") for release in RELEASES}
COMMON = {constraint.code for table in TABLES.values() for constraint in table.common}
LISTED = [(release, row) for release, table in TABLES.items() for row in table.rows]


def named(part: Row | str) -> str:
    return part.name if isinstance(part, Row) else part


def implemented(op: str, release: str) -> set[str]:
    """The codes that the partitioner can give for an operator in a release, besides the common ones."""
    row, rules = operators(release).get(op), RULES_OF[release].get(op, ())
    codes = {rule.code for rule in (*rules, *(DIVISION_RULES if op == "aten.div.Tensor" else ()))}
    codes |= {rule.code for rule in row.stage} if row is not None else set()
    codes |= {"rescale"} if row is not None and row.problem is not None else set()
    codes |= {"not_alone"} if op in DATA_ONLY | NEUTRAL.keys() else set()
    codes |= {"fused_activation"} if op in LINEAR | UNFUSABLE else set()
    return codes - COMMON


@pytest.mark.parametrize(("release", "row"), LISTED, ids=named)
def test_every_constraint_of_a_row_has_a_rule(release: str, row: Row) -> None:
    listed = {constraint.code for constraint in row.constraints}
    assert listed <= implemented(row.operator, release) | implemented(row.rewritten_to or row.operator, release)


@pytest.mark.parametrize(("release", "row"), [each for each in LISTED if each[1].rewritten_to is None], ids=named)
def test_every_rule_is_a_constraint_of_its_row(release: str, row: Row) -> None:
    assert implemented(row.operator, release) == {constraint.code for constraint in row.constraints}


def test_all_reasons_of_these_tests_are_known() -> None:
    known = {code for code, _ in TABLES["1.3"].meanings} | OUTSIDE_THE_TABLE
    assert {code for _, code, _ in REJECTED.values()} <= known
