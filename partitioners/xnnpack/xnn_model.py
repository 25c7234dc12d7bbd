"""XNNPACK delegate blobs as plain records: what the compiler builds and the simulated device loads.

A blob is one XNNPACK subgraph: values, and nodes in execution order that refer to values by index.
Its shapes are upper bounds: the device takes the shapes of the actual inputs and infers all others.
Everything spatial is channels-last: convolutions, pools, the global average, the bilinear resize and PReLU see
NHWC tensors, and the blob holds explicit StaticTranspose nodes where torch's order differs.

`xnn_format` reads and writes the bytes, `xnn_check` has the rules that every subgraph keeps, and `xnn_shapes`
infers the shapes of results, for the bounds here and for actual inputs on the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

TRANSPOSE_WEIGHTS: Final = 0x01
"""Flag of FullyConnected: the filter is [input, output] channels instead of [output, input]."""

ALIGN_CORNERS: Final = 0x08
"""Flag of StaticResizeBilinear2D."""

KEEP_DIMS: Final = 0x40
"""Flag of pools and of the global average: the reduced axes stay, with size 1."""

ABSENT: Final = -1
"""A node's input that is not there: FullyConnected and convolutions without bias."""


@dataclass(frozen=True)
class PerTensor:
    """real = scale * (code - zero_point); `scale` is a float32 number."""

    scale: float
    zero_point: int


@dataclass(frozen=True, eq=False)
class PerChannel:
    """One scale per index of `axis` (float32, of length shape[axis]); the zero point is 0."""

    scales: Array
    axis: int


@dataclass(frozen=True)
class PerToken:
    """Parameters chosen at run time, one pair for each index of all but the last `nonbatch_dims` axes."""

    nonbatch_dims: int


@dataclass(frozen=True, eq=False)
class PerGroup:
    """One scale for every `group` neighbors along the last axis of a matrix [output, input] channels.

    `scales` is float32 [output, input / group] and holds bfloat16 numbers only; the zero point is 0.
    """

    scales: Array
    group: int
    axis: int = 0


Quantisation = PerTensor | PerChannel | PerToken | PerGroup


@dataclass(frozen=True, eq=False)
class XValue:
    """One value; its index in `XModel.values` is its id.

    `dtype`, its numpy type as a constant, and what `quant` then is:
      "fp32" float32, "fp16" float16, "bf16" uint16 (the number's bits): None
      "qint8" int8, "qint32" int32 (a bias): PerTensor
      "qcint8" int8, "qcint32" int32 (a bias): PerChannel
      "qcint4" (PerChannel), "qbint4" (PerGroup): uint8 pairs of 4-bit codes, see `packed_int4`
      "qdint8": PerToken; never a constant, only made by a Convert node from a float value
    `shape` counts elements, for 4-bit types too; a scalar has shape (1,). `data` makes the value a constant:
    an array of the dtype's numpy type and of `shape` (4-bit types: [output, (input + 1) // 2]).
    `external` is the position among the delegate's arguments (inputs first, then outputs) of a value that is
    one of them, None for a value inside.
    """

    dtype: str
    shape: tuple[int, ...]
    quant: Quantisation | None = None
    data: Array | None = None
    external: int | None = None


@dataclass(frozen=True)
class XNode:
    """One operator: `op` is its name in the schema without "XNN" ("Add", "StaticTranspose", ...).

    Values by index. `inputs` by operator:
      FullyConnected, Conv2d, DepthwiseConv2d, ConvTranspose2d: (input, filter, bias or ABSENT)
      Add, Subtract, Multiply, Div, Minimum, Maximum, BatchMatrixMultiply, PReLU: (first, second)
      Concatenate2 ... Concatenate5: as many as the name says
      all others: one
    `outputs` is one value.
    `options` are named as in the schema; every option of an operator is always there:
      Conv2d, DepthwiseConv2d, ConvTranspose2d: padding_top, padding_right, padding_bottom, padding_left,
        kernel_height, kernel_width, subsampling_height, subsampling_width (strides), dilation_height,
        dilation_width, group_input_channels, group_output_channels, groups,
        adjustment_height, adjustment_width (the output padding of ConvTranspose2d)
      AvgPooling2d, MaxPooling2d: padding_*, pooling_height, pooling_width, stride_height, stride_width,
        dilation_height, dilation_width
      StaticTranspose: perm (axis i of the output is axis perm[i] of the input)
      StaticReshape: new_shape (0 stands for the one size that is inferred)
      StaticSlice: offsets, sizes; one number per axis
      StaticConstantPad: pre_paddings, post_paddings (one number per axis), padding_value (real)
      StaticResizeBilinear2D: new_height, new_width
      Concatenate*: axis;  ELU: alpha;  LeakyReLU: negative_slope;  all others: none
    Filters: FullyConnected [output, input]; Conv2d [output, kh, kw, input / groups];
      DepthwiseConv2d [1, kh, kw, output]; ConvTranspose2d [output, kh, kw, input / groups].
    `limits` (lower, upper) clamps the real result; for a quantized output the limits are quantized with
    its parameters. Clamp always has limits; (0.0, inf) is ReLU.
    """

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    flags: int = 0
    limits: tuple[float, float] | None = None


@dataclass(frozen=True)
class XModel:
    """A delegate: `inputs` and `outputs` are value ids in the order of the delegate's arguments.

    `channels_last` are those of them whose torch tensor is NCHW with channels-last strides: the value has the
    shape [N, H, W, C] in which its numbers lie in memory, axes (0, 2, 3, 1) of the tensor. `scalars` are those
    whose torch tensor has no axes, where the value has the shape (1,). All others are
    contiguous tensors of the value's shape.
    """

    values: tuple[XValue, ...]
    nodes: tuple[XNode, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    channels_last: tuple[int, ...] = ()
    scalars: tuple[int, ...] = ()


def packed_int4(codes: Array) -> Array:
    """Codes in [-8, 7], int8 [rows, columns], as bytes [rows, (columns + 1) // 2]: code + 8, even column low.

    An odd last column is followed by the code 0.
    """
    even = np.pad(codes, ((0, 0), (0, codes.shape[1] % 2))).astype(np.int16) + 8
    return (even[:, ::2] | (even[:, 1::2] << 4)).astype(np.uint8)


def unpacked_int4(pairs: Array, columns: int) -> Array:
    """The int8 codes [rows, columns] that `packed_int4` made bytes of."""
    codes = np.stack([pairs & 0x0F, pairs >> 4], axis=-1).astype(np.int8) - np.int8(8)
    return codes.reshape(len(pairs), -1)[:, :columns]
