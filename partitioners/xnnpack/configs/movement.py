"""Configs of operators that move, copy or resize."""

from __future__ import annotations

from npu_assay.partitioners.xnnpack.config import FP32, STATIC, PartitionerConfig
from npu_assay.partitioners.xnnpack.lowering import movement, pooling
from npu_assay.partitioners.xnnpack.support.movement import (
    exact_scale,
    known_target,
    memory_format,
    min_inputs,
    new_last_dim,
    no_conversion,
    non_negative_padding,
    open_sizes,
    same_qparams,
    static_output_size,
    static_shape,
    step,
)


class CatConfig(PartitionerConfig):
    """aten.cat.default"""

    target = "aten.cat.default"
    lower = movement.cat
    moves = True
    precisions = (FP32, STATIC)
    rules = (
        min_inputs,
        same_qparams,
    )


class CloneConfig(PartitionerConfig):
    """aten.clone.default"""

    target = "aten.clone.default"
    lower = movement.same
    moves = True
    rules = (memory_format,)


class CloneDimOrderConfig(PartitionerConfig):
    """dim_order_ops._clone_dim_order.default"""

    target = "dim_order_ops._clone_dim_order.default"
    lower = movement.same
    moves = True
    rules = (memory_format,)


class ConstantPadConfig(PartitionerConfig):
    """aten.constant_pad_nd.default"""

    target = "aten.constant_pad_nd.default"
    lower = movement.pad
    rules = (non_negative_padding,)


class PermuteConfig(PartitionerConfig):
    """aten.permute_copy.default"""

    target = "aten.permute_copy.default"
    lower = movement.permute
    moves = True
    precisions = (FP32, STATIC)
    rules = (same_qparams,)


class SliceCopyConfig(PartitionerConfig):
    """aten.slice_copy.Tensor"""

    target = "aten.slice_copy.Tensor"
    lower = movement.slice_
    moves = True
    precisions = (FP32, STATIC)
    rules = (
        static_shape,
        step,
        same_qparams,
    )


class SqueezeCopyConfig(PartitionerConfig):
    """aten.squeeze_copy.dims: compiled where a partition has it, never delegated on its own"""

    target = "aten.squeeze_copy.dims"
    lower = movement.reshape
    moves = True


class ToDimOrderCopyConfig(PartitionerConfig):
    """dim_order_ops._to_dim_order_copy.default"""

    target = "dim_order_ops._to_dim_order_copy.default"
    lower = movement.same
    moves = True
    precisions = (FP32, STATIC)
    rules = (
        no_conversion,
        same_qparams,
    )


class UnsqueezeCopyConfig(PartitionerConfig):
    """aten.unsqueeze_copy.default"""

    target = "aten.unsqueeze_copy.default"
    lower = movement.reshape
    moves = True
    precisions = (FP32, STATIC)
    rules = (
        new_last_dim,
        open_sizes,
        same_qparams,
    )


class UpsampleBilinear2dConfig(PartitionerConfig):
    """aten.upsample_bilinear2d.vec"""

    target = "aten.upsample_bilinear2d.vec"
    lower = pooling.resize_bilinear
    rules = (
        static_output_size,
        exact_scale,
    )
    is_preserved = True


class ViewCopyConfig(PartitionerConfig):
    """aten.view_copy.default"""

    target = "aten.view_copy.default"
    lower = movement.reshape
    moves = True
    precisions = (FP32, STATIC)
    rules = (
        known_target,
        same_qparams,
    )
