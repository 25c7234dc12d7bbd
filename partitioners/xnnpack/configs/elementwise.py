"""Configs of arithmetic and of activation functions."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.common.rules import rank_is
from npu_assay.partitioners.exir.cluster import HARDTANH, RELU
from npu_assay.partitioners.exir.nodes import operand
from npu_assay.partitioners.xnnpack.config import FP32, STATIC, PartitionerConfig, config
from npu_assay.partitioners.xnnpack.lowering import elementwise
from npu_assay.partitioners.xnnpack.site import Site
from npu_assay.partitioners.xnnpack.support.elementwise import (
    add_scale_ratio,
    alpha,
    approximate,
    clamp_limits,
    constant_slopes,
    elu_scales,
    exponent,
    float32_number,
    last_dim,
    limits_of_hardtanh,
    tensor_operands,
)

AbsConfig = config("AbsConfig", "aten.abs.default", elementwise.unary("Abs"))
AddConfig = config(
    "AddConfig",
    "aten.add.Tensor",
    elementwise.binary("Add"),
    is_clamped=True,
    precisions=(FP32, STATIC),
    rules=(tensor_operands, alpha, add_scale_ratio),
    fused=frozenset({RELU}),
)
CeilConfig = config("CeilConfig", "aten.ceil.default", elementwise.unary("Ceiling"))
ClampConfig = config(
    "ClampConfig",
    "aten.clamp.default",
    elementwise.clamp,
    precisions=(FP32, STATIC),
    rules=clamp_limits(("min", "max")),
)
CosConfig = config("CosConfig", "aten.cos.default", elementwise.unary("Cos"))
DivConfig = config("DivConfig", "aten.div.Tensor", elementwise.binary("Div"), rules=(tensor_operands,))
EluConfig = config(
    "EluConfig",
    "aten.elu.default",
    elementwise.elu,
    rules=(float32_number("alpha", 1, 1.0), elu_scales),
    is_preserved=True,
)
ExpConfig = config("ExpConfig", "aten.exp.default", elementwise.unary("Exp"))
FloorConfig = config("FloorConfig", "aten.floor.default", elementwise.unary("Floor"))
GeluConfig = config("GeluConfig", "aten.gelu.default", elementwise.gelu, rules=(approximate,))
HardswishConfig = config("HardswishConfig", "aten.hardswish.default", elementwise.unary("Hardswish"), is_preserved=True)
HardtanhConfig = config(
    "HardtanhConfig",
    HARDTANH,
    elementwise.clamp,
    precisions=(FP32, STATIC),
    rules=limits_of_hardtanh,
)
LeakyReLUConfig = config(
    "LeakyReLUConfig",
    "aten.leaky_relu.default",
    elementwise.leaky_relu,
    rules=(float32_number("negative_slope", 1, 0.01),),
)
LogConfig = config("LogConfig", "aten.log.default", elementwise.unary("Log"))
MaximumConfig = config("MaximumConfig", "aten.maximum.default", elementwise.binary("Maximum"))
MinimumConfig = config("MinimumConfig", "aten.minimum.default", elementwise.binary("Minimum"))
MulConfig = config(
    "MulConfig",
    "aten.mul.Tensor",
    elementwise.binary("Multiply"),
    is_clamped=True,
    precisions=(FP32, STATIC),
    rules=(tensor_operands,),
)
NegConfig = config("NegConfig", "aten.neg.default", elementwise.unary("Negate"))
PowConfig = config("PowConfig", "aten.pow.Tensor_Scalar", elementwise.square, rules=(exponent,))


class PreluConfig(PartitionerConfig):
    """aten.prelu.default"""

    target = "aten.prelu.default"
    lower = elementwise.prelu
    rules = (constant_slopes, rank_is(4))
    is_preserved = True

    def members(self, site: Site) -> tuple[fx.Node, ...]:
        """The operator and its slopes."""
        slopes = operand(site.node, 1)
        return (site.node, *(() if slopes is None else (slopes,)))


ReciprocalSquareRootConfig = config(
    "ReciprocalSquareRootConfig", "aten.rsqrt.default", elementwise.unary("ReciprocalSquareRoot")
)
ReLUConfig = config("ReLUConfig", RELU, elementwise.clamp, precisions=(FP32, STATIC))
SigmoidConfig = config("SigmoidConfig", "aten.sigmoid.default", elementwise.unary("Sigmoid"))
SinConfig = config("SinConfig", "aten.sin.default", elementwise.unary("Sin"))
SoftmaxConfig = config("SoftmaxConfig", "aten._softmax.default", elementwise.softmax, rules=(last_dim,))
SquareRootConfig = config("SquareRootConfig", "aten.sqrt.default", elementwise.unary("SquareRoot"))
SubConfig = config(
    "SubConfig",
    "aten.sub.Tensor",
    elementwise.binary("Subtract"),
    is_clamped=True,
    precisions=(FP32, STATIC),
    rules=(tensor_operands, alpha, add_scale_ratio),
)
TanhConfig = config("TanhConfig", "aten.tanh.default", elementwise.unary("Tanh"))
