"""Which operators the device has, and what prepares each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from npu_assay.partitioners.common.machine import Step
from npu_assay.partitioners.xnnpack.device import elementwise, layout, linear, pooling
from npu_assay.partitioners.xnnpack.device.site import Site

RULES: Final[Mapping[str, Callable[[Site], Step]]] = {
    **dict.fromkeys(elementwise.UNARY, elementwise.unary),
    **dict.fromkeys(elementwise.BINARY, elementwise.binary),
    **{f"Concatenate{count}": layout.concatenate for count in range(2, 6)},
    "AvgPooling2d": pooling.average_pool,
    "BatchMatrixMultiply": linear.batch_matmul,
    "Clamp": elementwise.clamp,
    "Conv2d": linear.convolution,
    "ConvTranspose2d": linear.transposed_convolution,
    "Convert": elementwise.convert,
    "Copy": layout.copy,
    "DepthwiseConv2d": linear.convolution,
    "ELU": elementwise.elu,
    "FullyConnected": linear.fully_connected,
    "GlobalAvgPooling2d": pooling.global_average,
    "LeakyReLU": elementwise.leaky_relu,
    "MaxPooling2d": pooling.max_pool,
    "StaticConstantPad": layout.pad,
    "StaticReshape": layout.reshape,
    "StaticResizeBilinear2D": pooling.resize,
    "StaticSlice": layout.slice_,
    "StaticTranspose": layout.transpose,
}
"""Operator -> what checks it and makes its kernel."""
