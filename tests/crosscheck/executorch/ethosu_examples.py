"""Programs that show how our EthosUPartitioner differs from ExecuTorch 1.5.1's; `ethosu_differences` names them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from ethosu_graphs import U55, U85, WIDE, Builder
from torch import fx

from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_CHANNEL, DEQUANTIZE_PER_TENSOR, QUANTIZE_PER_CHANNEL

ADD, ABS = "aten.add.Tensor", "aten.abs.default"
NARROW = (0.05, 3, -128, 127, torch.int8)
Write = Callable[[Builder], fx.Node | list[fx.Node]]


def conv(kernel: tuple[int, int], sizes: tuple[int, int], **options: object) -> Write:
    return lambda b: b.conv(b.input(1, 4, *sizes), b.weight(4, 4, *kernel), None, NARROW, **options)


def conv3d(*kernel: int) -> Write:
    spatial = {"stride": [1, 1, 1], "padding": [0, 0, 0], "dilation": [1, 1, 1]}
    return lambda b: b.conv(b.input(1, 4, 4, 4, 4), b.weight(4, 4, *kernel), None, NARROW, **spatial)


def argmax(*sizes: int, dtype: torch.dtype = torch.int8) -> Write:
    def write(b: Builder) -> fx.Node:
        found = b.call("aten.argmax.default", b.integers(*sizes, dtype=dtype), -1)
        return b.call("dim_order_ops._to_dim_order_copy.default", found, dtype=torch.int32)

    return write


def put(b: Builder, **options: object) -> fx.Node:
    index = b.integers(2)
    return b.op("aten.index_put.default", b.input(4, 3), [index], b.input(2, 3), *options.values())


def put_among_integers(b: Builder) -> fx.Node:
    integers, mask = b.integers(3, 4, dtype=torch.int8), b.integers(3, 4, dtype=torch.bool)
    return b.call("aten.index_put.default", integers, [mask], b.input(1))


def per_channel(b: Builder) -> fx.Node:
    scales, zeros = b.raw_constant(torch.full((4,), 0.05)), b.raw_constant(torch.zeros(4, dtype=torch.int64))
    options = (scales, zeros, 1, -128, 127, torch.int8)
    return b.call(DEQUANTIZE_PER_CHANNEL, b.call(QUANTIZE_PER_CHANNEL, b.raw_input(1, 4), *options), *options)


def heavy(b: Builder, *sizes: int) -> fx.Node:
    codes = b.raw_constant(torch.full(sizes, 127, dtype=torch.int8))
    return b.call(DEQUANTIZE_PER_TENSOR, codes, 0.01, 0, -127, 127, torch.int8)


EXAMPLES: dict[str, tuple[str, Write]] = {
    "uint8 at the input": (U85, lambda b: b.op(ABS, b.input(1, 4, q=(0.05, 128, 0, 255, torch.uint8)))),
    "a slice of nothing": (U85, lambda b: b.op("aten.slice_copy.Tensor", b.input(1, 4), 1, 2, 2)),
    "a scalar turned around": (U85, lambda b: b.op("aten.flip.default", b.input(), [0])),
    "the sum of a scalar": (U55, lambda b: b.op("aten.sum.dim_IntList", b.input(), [0])),
    "the largest truth": (U85, lambda b: b.call("aten.amax.default", b.integers(2, 3, dtype=torch.bool), [1])),
    "a list of weights": (U85, lambda b: b.op("aten.linear.default", b.input(3), b.input(3))),
    "a product of integers": (U85, lambda b: b.call("aten.mm.default", b.integers(2, 3), b.integers(3, 4))),
    "the largest of int32": (
        U85,
        lambda b: b.item(b.call("aten.max_pool2d_with_indices.default", b.integers(1, 2, 4, 4), [2, 2]), 0),
    ),
    "uint8 compared": (
        U85,
        lambda b: b.call("aten.gt.Tensor", b.integers(4, dtype=torch.uint8), b.integers(4, dtype=torch.uint8)),
    ),
    "int16 with a zero point": (
        U85,
        lambda b: b.op(ABS, b.input(1, 4, q=(0.001, 5, -32767, 32767, torch.int16)), q=WIDE),
    ),
    "int8 added to int16": (U85, lambda b: b.op(ADD, b.input(1, 4), b.input(1, 4, q=WIDE))),
    "a real number into abs": (U85, lambda b: b.op(ABS, b.call("aten.permute_copy.default", b.input(2, 4), [1, 0]))),
    "a tiny scale of the result": (
        U85,
        lambda b: b.op(ADD, b.input(1, 4), b.input(1, 4), q=(1e-9, 0, -128, 127, torch.int8)),
    ),
    "int16 choices": (U55, argmax(2, 3, dtype=torch.int16)),
    "int16 reciprocal": (U85, lambda b: b.op("aten.reciprocal.default", b.input(1, 4, q=WIDE), q=WIDE)),
    "int16 transposed": (
        U55,
        lambda b: b.conv(b.input(1, 4, 4, 4, q=WIDE), b.weight(4, 4, 2, 2), None, WIDE, transposed=True),
    ),
    "a tall pool with a divisor": (
        U55,
        lambda b: b.op("aten.avg_pool2d.default", b.input(1, 2, 65, 2), [65, 1], [1, 1], [0, 0], False, True, 3),
    ),
    "remainder of tensors": (U85, lambda b: b.op("aten.remainder.Tensor", b.input(1, 4), b.input(1, 4))),
    "alpha 2": (U85, lambda b: b.op(ADD, b.input(1, 4), b.input(1, 4), alpha=2)),
    "embedding": (U55, lambda b: b.op("aten.embedding.default", b.weight(8, 4), b.integers(2, 3))),
    "128 choices": (U55, argmax(2, 128)),
    "two images": (U55, argmax(2, 3, 4, 5)),
    "rank 5": (U55, argmax(1, 2, 3, 4, 5)),
    "a tall kernel": (U55, conv((65, 1), (80, 4))),
    "a slice without a start": (U85, lambda b: b.op("aten.slice_copy.Tensor", b.input(1, 4), 1, None, 2)),
    "a long window": (U85, lambda b: b.op("aten.avg_pool2d.default", b.input(1, 1, 1, 8193), [1, 8193], [1, 1])),
    "a wide kernel": (U55, conv((1, 65), (4, 80))),
    "a transposed row": (U85, conv((3, 3), (1, 4), stride=[3, 3], padding=[1, 0], transposed=True)),
    "a stride beside a dilation": (U55, conv((1, 3), (7, 11), stride=[4, 1], dilation=[1, 2])),
    "a far stride": (U55, conv((1, 1), (2, 8194), stride=[1, 8193])),
    "padding alone": (U85, conv((1, 1), (1, 1), stride=[4, 4], padding=[1, 1])),
    "computed weights": (U55, lambda b: b.conv(b.input(1, 4, 4, 4), b.input(4, 4, 1, 1))),
    "zero points per channel": (
        U85,
        lambda b: b.conv(b.input(1, 4, 4, 4), b.channel_weight(4, 4, 1, 1, zero_point=3)),
    ),
    "scales along the inputs": (U85, lambda b: b.conv(b.input(1, 4, 4, 4), b.channel_weight(4, 4, 1, 1, axis=1))),
    "accumulated": (U85, lambda b: put(b, accumulate=True)),
    "a long running sum": (U55, lambda b: b.op("aten.cumsum.default", b.input(1, 65, 2), 1)),
    "1.5 in integers": (U85, lambda b: b.call("aten.eq.Scalar", b.integers(4), 1.5)),
    "logic of real numbers": (U85, lambda b: b.call("aten.logical_not.default", b.input(1, 4))),
    "a long transposition": (U55, lambda b: b.op("aten.permute_copy.default", b.input(1, 70000, 2), [0, 2, 1])),
    "channels of an activation": (U85, lambda b: b.op(ABS, per_channel(b))),
    "every row": (U85, lambda b: b.op("aten.index_put.default", b.input(4, 3), [None, b.integers(2)], b.input(4, 2))),
    "real values among integers": (U85, put_among_integers),
    "int16 weights": (U85, lambda b: b.conv(b.input(1, 4, 4, 4), b.weight(4, 4, 1, 1, q=WIDE))),
    "int8 bias": (U85, lambda b: b.conv(b.input(1, 4, 4, 4), b.weight(4, 4, 1, 1), b.weight(4))),
    "heavy weights": (U55, lambda b: b.conv(b.input(1, 17, 64, 64), heavy(b, 1, 17, 64, 64), None, (9.0, *NARROW[1:]))),
    "a large matrix": (U55, lambda b: b.op("aten.mm.default", b.input(1, 1), b.input(1, 65537))),
    "a product of many inputs": (
        U85,
        lambda b: b.conv(b.input(1, 65537, 1, 1), b.weight(2, 65537, 1, 1), None, NARROW),
    ),
    "a mean over much": (U55, lambda b: b.op("aten.mean.dim", b.input(65537, 2), [1])),
    "a view over more": (U85, lambda b: b.op("aten.as_strided_copy.default", b.input(8), [2, 2], [2, 1])),
    "borders cut off": (U85, lambda b: b.op("aten.pad.default", b.input(1, 2, 4, 5), [-1, 1, 0, 0], "reflect")),
    "a large adaptive pool": (
        U55,
        lambda b: b.op("aten._adaptive_avg_pool2d.default", b.input(1, 1, 256, 257), [1, 1]),
    ),
    "a large image of choices": (U55, argmax(1, 256, 257, 2)),
    "512 times as large": (
        U85,
        lambda b: b.op("aten.upsample_nearest2d.vec", b.input(1, 1, 2, 2), None, [512.0, 512.0]),
    ),
    "bounds left out": (U85, lambda b: b.op("aten.hardtanh.default", b.input(1, 4))),
    "one number for two": (U55, lambda b: b.op("aten.avg_pool2d.default", b.input(1, 2, 4, 4), [2])),
    "a deep kernel": (U55, conv3d(2, 2, 1)),
    "a flat kernel": (U55, conv3d(1, 2, 2)),
    "an image without a batch": (
        U55,
        lambda b: b.op("aten.avg_pool2d.default", b.input(2, 4, 4), [2, 2], [2, 2]),
    ),
    "a pool without a batch": (
        U55,
        lambda b: b.op("aten.avg_pool2d.default", b.input(2, 4, 4), [2, 2], [2, 2], [0, 0], False, False),
    ),
    "a large dilated pool": (
        U55,
        lambda b: b.op("aten.max_pool2d.default", b.input(1, 1, 300, 600), [2, 2], [1, 1], [0, 0], [1, 2]),
    ),
    "a wide pool": (U55, lambda b: b.op("aten.max_pool2d.default", b.input(1, 2, 2, 300), [1, 257], [1, 1])),
}
