"""Products with weights, and of two activations: in float, on codes, and on activations quantized at run time."""

from __future__ import annotations

import numpy as np
import torch

from npu_assay.partitioners.common.machine import Kernel, Step
from npu_assay.partitioners.xnnpack.device.site import SIDE_LIMIT, Site, in_float32
from npu_assay.partitioners.xnnpack.kernels import dynamic, float32, linear
from npu_assay.partitioners.xnnpack.xnn_model import TRANSPOSE_WEIGHTS, PerGroup, PerToken, unpacked_int4


def batch_matmul(site: Site) -> Step:
    """[..., M, K] by [..., K, N]."""
    return Step(in_float32(float32.batch_matmul(), site.y.dtype), (0, 1))


def fully_connected(site: Site) -> Step:
    """The last axis of the input by a matrix [output, input]."""
    kind = site.x.dtype
    if kind == "qdint8":
        _rows(site, 1)
        return Step(_dynamic_linear(site))
    if kind == "qint8":
        y = site.affine(site.y)
        return Step(linear.linear(_weights(site), _bias(site), site.affine(site.x), site.scales(1), y, site.codes(y)))
    if site.input(1).data is None:
        return _of_computed_weights(site)
    kernel = float32.linear(_oriented(site, site.constant(1)), _bias(site), site.limits())
    return Step(in_float32(kernel, site.y.dtype, kind))


def _of_computed_weights(site: Site) -> Step:
    """A float matrix, and perhaps a bias, that are activations themselves."""
    limits = site.limits()

    def apply(x: torch.Tensor, weights: torch.Tensor, *bias: torch.Tensor) -> torch.Tensor:
        return float32.linear(_oriented(site, weights), bias[0] if bias else None, limits)(x)

    present = tuple(position for position, value in enumerate(site.inputs) if value is not None)
    return Step(in_float32(apply, site.y.dtype, site.x.dtype), present)


def _oriented(site: Site, weights: torch.Tensor) -> torch.Tensor:
    return weights.t().contiguous() if site.node.flags & TRANSPOSE_WEIGHTS else weights


def _dynamic_linear(site: Site) -> Kernel:
    quant = site.input(1).quant
    if isinstance(quant, PerGroup):
        return dynamic.groupwise_linear(
            _weights(site), torch.from_numpy(np.array(quant.scales)), _bias(site), site.limits()
        )
    return dynamic.linear(_weights(site), site.scales(1), _bias(site), site.limits())


def _rows(site: Site, axes: int) -> None:
    """Parameters chosen at run time belong to one row of the last axis, or to one image."""
    quant = site.x.quant
    found = quant.nonbatch_dims if isinstance(quant, PerToken) else None
    site.require(found == axes, "nonbatch_dims of the input", found, str(axes))


def _weights(site: Site) -> torch.Tensor:
    """The codes of a matrix, int8."""
    weights = site.input(1)
    if weights.dtype in ("qcint4", "qbint4"):
        return torch.from_numpy(unpacked_int4(site.data(1), weights.shape[1]))
    return site.constant(1)


def _bias(site: Site) -> torch.Tensor | None:
    if len(site.inputs) < 3 or site.inputs[2] is None:
        return None
    return site.constant(2)


def convolution(site: Site) -> Step:
    """Conv2d and DepthwiseConv2d of images."""
    weights = site.constant(1)
    if site.node.op == "DepthwiseConv2d":
        weights = weights.permute(3, 1, 2, 0).contiguous()
    stride, dilation, padding, groups = _window(site, weights)
    bias, kind = _bias(site), site.x.dtype
    if kind == "qdint8":
        _rows(site, 3)
        return Step(dynamic.conv2d(weights, site.scales(1), bias, stride, dilation, padding, groups, site.limits()))
    if kind == "qint8":
        x, y = site.affine(site.x), site.affine(site.y)
        return Step(
            linear.conv2d(weights, bias, x, site.scales(1), y, stride, dilation, padding, groups, site.codes(y))
        )
    half = site.y.dtype == "fp16"
    kernel = float32.conv2d(weights, bias, stride, dilation, padding, groups, site.limits(), half)
    return Step(in_float32(kernel, site.y.dtype))


def transposed_convolution(site: Site) -> Step:
    """ConvTranspose2d of images."""
    weights = site.constant(1)
    stride, dilation, padding, groups = _window(site, weights)
    bias, kind, extra = _bias(site), site.x.dtype, site.pair("adjustment")
    if kind == "qdint8":
        _rows(site, 3)
        return Step(
            dynamic.transpose_conv2d(
                weights, site.scales(1), bias, stride, dilation, padding, extra, groups, site.limits()
            )
        )
    if kind == "qint8":
        x, y = site.affine(site.x), site.affine(site.y)
        return Step(
            linear.transpose_conv2d(
                weights, bias, x, site.scales(1), y, stride, dilation, padding, extra, groups, site.codes(y)
            )
        )
    half = site.y.dtype == "fp16"
    kernel = float32.transpose_conv2d(weights, bias, stride, dilation, padding, extra, groups, site.limits(), half)
    return Step(in_float32(kernel, site.y.dtype))


def _window(
    site: Site, weights: torch.Tensor
) -> tuple[tuple[int, int], tuple[int, int], tuple[tuple[int, int], tuple[int, int]], int]:
    """Stride, dilation, padding and groups, within what the device can gather."""
    kernel = site.pair("kernel")
    site.require(max(kernel) <= SIDE_LIMIT, "window", list(kernel), f"at most {SIDE_LIMIT} on each side")
    site.windows()
    return site.pair("subsampling"), site.pair("dilation"), site.padding(), site.option("groups")
