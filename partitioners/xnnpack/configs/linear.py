"""Configs of matrix products and convolutions."""

from __future__ import annotations

from typing import ClassVar

from torch import fx

from npu_assay.partitioners.common.rules import argument_is
from npu_assay.partitioners.exir.cluster import HARDTANH, RELU
from npu_assay.partitioners.xnnpack.config import DYNAMIC, FP32, STATIC, PartitionerConfig, config
from npu_assay.partitioners.xnnpack.linear import PLACES
from npu_assay.partitioners.xnnpack.lowering import linear
from npu_assay.partitioners.xnnpack.patterns import result_path
from npu_assay.partitioners.xnnpack.site import Rule, Site
from npu_assay.partitioners.xnnpack.support.linear import (
    accumulators,
    bias_shape,
    depthwise,
    flat_open_sizes,
    fused_limits,
    group_codes,
    group_size,
    matrix_weight,
    may_be_computed,
    output_padding,
    quantized,
    requant_scale,
    run_time_dtype,
    run_time_qparams,
    spatial_rank,
    static_weights,
    transposed_groups,
    weight_axis,
    weight_dtype,
    weight_scales,
    weight_zero_point,
)

CLAMPS = frozenset({RELU, HARDTANH})
WEIGHTS: tuple[Rule, ...] = (
    static_weights,
    bias_shape,
    weight_dtype,
    weight_zero_point,
    weight_scales,
    weight_axis,
    requant_scale,
    accumulators,
    quantized,
    fused_limits,
    run_time_qparams,
    run_time_dtype,
)
BMMConfig = config("BMMConfig", "aten.bmm.default", linear.batch_matmul)


class ProductConfig(PartitionerConfig):
    """What matrix products and convolutions with constant weights have in common."""

    precisions = (FP32, STATIC, DYNAMIC)
    fused = CLAMPS

    def members(self, site: Site) -> tuple[fx.Node, ...]:
        """The product, its constants, the conversions around it and the activation right after it."""
        found = site.product
        assert found is not None
        nodes: list[fx.Node | None] = [site.node]
        if not may_be_computed(site.node, site):
            nodes += [
                found.bias,
                found.permute,
                *((found.weight,) if found.quantised is None else found.quantised.members),
            ]
        elif site.is_overridden:
            nodes.append(found.bias)
        nodes.append(found.pad)
        if found.dynamic is not None:
            nodes += found.dynamic.members
        nodes += self._behind(site)
        return tuple(dict.fromkeys(node for node in nodes if node is not None))

    def _behind(self, site: Site) -> tuple[fx.Node | None, ...]:
        found = site.product
        if found is None or found.precision is DYNAMIC:
            return ()
        activation, output = result_path(site.node, self.fused)
        if found.precision is STATIC:
            return (found.activation, activation, output)
        return (activation,)


class LinearConfig(ProductConfig):
    """aten.linear.default"""

    target = "aten.linear.default"
    lower = linear.fully_connected
    is_clamped = True
    places = PLACES[target]
    rules: ClassVar[tuple[Rule, ...]] = (matrix_weight, *WEIGHTS, group_size, group_codes)
    is_preserved = True


class ConvolutionConfig(ProductConfig):
    """aten.convolution.default, transposed or not, with one or two spatial dimensions"""

    target = "aten.convolution.default"
    lower = linear.convolution
    is_clamped = True
    places = PLACES[target]
    rules = (spatial_rank, flat_open_sizes, output_padding, *WEIGHTS, transposed_groups, depthwise)


class AddmmConfig(ProductConfig):
    """aten.addmm.default"""

    target = "aten.addmm.default"
    lower = linear.fully_connected
    is_clamped = True
    places = PLACES[target]
    rules = (argument_is("alpha", 1, 1), argument_is("beta", 1, 1), *WEIGHTS)


class MMConfig(ProductConfig):
    """aten.mm.default"""

    target = "aten.mm.default"
    lower = linear.fully_connected
    is_clamped = True
    places = PLACES[target]
    rules = WEIGHTS
