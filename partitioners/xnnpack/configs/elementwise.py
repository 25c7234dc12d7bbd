"""Configs of arithmetic and of activation functions."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.common.rules import rank_is
from npu_assay.partitioners.exir.nodes import operand
from npu_assay.partitioners.xnnpack.config import FP32, STATIC, PartitionerConfig
from npu_assay.partitioners.xnnpack.site import Site
from npu_assay.partitioners.xnnpack.support.elementwise import (
    add_scale_ratio,
    alpha,
    approximate,
    constant_slopes,
    elu_scales,
    exponent,
    finite_slope,
    last_dim,
    tensor_operands,
)


class AbsConfig(PartitionerConfig):
    """aten.abs.default"""

    target = "aten.abs.default"


class AddConfig(PartitionerConfig):
    """aten.add.Tensor"""

    target = "aten.add.Tensor"
    precisions = (FP32, STATIC)
    rules = (
        tensor_operands,
        alpha,
        add_scale_ratio,
    )
    fused = frozenset({"aten.relu.default"})


class CeilConfig(PartitionerConfig):
    """aten.ceil.default"""

    target = "aten.ceil.default"


class ClampConfig(PartitionerConfig):
    """aten.clamp.default"""

    target = "aten.clamp.default"
    precisions = (FP32, STATIC)


class CosConfig(PartitionerConfig):
    """aten.cos.default"""

    target = "aten.cos.default"


class DivConfig(PartitionerConfig):
    """aten.div.Tensor"""

    target = "aten.div.Tensor"
    rules = (tensor_operands,)


class EluConfig(PartitionerConfig):
    """aten.elu.default"""

    target = "aten.elu.default"
    rules = (elu_scales,)
    is_preserved = True


class ExpConfig(PartitionerConfig):
    """aten.exp.default"""

    target = "aten.exp.default"


class FloorConfig(PartitionerConfig):
    """aten.floor.default"""

    target = "aten.floor.default"


class GeluConfig(PartitionerConfig):
    """aten.gelu.default"""

    target = "aten.gelu.default"
    rules = (approximate,)


class HardswishConfig(PartitionerConfig):
    """aten.hardswish.default"""

    target = "aten.hardswish.default"
    is_preserved = True


class HardtanhConfig(PartitionerConfig):
    """aten.hardtanh.default"""

    target = "aten.hardtanh.default"
    precisions = (FP32, STATIC)


class LeakyReLUConfig(PartitionerConfig):
    """aten.leaky_relu.default"""

    target = "aten.leaky_relu.default"
    rules = (finite_slope,)


class LogConfig(PartitionerConfig):
    """aten.log.default"""

    target = "aten.log.default"


class MaximumConfig(PartitionerConfig):
    """aten.maximum.default"""

    target = "aten.maximum.default"


class MinimumConfig(PartitionerConfig):
    """aten.minimum.default"""

    target = "aten.minimum.default"


class MulConfig(PartitionerConfig):
    """aten.mul.Tensor"""

    target = "aten.mul.Tensor"
    precisions = (FP32, STATIC)
    rules = (tensor_operands,)


class NegConfig(PartitionerConfig):
    """aten.neg.default"""

    target = "aten.neg.default"


class PowConfig(PartitionerConfig):
    """aten.pow.Tensor_Scalar"""

    target = "aten.pow.Tensor_Scalar"
    rules = (exponent,)


class PreluConfig(PartitionerConfig):
    """aten.prelu.default"""

    target = "aten.prelu.default"
    rules = (
        constant_slopes,
        rank_is(4),
    )
    is_preserved = True

    def members(self, site: Site) -> tuple[fx.Node, ...]:
        """The operator and its slopes."""
        slopes = operand(site.node, 1)
        return (site.node, *(() if slopes is None else (slopes,)))


class ReciprocalSquareRootConfig(PartitionerConfig):
    """aten.rsqrt.default"""

    target = "aten.rsqrt.default"


class ReLUConfig(PartitionerConfig):
    """aten.relu.default"""

    target = "aten.relu.default"
    precisions = (FP32, STATIC)


class SigmoidConfig(PartitionerConfig):
    """aten.sigmoid.default"""

    target = "aten.sigmoid.default"


class SinConfig(PartitionerConfig):
    """aten.sin.default"""

    target = "aten.sin.default"


class SoftmaxConfig(PartitionerConfig):
    """aten._softmax.default"""

    target = "aten._softmax.default"
    rules = (last_dim,)


class SquareRootConfig(PartitionerConfig):
    """aten.sqrt.default"""

    target = "aten.sqrt.default"


class SubConfig(PartitionerConfig):
    """aten.sub.Tensor"""

    target = "aten.sub.Tensor"
    precisions = (FP32, STATIC)
    rules = (
        tensor_operands,
        alpha,
        add_scale_ratio,
    )


class TanhConfig(PartitionerConfig):
    """aten.tanh.default"""

    target = "aten.tanh.default"
