"""Which function lowers which operator, and what the operator takes along."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from npu_assay.partitioners.xnnpack.lowering import elementwise, movement, pooling, products
from npu_assay.partitioners.xnnpack.lowering.elementwise import Lower, binary, unary
from npu_assay.partitioners.xnnpack.lowering.normalisation import batch_norm

RELU: Final = "aten.relu.default"
CLAMPS: Final = frozenset({RELU, "aten.hardtanh.default"})


@dataclass(frozen=True)
class Lowering:
    """How an operator is lowered.

    on_codes: whether it can be computed on int8 codes, with one of the activations `fused` behind it.
    moves: whether it only moves elements, so that codes keep their scale. is_clamped: whether XNNPACK limits its
    result, so that a relu or hardtanh behind it costs nothing.
    """

    lower: Lower
    on_codes: bool = False
    fused: frozenset[str] = frozenset()
    moves: bool = False
    is_clamped: bool = False


_FUNCTIONS: Final = {
    "aten.abs.default": "Abs",
    "aten.ceil.default": "Ceiling",
    "aten.cos.default": "Cos",
    "aten.exp.default": "Exp",
    "aten.floor.default": "Floor",
    "aten.hardswish.default": "Hardswish",
    "aten.log.default": "Log",
    "aten.neg.default": "Negate",
    "aten.rsqrt.default": "ReciprocalSquareRoot",
    "aten.sigmoid.default": "Sigmoid",
    "aten.sin.default": "Sin",
    "aten.sqrt.default": "SquareRoot",
    "aten.tanh.default": "Tanh",
}
_MOVES: Final[Mapping[str, Lower]] = {
    "aten.cat.default": movement.cat,
    "aten.clone.default": movement.same,
    "aten.max_pool2d.default": pooling.max_pool2d,
    "aten.permute_copy.default": movement.permute,
    "aten.slice_copy.Tensor": movement.slice_,
    "aten.squeeze_copy.dims": movement.reshape,
    "aten.unsqueeze_copy.default": movement.reshape,
    "aten.view_copy.default": movement.reshape,
    "dim_order_ops._clone_dim_order.default": movement.same,
    "dim_order_ops._to_dim_order_copy.default": movement.same,
}
_PRODUCTS: Final[Mapping[str, Lower]] = {
    "aten.addmm.default": products.fully_connected,
    "aten.convolution.default": products.convolution,
    "aten.linear.default": products.fully_connected,
    "aten.mm.default": products.fully_connected,
}

LOWERINGS: Final[Mapping[str, Lowering]] = {
    **{name: Lowering(unary(op)) for name, op in _FUNCTIONS.items()},
    **{name: Lowering(lower, on_codes=True, moves=True) for name, lower in _MOVES.items()},
    **{name: Lowering(lower, is_clamped=True) for name, lower in _PRODUCTS.items()},
    "aten._native_batch_norm_legit_no_training.default": Lowering(batch_norm),
    "aten._softmax.default": Lowering(elementwise.softmax),
    "aten.add.Tensor": Lowering(binary("Add"), on_codes=True, fused=frozenset({RELU}), is_clamped=True),
    "aten.avg_pool2d.default": Lowering(pooling.avg_pool2d),
    "aten.bmm.default": Lowering(products.batch_matmul),
    "aten.clamp.default": Lowering(elementwise.clamp, on_codes=True),
    "aten.constant_pad_nd.default": Lowering(movement.pad),
    "aten.div.Tensor": Lowering(binary("Div")),
    "aten.elu.default": Lowering(elementwise.elu),
    "aten.gelu.default": Lowering(elementwise.gelu),
    "aten.hardtanh.default": Lowering(elementwise.clamp, on_codes=True),
    "aten.leaky_relu.default": Lowering(elementwise.leaky_relu),
    "aten.max.dim": Lowering(pooling.max_dim),
    "aten.maximum.default": Lowering(binary("Maximum")),
    "aten.mean.dim": Lowering(pooling.mean, on_codes=True),
    "aten.minimum.default": Lowering(binary("Minimum")),
    "aten.mul.Tensor": Lowering(binary("Multiply"), on_codes=True, is_clamped=True),
    "aten.pow.Tensor_Scalar": Lowering(elementwise.square),
    "aten.prelu.default": Lowering(elementwise.prelu),
    "aten.relu.default": Lowering(elementwise.clamp, on_codes=True),
    "aten.sub.Tensor": Lowering(binary("Subtract"), on_codes=True, is_clamped=True),
    "aten.upsample_bilinear2d.vec": Lowering(pooling.resize_bilinear),
}
