"""Configs of arithmetic and of activation functions."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.common.rules import rank_is
from npu_assay.partitioners.exir.nodes import operand
from npu_assay.partitioners.xnnpack.config import FP32, STATIC, PartitionerConfig
from npu_assay.partitioners.xnnpack.lowering import elementwise
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
    lower = elementwise.unary("Abs")


class AddConfig(PartitionerConfig):
    """aten.add.Tensor"""

    target = "aten.add.Tensor"
    lower = elementwise.binary("Add")
    is_clamped = True
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
    lower = elementwise.unary("Ceiling")


class ClampConfig(PartitionerConfig):
    """aten.clamp.default"""

    target = "aten.clamp.default"
    lower = elementwise.clamp
    precisions = (FP32, STATIC)


class CosConfig(PartitionerConfig):
    """aten.cos.default"""

    target = "aten.cos.default"
    lower = elementwise.unary("Cos")


class DivConfig(PartitionerConfig):
    """aten.div.Tensor"""

    target = "aten.div.Tensor"
    lower = elementwise.binary("Div")
    rules = (tensor_operands,)


class EluConfig(PartitionerConfig):
    """aten.elu.default"""

    target = "aten.elu.default"
    lower = elementwise.elu
    rules = (elu_scales,)
    is_preserved = True


class ExpConfig(PartitionerConfig):
    """aten.exp.default"""

    target = "aten.exp.default"
    lower = elementwise.unary("Exp")


class FloorConfig(PartitionerConfig):
    """aten.floor.default"""

    target = "aten.floor.default"
    lower = elementwise.unary("Floor")


class GeluConfig(PartitionerConfig):
    """aten.gelu.default"""

    target = "aten.gelu.default"
    lower = elementwise.gelu
    rules = (approximate,)


class HardswishConfig(PartitionerConfig):
    """aten.hardswish.default"""

    target = "aten.hardswish.default"
    lower = elementwise.unary("Hardswish")
    is_preserved = True


class HardtanhConfig(PartitionerConfig):
    """aten.hardtanh.default"""

    target = "aten.hardtanh.default"
    lower = elementwise.clamp
    precisions = (FP32, STATIC)


class LeakyReLUConfig(PartitionerConfig):
    """aten.leaky_relu.default"""

    target = "aten.leaky_relu.default"
    lower = elementwise.leaky_relu
    rules = (finite_slope,)


class LogConfig(PartitionerConfig):
    """aten.log.default"""

    target = "aten.log.default"
    lower = elementwise.unary("Log")


class MaximumConfig(PartitionerConfig):
    """aten.maximum.default"""

    target = "aten.maximum.default"
    lower = elementwise.binary("Maximum")


class MinimumConfig(PartitionerConfig):
    """aten.minimum.default"""

    target = "aten.minimum.default"
    lower = elementwise.binary("Minimum")


class MulConfig(PartitionerConfig):
    """aten.mul.Tensor"""

    target = "aten.mul.Tensor"
    lower = elementwise.binary("Multiply")
    is_clamped = True
    precisions = (FP32, STATIC)
    rules = (tensor_operands,)


class NegConfig(PartitionerConfig):
    """aten.neg.default"""

    target = "aten.neg.default"
    lower = elementwise.unary("Negate")


class PowConfig(PartitionerConfig):
    """aten.pow.Tensor_Scalar"""

    target = "aten.pow.Tensor_Scalar"
    lower = elementwise.square
    rules = (exponent,)


class PreluConfig(PartitionerConfig):
    """aten.prelu.default"""

    target = "aten.prelu.default"
    lower = elementwise.prelu
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
    lower = elementwise.unary("ReciprocalSquareRoot")


class ReLUConfig(PartitionerConfig):
    """aten.relu.default"""

    target = "aten.relu.default"
    lower = elementwise.clamp
    precisions = (FP32, STATIC)


class SigmoidConfig(PartitionerConfig):
    """aten.sigmoid.default"""

    target = "aten.sigmoid.default"
    lower = elementwise.unary("Sigmoid")


class SinConfig(PartitionerConfig):
    """aten.sin.default"""

    target = "aten.sin.default"
    lower = elementwise.unary("Sin")


class SoftmaxConfig(PartitionerConfig):
    """aten._softmax.default"""

    target = "aten._softmax.default"
    lower = elementwise.softmax
    rules = (last_dim,)


class SquareRootConfig(PartitionerConfig):
    """aten.sqrt.default"""

    target = "aten.sqrt.default"
    lower = elementwise.unary("SquareRoot")


class SubConfig(PartitionerConfig):
    """aten.sub.Tensor"""

    target = "aten.sub.Tensor"
    lower = elementwise.binary("Subtract")
    is_clamped = True
    precisions = (FP32, STATIC)
    rules = (
        tensor_operands,
        alpha,
        add_scale_ratio,
    )


class TanhConfig(PartitionerConfig):
    """aten.tanh.default"""

    target = "aten.tanh.default"
    lower = elementwise.unary("Tanh")
