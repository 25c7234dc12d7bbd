"""Pools over images, and resizing."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.common.rules import rank_is
from npu_assay.partitioners.ethosu.lowering import pooling as lowering
from npu_assay.partitioners.ethosu.lowering import resizing as resizing_lowering
from npu_assay.partitioners.ethosu.operators.row import Annotation, Kept, Row
from npu_assay.partitioners.ethosu.rewriting import images
from npu_assay.partitioners.ethosu.support import pooling as limits
from npu_assay.partitioners.ethosu.support import resizing
from npu_assay.partitioners.ethosu.support.products import image_size
from npu_assay.partitioners.ethosu.support.rescale import moved

_IMAGE = rank_is(3, 4)
_MAX_POOL = Row(
    rules=(
        _IMAGE,
        limits.dilation_stride,
        limits.kernel_height,
        limits.kernel_area,
        image_size,
        limits.stride_or_window,
        limits.pooled_dtype,
    ),
    scalings=moved,
    lower=lowering.max_pool2d,
    annotation=Annotation.POOL,
    keeps_sign=True,
)
ROWS: Mapping[str, Row] = {
    "aten.max_pool2d.default": _MAX_POOL,
    "aten.max_pool2d_with_indices.default": Row(
        rules=(*(_MAX_POOL.rules or ()), limits.indices_unused),
        scalings=moved,
        lower=lowering.max_pool2d,
        keeps_sign=True,
    ),
    "aten.avg_pool2d.default": Row(
        rules=(
            _IMAGE,
            limits.padded_kernel,
            limits.divided_window,
            limits.kernel_height,
            limits.kernel_area,
            image_size,
            limits.stride,
            limits.single_image,
        ),
        scalings=moved,
        lower=lowering.avg_pool2d,
        annotation=Annotation.POOL,
        rewrite=images.avg_pool2d,
    ),
    "aten._adaptive_avg_pool2d.default": Row(
        rules=(_IMAGE, limits.adaptive_height, limits.adaptive_area, image_size, limits.single_image),
        scalings=moved,
        lower=lowering.adaptive_avg_pool2d,
    ),
    "aten.adaptive_avg_pool2d.default": Row(annotation=Annotation.POOL, rewrite=images.adaptive_avg_pool2d),
    "aten.upsample_nearest2d.vec": Row(
        rules=(resizing.resize, resizing.single_image, resizing.doubled),
        scalings=moved,
        lower=resizing_lowering.nearest,
        kept=Kept.NEVER,
        kept_on_u55=False,
        annotation=Annotation.POOL,
    ),
    "aten.upsample_bilinear2d.vec": Row(
        rules=(resizing.resize,),
        on_u55=False,
        scalings=moved,
        lower=resizing_lowering.bilinear,
        kept=Kept.NEVER,
        kept_on_u55=False,
        annotation=Annotation.POOL,
    ),
}
