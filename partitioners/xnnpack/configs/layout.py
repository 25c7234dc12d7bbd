"""Configs of operators that move, copy or resize."""

from __future__ import annotations

from npu_assay.partitioners.common.rules import no_conversion, step_is_one
from npu_assay.partitioners.xnnpack.config import FP32, STATIC, PartitionerConfig, config
from npu_assay.partitioners.xnnpack.lowering import layout, pooling
from npu_assay.partitioners.xnnpack.support.elementwise import float32_number
from npu_assay.partitioners.xnnpack.support.layout import (
    exact_scale,
    known_target,
    memory_format,
    min_inputs,
    new_last_dim,
    non_negative_padding,
    open_sizes,
    same_qparams,
    static_output_size,
    static_shape,
)

CatConfig = config(
    "CatConfig",
    "aten.cat.default",
    layout.cat,
    moves=True,
    precisions=(FP32, STATIC),
    rules=(min_inputs, same_qparams),
)
CloneConfig = config("CloneConfig", "aten.clone.default", layout.same, moves=True, rules=(memory_format,))
CloneDimOrderConfig = config(
    "CloneDimOrderConfig", "dim_order_ops._clone_dim_order.default", layout.same, moves=True, rules=(memory_format,)
)
ConstantPadConfig = config(
    "ConstantPadConfig",
    "aten.constant_pad_nd.default",
    layout.pad,
    rules=(non_negative_padding, float32_number("value", 2, 0.0, infinite=True)),
)
PermuteConfig = config(
    "PermuteConfig",
    "aten.permute_copy.default",
    layout.permute,
    moves=True,
    precisions=(FP32, STATIC),
    rules=(same_qparams,),
)
SliceCopyConfig = config(
    "SliceCopyConfig",
    "aten.slice_copy.Tensor",
    layout.slice_,
    moves=True,
    precisions=(FP32, STATIC),
    rules=(static_shape, step_is_one, same_qparams),
)


class SqueezeCopyConfig(PartitionerConfig):
    """aten.squeeze_copy.dims: compiled where a partition has it, never delegated on its own"""

    target = "aten.squeeze_copy.dims"
    lower = layout.reshape
    moves = True


ToDimOrderCopyConfig = config(
    "ToDimOrderCopyConfig",
    "dim_order_ops._to_dim_order_copy.default",
    layout.same,
    moves=True,
    precisions=(FP32, STATIC),
    rules=(no_conversion, same_qparams),
)
UnsqueezeCopyConfig = config(
    "UnsqueezeCopyConfig",
    "aten.unsqueeze_copy.default",
    layout.reshape,
    moves=True,
    precisions=(FP32, STATIC),
    rules=(new_last_dim, open_sizes, same_qparams),
)
UpsampleBilinear2dConfig = config(
    "UpsampleBilinear2dConfig",
    "aten.upsample_bilinear2d.vec",
    pooling.resize_bilinear,
    rules=(static_output_size, exact_scale),
    is_preserved=True,
)
ViewCopyConfig = config(
    "ViewCopyConfig",
    "aten.view_copy.default",
    layout.reshape,
    moves=True,
    precisions=(FP32, STATIC),
    rules=(known_target, same_qparams),
)
