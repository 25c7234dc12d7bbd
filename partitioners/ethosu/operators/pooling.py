"""Pools over images, and resizing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from npu_assay.partitioners.common.rules import rank_is
from npu_assay.partitioners.ethosu.lowering import pooling as lowering
from npu_assay.partitioners.ethosu.lowering import resize as resized
from npu_assay.partitioners.ethosu.operators.row import Annotation, Kept, Row, picking
from npu_assay.partitioners.ethosu.rewriting import pooling
from npu_assay.partitioners.ethosu.support import pooling as limits
from npu_assay.partitioners.ethosu.support import resize
from npu_assay.partitioners.ethosu.support.linear import image_channels, image_size

POOL = Annotation.POOL
_IMAGE = rank_is(3, 4)
_MAX_POOL = (
    _IMAGE,
    limits.dilation_stride,
    limits.window_side,
    limits.kernel_height,
    limits.kernel_area,
    image_size,
    image_channels,
    limits.dilated_size,
    limits.stride_or_window,
    limits.pooled_dtype,
)


def _on_codes(*given: Any, **options: Any) -> Row:
    """A row of what averages codes."""
    return replace(picking(*given, **options), needs_codes=True)


ROWS: Mapping[str, Row] = {
    "aten.max_pool2d.default": replace(picking(lowering.max_pool2d, *_MAX_POOL, annotation=POOL), keeps_sign=True),
    "aten.max_pool2d_with_indices.default": replace(
        picking(lowering.max_pool2d, *_MAX_POOL, limits.indices_unused, annotation=None), keeps_sign=True
    ),
    "aten.avg_pool2d.default": _on_codes(
        lowering.avg_pool2d,
        _IMAGE,
        limits.padded_kernel,
        limits.divided_window,
        limits.window_side,
        limits.kernel_height,
        limits.kernel_area,
        image_size,
        image_channels,
        limits.stride,
        limits.single_image,
        annotation=POOL,
        rewrite=pooling.avg_pool2d,
    ),
    "aten._adaptive_avg_pool2d.default": _on_codes(
        lowering.adaptive_avg_pool2d,
        _IMAGE,
        limits.adaptive_side,
        limits.adaptive_height,
        limits.adaptive_area,
        image_size,
        image_channels,
        limits.single_image,
        annotation=None,
    ),
    "aten.adaptive_avg_pool2d.default": Row(annotation=POOL, rewrite=pooling.adaptive_avg_pool2d),
    "aten.upsample_nearest2d.vec": replace(
        picking(resized.nearest, resize.resize, resize.single_image, resize.doubled, annotation=POOL, kept=Kept.NEVER),
        kept_on_u55=False,
        needs_codes=True,
    ),
    "aten.upsample_bilinear2d.vec": replace(
        picking(resized.bilinear, resize.resize, annotation=POOL, on_u55=False, kept=Kept.NEVER),
        kept_on_u55=False,
        needs_codes=True,
    ),
}
