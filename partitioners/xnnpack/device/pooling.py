"""Pools, the global average and the bilinear resize: images [N, H, W, C]."""

from __future__ import annotations

from npu_assay.partitioners.common.int8.accumulate import Pair
from npu_assay.partitioners.common.machine import Kernel, Step
from npu_assay.partitioners.xnnpack.device.site import SIDE_LIMIT, Site, in_float32, limited
from npu_assay.partitioners.xnnpack.kernels import float32
from npu_assay.partitioners.xnnpack.kernels.pooling import max_pool2d, mean
from npu_assay.partitioners.xnnpack.xnn_model import ALIGN_CORNERS, KEEP_DIMS


def average_pool(site: Site) -> Step:
    """The mean of the cells inside the image."""
    kernel = float32.avg_pool2d(_window(site), site.pair("stride"), site.padding(), site.y.dtype == "fp16")
    return Step(in_float32(limited(kernel, site.limits()), site.y.dtype))


def max_pool(site: Site) -> Step:
    """The largest of the cells inside the image."""
    kernel = max_pool2d(_window(site), site.pair("stride"), site.pair("dilation"), site.padding())
    limits = site.codes(site.affine(site.y)) if site.on_codes else site.limits()
    return Step(limited(kernel, limits))


def _window(site: Site) -> Pair:
    kernel = site.pair("pooling")
    site.require(max(kernel) <= SIDE_LIMIT, "window", list(kernel), f"at most {SIDE_LIMIT} on each side")
    site.windows()
    return kernel


def global_average(site: Site) -> Step:
    """The mean over height and width; on codes the output may have its own quantization."""
    if site.on_codes:
        y = site.affine(site.y)
        kernel = limited(mean(site.affine(site.x), y), site.codes(y))
    else:
        kernel = in_float32(limited(float32.mean(), site.limits()), site.y.dtype)
    return Step(kernel if site.node.flags & KEEP_DIMS else _without_sides(kernel))


def _without_sides(kernel: Kernel) -> Kernel:
    return lambda x: kernel(x).flatten(1)


def resize(site: Site) -> Step:
    """A bilinear resize to a constant size."""
    kernel = float32.resize_bilinear(site.pair("new"), bool(site.node.flags & ALIGN_CORNERS))
    return Step(in_float32(kernel, site.y.dtype))
