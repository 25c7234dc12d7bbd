"""Pools and resizes."""

from __future__ import annotations

from npu_assay.partitioners.ethosu.device.site import Site, Step
from npu_assay.partitioners.ethosu.kernels import pooling
from npu_assay.partitioners.ethosu.kernels import resize as resizing
from npu_assay.partitioners.ethosu.kernels.numbers import DTYPES, codes


def average_pool(site: Site) -> Step:
    site.pads()
    return Step(
        pooling.avg_pool2d(
            site.attribute("kernel"), site.attribute("stride"), site.codes(0, 1), site.codes(0, 2), site.padding()
        )
    )


def max_pool(site: Site) -> Step:
    site.pads()
    x = codes(site.x.dtype)
    return Step(pooling.max_pool2d(site.attribute("kernel"), site.attribute("stride"), x, site.padding()))


def resize(site: Site) -> Step:
    (yn, yd, xn, xd), (top, left) = site.shape(1), site.shape(2)
    sizes = (site.y.shape[1], site.y.shape[2])
    y, x = ((yn, yd), top), ((xn, xd), left)
    if site.attribute("mode") == "NEAREST":
        return Step(resizing.resize_nearest(sizes, y, x))
    site.gathers(*site.y.shape)
    return Step(resizing.resize_bilinear(sizes, y, x, DTYPES[site.y.dtype]))
