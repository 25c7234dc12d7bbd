"""Configs of pools, reductions and normalization."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.common.rules import argument_is, rank_is
from npu_assay.partitioners.exir.nodes import operand
from npu_assay.partitioners.xnnpack.config import FP32, STATIC, PartitionerConfig, config
from npu_assay.partitioners.xnnpack.lowering import normalization, pooling
from npu_assay.partitioners.xnnpack.site import Site
from npu_assay.partitioners.xnnpack.support.layout import same_qparams
from npu_assay.partitioners.xnnpack.support.pooling import (
    constant_statistics,
    count_include_pad,
    divisor_override,
    first_result,
    known_channels,
    mean_dims,
    output_dtype,
    spatial_dim,
    static_ceil_mode,
    stride_within_kernel,
)

AvgPoolingConfig = config(
    "AvgPoolingConfig",
    "aten.avg_pool2d.default",
    pooling.avg_pool2d,
    precisions=(FP32, STATIC),
    on_codes=False,
    rules=(rank_is(4), argument_is("ceil_mode", False, False, 4), count_include_pad, divisor_override),
)
MaxPool2dConfig = config(
    "MaxPool2dConfig",
    "aten.max_pool2d.default",
    pooling.max_pool2d,
    moves=True,
    precisions=(FP32, STATIC),
    rules=(rank_is(4), stride_within_kernel, static_ceil_mode, same_qparams),
    is_preserved=True,
)
MeanDimConfig = config(
    "MeanDimConfig",
    "aten.mean.dim",
    pooling.mean,
    precisions=(FP32, STATIC),
    rules=(rank_is(4), mean_dims, argument_is("keepdim", True, False, 2), output_dtype),
)


class MaxDimConfig(PartitionerConfig):
    """aten.max.dim"""

    target = "aten.max.dim"
    lower = pooling.max_dim
    rules = (rank_is(4), spatial_dim, argument_is("keepdim", True, False, 2), first_result)

    def members(self, site: Site) -> tuple[fx.Node, ...]:
        """The operator and the selections of its result."""
        return (site.node, *site.node.users)


class BatchNormConfig(PartitionerConfig):
    """aten._native_batch_norm_legit_no_training.default"""

    target = "aten._native_batch_norm_legit_no_training.default"
    lower = normalization.batch_norm
    rules = (rank_is(2, 3, 4), known_channels, constant_statistics, first_result)

    def members(self, site: Site) -> tuple[fx.Node, ...]:
        """The operator, its constants and the selections of its result."""
        constants = (operand(site.node, position) for position in (1, 2, 3, 4))
        return (site.node, *(source for source in constants if source is not None), *site.node.users)
