"""Batch normalization with known statistics: one factor and one summand per channel.

Behind a convolution or a linear layer on numbers it is folded into the weights and the bias; else it is a product
of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx
from torch.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights

from npu_assay.partitioners.exir.compiling import bind, require
from npu_assay.partitioners.exir.nodes import operand, shape
from npu_assay.partitioners.exir.ops import GETITEM, target_name
from npu_assay.partitioners.xnnpack.linear import CONVOLUTION, LINEAR
from npu_assay.partitioners.xnnpack.lowering.context import Context
from npu_assay.partitioners.xnnpack.lowering.layout import flat, reshaped
from npu_assay.partitioners.xnnpack.lowering.operation import Operation
from npu_assay.partitioners.xnnpack.lowering.pooling import convolution_options
from npu_assay.partitioners.xnnpack.lowering.values import TO_NHWC, Value
from npu_assay.partitioners.xnnpack.lowering.weights import Weights, write_bias
from npu_assay.partitioners.xnnpack.patterns import only_user

NORM = "aten._native_batch_norm_legit_no_training.default"


def batch_norm(operation: Operation) -> Value:
    """aten._native_batch_norm_legit_no_training -> DepthwiseConv2d with a kernel of one element."""
    factors, summands = _affine(operation)
    x, model = operation.operand(operation.node.args[0]), operation.ctx.model
    require(x.rank in (2, 3, 4), operation.node, "rank", x.rank, "2 to 4")
    if x.rank == 4:
        source = operation.id_of(x, True)
    else:
        shape = (*x.shape, 1, 1)[:4]
        line = reshaped(operation, operation.id_of(x), shape, x.open_axes)
        source = operation.moved("StaticTranspose", [line], {"perm": TO_NHWC})
    filters = Weights(factors.to(torch.float32).reshape(1, 1, 1, -1), "fp32").write(model)
    options = convolution_options((1, 1), groups=x.shape[1])
    made = operation.emit("DepthwiseConv2d", [source, filters, write_bias(operation.ctx, summands, "fp32")], options)
    return operation.result(made, True) if x.rank == 4 else flat(operation, made)


def norm_behind(ctx: Context, node: fx.Node) -> fx.Node | None:
    """The batch norm that alone uses a product, and whose normalized result alone is used, once; else None."""
    if target_name(node.target) not in (CONVOLUTION, LINEAR):
        return None
    norm, weight = only_user(node), operand(node, 1)
    if norm is None or target_name(norm.target) != NORM or any(ctx.constant(part) is None for part in norm.args[1:5]):
        return None
    result = only_user(norm)
    if result is None or target_name(result.target) != GETITEM or result.args[1] != 0:
        return None
    ranks = (3, 4) if target_name(node.target) == CONVOLUTION else (2,)
    is_stored = weight is not None and weight.op == "placeholder" and ctx.constant(weight) is not None
    return norm if is_stored and len(shape(node)) in ranks else None


def folded(ctx: Context, norm: fx.Node, product: fx.Node) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight and bias of the product and the batch norm in one, computed in their own type as torch does."""
    given, statistics = bind(product), bind(norm)
    weight, bias = (ctx.constant(given[name]) for name in ("weight", "bias"))
    names = ("running_mean", "running_var", "weight", "bias")
    mean, variance, gamma, beta = (ctx.constant(statistics[name]) for name in names)
    assert weight is not None and mean is not None and variance is not None and gamma is not None and beta is not None
    eps, weight = statistics["eps"], weight.detach()
    if target_name(product.target) == LINEAR:
        fused = fuse_linear_bn_weights(weight, bias, mean, variance, eps, gamma, beta)
        return fused[0].detach(), fused[1].detach()
    groups = given["groups"] if given["transposed"] else 1
    parts = zip(*(_chunks(one, groups) for one in (weight, bias, mean, variance, gamma, beta)), strict=True)
    fused_parts = [
        fuse_conv_bn_weights(kernel, shift, average, spread, eps, factor, summand, bool(given["transposed"]))
        for kernel, shift, average, spread, factor, summand in parts
    ]
    return torch.cat([one[0] for one in fused_parts]).detach(), torch.cat([one[1] for one in fused_parts]).detach()


def _chunks(tensor: torch.Tensor | None, groups: int) -> Sequence[torch.Tensor | None]:
    """A tensor's part for each group; a transposed convolution's weight has its outputs group by group."""
    return (None,) * groups if tensor is None else tensor.chunk(groups)


def _affine(operation: Operation) -> tuple[torch.Tensor, torch.Tensor]:
    """Factor and summand per channel, computed in float64 and rounded to the statistics' type."""
    arguments, ctx = operation.arguments, operation.ctx
    mean, variance = (ctx.constant(arguments[name]) for name in ("running_mean", "running_var"))
    require(mean is not None and variance is not None, operation.node, "statistics", "computed", "constants")
    assert mean is not None and variance is not None
    gamma, beta = (ctx.constant(arguments[name]) for name in ("weight", "bias"))
    scale = torch.ones_like(mean).double() if gamma is None else gamma.double()
    shift = torch.zeros_like(mean).double() if beta is None else beta.double()
    deviation = torch.sqrt(variance.double() + torch.tensor(arguments["eps"], dtype=torch.float32))
    return (scale / deviation).to(mean.dtype), (-mean.double() * scale / deviation + shift).to(mean.dtype)
