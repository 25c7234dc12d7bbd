"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV: NHWC, constant int8 weights, int32 bias.

Shape rules: TFLite kernels/{conv,depthwise_conv,transpose_conv}.cc. Quantization rules: the TFLite
quantization specification (weights symmetric, bias scale = input scale x weight scale).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import torch

from npu_assay.partitioners.common.int8 import conv
from npu_assay.partitioners.common.machine import Kernel, Step
from npu_assay.partitioners.neutron.device.elementwise import fused_bounds
from npu_assay.partitioners.neutron.device.site import SIDE_LIMIT, WINDOW_LIMIT, WORK_LIMIT, Site
from npu_assay.partitioners.neutron.device.window import Pair, Window, fits_memory, window
from npu_assay.partitioners.neutron.tflite_model import Tensor
from npu_assay.reference.affine import Affine

BIAS_TOLERANCE = 1e-5
"""Relative; a product of two float32 scales, rounded to float32, is within 2**-23 of theirs."""


def conv_2d(site: Site) -> Step:
    """CONV_2D: x [N, H, W, I], weights [O, KH, KW, I] -> [N, OH, OW, O]."""
    w = _filter(site, site.x)
    out, kh, kw, channels = w.shape
    groups, rest = divmod(site.x.shape[3], channels)
    fits = rest == 0 and out % groups == 0
    expected = f"{channels} x groups that divide {out} outputs"
    site.require(fits, "input channels", site.x.shape[3], expected)
    x, y, scales = _quantisation(site, w, 0)
    geometry = window(site, _hw(site.x), (kh, kw), _dilation(site))
    fits_memory(site, site.x.shape, geometry, kh * kw * channels * groups)
    site.elements((site.x.shape[0], *geometry.out, prod(w.shape)), WORK_LIMIT, "multiplications")
    site.output_shape((site.x.shape[0], *geometry.out, out))
    bias = bias_codes(site, 2, out, x.scale, scales)
    return _windowed(site, conv.conv2d, bias, x, scales, y, geometry)


def depthwise_conv_2d(site: Site) -> Step:
    """DEPTHWISE_CONV_2D: x [N, H, W, C], weights [1, KH, KW, C * m] -> [N, OH, OW, C * m]."""
    w = _filter(site, site.x)
    one, kh, kw, out = w.shape
    channels, multiplier = site.x.shape[3], site.option("depth_multiplier")
    site.require(one == 1, "first size of the weights", one, "1")
    site.require(channels * multiplier == out, "depth_multiplier", multiplier, f"{out} / {channels} channels")
    x, y, scales = _quantisation(site, w, 3)
    geometry = window(site, _hw(site.x), (kh, kw), _dilation(site))
    fits_memory(site, (*site.x.shape[:3], out), geometry, kh * kw * out)
    site.output_shape((site.x.shape[0], *geometry.out, out))
    bias = bias_codes(site, 2, out, x.scale, scales)
    return _windowed(site, conv.depthwise_conv2d, bias, x, scales, y, geometry)


def transpose_conv(site: Site) -> Step:
    """TRANSPOSE_CONV: output shape, weights [O, KH, KW, I], x [N, H, W, I] -> [N, OH, OW, O]; VALID only."""
    image = site.input(2)
    w = _filter(site, image)
    out, kh, kw, channels = w.shape
    batch, height, width, depth = image.shape
    stride = (site.option("stride_h"), site.option("stride_w"))
    site.require(min(stride) >= 1, "stride", list(stride), "at least 1 each")
    site.require(max(kh, kw) <= SIDE_LIMIT, "kernel", [kh, kw], f"at most {SIDE_LIMIT} each")
    site.require(site.option("padding") == "VALID", "padding", site.option("padding"), "VALID")
    site.require(depth == channels, "input channels", depth, f"{channels} as the weights")
    shape = site.integers(0, 4)
    least = (batch, (height - 1) * stride[0] + kh, (width - 1) * stride[1] + kw, out)
    fits = shape[0] == batch and shape[3] == out and shape[1] >= least[1] and shape[2] >= least[2]
    site.require(fits, "output_shape", list(shape), f"at least {list(least)}")
    site.output_shape(shape)
    site.elements((batch, height, width, kh * kw * max(out, channels)), WINDOW_LIMIT, "gathered elements")
    x, y, scales = _quantisation(site, w, 0, image)
    bias = bias_codes(site, 3, out, x.scale, scales)
    weights, bounds = site.constant(1, "int8"), fused_bounds(site, y)
    kernel = conv.transpose_conv(weights, bias, shape, x, scales, y, stride=stride, activation=bounds)
    return Step(kernel, (2,))


def bias_codes(site: Site, position: int, count: int, x: float, scales: tuple[float, ...]) -> torch.Tensor | None:
    """The int32 bias [count], or None when it is left out; its scales must be `x` x weight scales."""
    if position >= len(site.inputs) or site.inputs[position] is None:
        return None
    bias = site.input(position)
    codes = site.constant(position, "int32")
    site.require(codes.shape == (count,), "bias shape", list(codes.shape), f"[{count}]")
    expected = tuple(x * scale for scale in scales)
    site.require(len(bias.scales) == len(expected), "number of bias scales", len(bias.scales), f"{len(expected)}")
    for found, wanted in zip(bias.scales, expected, strict=True):
        close = abs(found - wanted) <= BIAS_TOLERANCE * wanted
        site.require(close, "bias scale", found, f"{wanted}, input scale x weight scale")
    return codes


def weight_scales(site: Site, w: Tensor, axis: int) -> tuple[float, ...]:
    """One scale, or one per output channel along `axis`."""
    if len(w.scales) > 1:
        site.require(w.axis == axis, "quantized dimension of the weights", w.axis, f"{axis}")
    return tuple(site.scale(w, scale) for scale in w.scales)


def _filter(site: Site, image: Tensor) -> Tensor:
    """The weights; they and the image have 4 axes."""
    site.rank(image, 4)
    site.rank(site.input(1), 4)
    return site.input(1)


def _quantisation(
    site: Site, w: Tensor, axis: int, image: Tensor | None = None
) -> tuple[Affine, Affine, tuple[float, ...]]:
    """Input, output and weight scales, whose ratio the rescale can express."""
    x, y = site.affine(site.x if image is None else image), site.affine(site.y)
    scales = weight_scales(site, w, axis)
    site.require(not any(w.zero_points), "zero points of the weights", sorted(set(w.zero_points)), "0")
    site.ratio(x.scale * max(scales) / y.scale)
    return x, y, scales


def _hw(tensor: Tensor) -> Pair:
    return tensor.shape[1], tensor.shape[2]


def _dilation(site: Site) -> Pair:
    return site.option("dilation_h_factor"), site.option("dilation_w_factor")


def _windowed(
    site: Site,
    factory: Callable[..., Kernel],
    bias: torch.Tensor | None,
    x: Affine,
    scales: tuple[float, ...],
    y: Affine,
    geometry: Window,
) -> Step:
    """The kernel of a convolution that gathers windows."""
    kernel = factory(
        site.constant(1, "int8"),
        bias,
        x,
        scales,
        y,
        stride=geometry.stride,
        dilation=geometry.dilation,
        padding=geometry.padding,
        activation=fused_bounds(site, y),
    )
    return Step(kernel)
