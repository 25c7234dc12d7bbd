"""Pools, means and resizes: operators over height and width, NHWC.

Shape rules: TFLite kernels/{pooling,reduce,resize_bilinear,resize_nearest_neighbor}.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from npu_assay.partitioners.common.int8 import pool, resize
from npu_assay.partitioners.common.machine import Kernel, Step
from npu_assay.partitioners.neutron.device.site import SIDE_LIMIT, Site
from npu_assay.partitioners.neutron.device.window import Window, fits_memory, window


def average_pool_2d(site: Site) -> Step:
    """AVERAGE_POOL_2D: the mean of the cells that lie in the image; one quantization."""
    geometry = _pooled(site)
    return Step(pool.avg_pool2d(geometry.kernel, geometry.stride, site.affine(site.x), geometry.padding))


def max_pool_2d(site: Site) -> Step:
    """MAX_POOL_2D: the largest of the cells that lie in the image; one quantization."""
    geometry = _pooled(site)
    return Step(pool.max_pool2d(geometry.kernel, geometry.stride, geometry.padding))


def _pooled(site: Site) -> Window:
    site.rank(site.x, 4)
    batch, height, width, channels = site.x.shape
    geometry = window(site, (height, width), (site.option("filter_height"), site.option("filter_width")))
    fits_memory(site, site.x.shape, geometry, channels)
    site.output_shape((batch, *geometry.out, channels))
    site.affine(site.x)
    site.same_quantisation(site.x, site.y)
    site.no_fused_activation()
    return geometry


def mean(site: Site) -> Step:
    """MEAN over constant axes; the output may have another scale."""
    return _rescaled(site, pool.mean)


def sum_(site: Site) -> Step:
    """SUM over constant axes; the output may have another scale."""
    return _rescaled(site, pool.sum_)


def reduce_max(site: Site) -> Step:
    """REDUCE_MAX over constant axes; one quantization."""
    return _picked(site, pool.reduce_max)


def reduce_min(site: Site) -> Step:
    """REDUCE_MIN over constant axes; one quantization."""
    return _picked(site, pool.reduce_min)


def _picked(site: Site, kernel: Callable[[Sequence[int], bool], Kernel]) -> Step:
    axes, kept = _reduced(site)
    site.affine(site.x)
    site.same_quantisation(site.x, site.y)
    return Step(kernel(axes, kept))


def _rescaled(site: Site, kernel: Callable[..., Kernel]) -> Step:
    axes, kept = _reduced(site)
    x, y = site.affine(site.x), site.affine(site.y)
    site.accumulator(prod(site.x.shape[axis] for axis in axes), x)
    site.ratio(x.scale / y.scale)
    return Step(kernel(axes, kept, x, y))


def _reduced(site: Site) -> tuple[tuple[int, ...], bool]:
    """The reduced axes and whether they stay, of size 1; the output's shape must be so."""
    rank = len(site.x.shape)
    axes = _axes(site, rank)
    kept = site.option("keep_dims")
    sizes = ((axis, size) for axis, size in enumerate(site.x.shape) if kept or axis not in axes)
    site.output_shape([1 if axis in axes else size for axis, size in sizes])
    return axes, kept


def _axes(site: Site, rank: int) -> tuple[int, ...]:
    """The reduced axes, ascending; given as one number or a vector, none of them twice."""
    values = site.constant(1, "int32")
    site.require(values.dim() <= 1, "shape of axes", list(values.shape), "rank 0 or 1")
    axes = [site.axis(axis, rank) for axis in values.reshape(-1).tolist()]
    site.require(len(set(axes)) == len(axes), "axes", axes, "no axis twice")
    return tuple(sorted(axes))


def resize_bilinear(site: Site) -> Step:
    """RESIZE_BILINEAR to a constant size; one quantization."""
    return _resize(site, resize.resize_bilinear)


def resize_nearest_neighbor(site: Site) -> Step:
    """RESIZE_NEAREST_NEIGHBOR to a constant size; one quantization."""
    return _resize(site, resize.resize_nearest)


def _resize(site: Site, factory: Callable[..., Kernel]) -> Step:
    site.rank(site.x, 4)
    height, width = size = site.integers(1, 2)
    site.require(max(size) <= SIDE_LIMIT, "size", list(size), f"at most {SIDE_LIMIT} each")
    site.output_shape((site.x.shape[0], height, width, site.x.shape[3]))
    site.affine(site.x)
    site.same_quantisation(site.x, site.y)
    align, half = site.option("align_corners"), site.option("half_pixel_centers")
    site.require(not (align and half), "align_corners and half_pixel_centers", "both set", "at most one")
    return Step(factory((height, width), align, half))
