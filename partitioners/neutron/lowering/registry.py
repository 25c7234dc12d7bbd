"""Which function lowers which operator."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.neutron.lowering import activation, elementwise, matmul, movement, pooling
from npu_assay.partitioners.neutron.lowering.context import Lower
from npu_assay.partitioners.neutron.lowering.convolution import convolution

LOWERINGS: Mapping[str, Lower] = {
    "aten._adaptive_avg_pool2d.default": pooling.adaptive_avg_pool2d,
    "aten._softmax.default": activation.softmax,
    "aten.abs.default": elementwise.abs_,
    "aten.add.Tensor": elementwise.add,
    "aten.addmm.default": matmul.addmm,
    "aten.avg_pool2d.default": pooling.avg_pool2d,
    "aten.bmm.default": matmul.bmm,
    "aten.cat.default": movement.cat,
    "aten.clamp.default": activation.clamp,
    "aten.clone.default": movement.clone,
    "aten.constant_pad_nd.default": movement.constant_pad,
    "aten.convolution.default": convolution,
    "aten.hardtanh.default": activation.hardtanh,
    "aten.leaky_relu.default": activation.leaky_relu,
    "aten.max_pool2d.default": pooling.max_pool2d,
    "aten.max_pool2d_with_indices.default": pooling.max_pool2d,
    "aten.mean.dim": pooling.mean,
    "aten.mm.default": matmul.mm,
    "aten.mul.Tensor": elementwise.mul,
    "aten.neg.default": elementwise.neg,
    "aten.permute_copy.default": movement.permute,
    "aten.prelu.default": activation.prelu,
    "aten.relu.default": activation.relu,
    "aten.sigmoid.default": activation.sigmoid,
    "aten.slice_copy.Tensor": movement.slice_,
    "aten.squeeze_copy.default": movement.view,
    "aten.squeeze_copy.dim": movement.view,
    "aten.squeeze_copy.dims": movement.view,
    "aten.sub.Tensor": elementwise.sub,
    "aten.tanh.default": activation.tanh,
    "aten.unsqueeze_copy.default": movement.view,
    "aten.upsample_bilinear2d.vec": pooling.resize_bilinear,
    "aten.upsample_nearest2d.vec": pooling.resize_nearest,
    "aten.view_copy.default": movement.view,
    "dim_order_ops._clone_dim_order.default": movement.clone,
}
