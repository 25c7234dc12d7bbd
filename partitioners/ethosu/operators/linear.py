"""Convolutions and matrix products."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.ethosu.lowering import convolution as lowering
from npu_assay.partitioners.ethosu.operators.row import Annotation, Kept, Row, rows
from npu_assay.partitioners.ethosu.rewriting import linear, pooling
from npu_assay.partitioners.ethosu.support import linear as limits
from npu_assay.partitioners.ethosu.support.common import matrix_of_weights
from npu_assay.partitioners.ethosu.support.quantization import mixed_dtype
from npu_assay.partitioners.ethosu.support.rescale import matrices, weighted

_CONSTANTS = (
    mixed_dtype,
    limits.static_weights,
    limits.weight_dtype,
    limits.weight_zero_point,
    limits.weight_axis,
    limits.weight_sum,
    limits.bias_dtype,
)
_MATRICES = Row(
    rules=(mixed_dtype, limits.matrix_dtype, limits.matrix_size),
    scalings=matrices,
    lower=lowering.matmul,
    annotation=Annotation.ARITHMETIC,
    needs_codes=True,
)
ROWS: Mapping[str, Row] = {
    "aten.convolution.default": Row(
        rules=(
            limits.flat_kernel,
            limits.output_padding,
            limits.transposed_dilation,
            limits.transposed_padding,
            limits.transposed_size,
            limits.transposed_groups,
            limits.level_side,
            limits.cropped,
            limits.narrow_transposed,
            limits.transposed_stride,
            limits.stride,
            limits.kernel_depth,
            limits.kernel_height,
            limits.kernel_area,
            limits.image_size,
            limits.image_channels,
            *_CONSTANTS,
        ),
        scalings=weighted,
        lower=lowering.convolution,
        is_weighted=True,
        needs_codes=True,
    ),
    **rows("conv1d conv2d conv3d conv_transpose2d.input", Row(annotation=Annotation.PRODUCT)),
    **rows(
        "conv1d.padding conv2d.padding conv3d.padding", Row(annotation=Annotation.PRODUCT, rewrite=pooling.same_padding)
    ),
    "aten.linear.default": Row(
        first=(matrix_of_weights,),
        rules=(limits.few_inputs, *_CONSTANTS),
        scalings=weighted,
        lower=lowering.linear,
        annotation=Annotation.PRODUCT,
        is_weighted=True,
        needs_codes=True,
        kept=Kept.QUANTIZED,
    ),
    "aten.bmm.default": _MATRICES,
    "aten.mm.default": _MATRICES,
    "aten.matmul.default": Row(annotation=Annotation.ARITHMETIC, rewrite=linear.matmul),
    "aten.addmm.default": Row(annotation=Annotation.FREE, rewrite=linear.addmm),
    "aten.baddbmm.default": Row(annotation=Annotation.FREE, rewrite=linear.baddbmm),
    "aten.einsum.default": Row(annotation=Annotation.FREE, rewrite=linear.einsum),
    "aten.scaled_dot_product_attention.default": Row(annotation=Annotation.FREE, rewrite=linear.attention),
}
