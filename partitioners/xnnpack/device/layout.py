"""Data movement: codes and reals alike."""

from __future__ import annotations

from math import prod

import torch
import torch.nn.functional as F

from npu_assay.partitioners.common.machine import Step
from npu_assay.partitioners.xnnpack.device.site import Site
from npu_assay.partitioners.xnnpack.kernels.output import code


def copy(site: Site) -> Step:
    """The same numbers."""
    return Step(lambda x: x)


def transpose(site: Site) -> Step:
    """Axis i of the output is axis perm[i] of the input."""
    perm = tuple(site.option("perm"))
    return Step(lambda x: x.permute(perm).contiguous())


def reshape(site: Site) -> Step:
    """The same numbers in row-major order; a size of 0 in new_shape is inferred."""
    sizes = tuple(site.option("new_shape"))
    known = prod(size for size in sizes if size)
    return Step(lambda x: x.reshape([size or x.numel() // known for size in sizes]))


def slice_(site: Site) -> Step:
    """`sizes` entries from `offsets` on, along every axis."""
    parts = tuple(
        slice(offset, offset + size) for offset, size in zip(site.option("offsets"), site.option("sizes"), strict=True)
    )
    return Step(lambda x: x[parts].contiguous())


def pad(site: Site) -> Step:
    """Cells of one value around: a real, for codes quantized as the values are."""
    pairs = list(zip(site.option("pre_paddings"), site.option("post_paddings"), strict=True))
    widths = [width for pair in reversed(pairs) for width in pair]
    real = float(site.option("padding_value"))
    value = code(real, site.affine(site.y)) if site.on_codes else real
    return Step(lambda x: F.pad(x, widths, value=value))


def concatenate(site: Site) -> Step:
    """The inputs one after the other along `axis`."""
    axis = site.option("axis")
    return Step(lambda *values: torch.cat(values, axis), tuple(range(len(site.inputs))))
