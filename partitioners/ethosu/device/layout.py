"""Data movement, indexing and reductions."""

from __future__ import annotations

from npu_assay.partitioners.ethosu.device import spans
from npu_assay.partitioners.ethosu.device.site import Site, Step
from npu_assay.partitioners.ethosu.kernels import layout, placed
from npu_assay.partitioners.ethosu.kernels.numbers import DTYPES


def reduce_sum(site: Site) -> Step:
    return Step(layout.reduce_sum(site.attribute("axis"), spans.fits(spans.summed(site))))


def concat(site: Site) -> Step:
    return Step(layout.concat(site.attribute("axis")), tuple(range(len(site.operands))))


def pad(site: Site) -> Step:
    widths = site.shape(1)
    paddings = list(zip(widths[::2], widths[1::2], strict=True))
    return Step(placed.pad(paddings, site.number(2), DTYPES[site.y.dtype], site.place))


def reshape(site: Site) -> Step:
    return Step(placed.reshape(site.shape(1)))


def slice_(site: Site) -> Step:
    return Step(placed.slice_(site.shape(1), site.shape(2)))


def tile(site: Site) -> Step:
    return Step(layout.tile(site.shape(1)))


def transpose(site: Site) -> Step:
    return Step(placed.transpose(site.attribute("perms"), DTYPES[site.y.dtype], site.place))
