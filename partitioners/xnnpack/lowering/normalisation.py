"""Batch normalisation with known statistics: one factor and one summand per channel."""

from __future__ import annotations

import torch

from partitioners.exir.compiling import require
from partitioners.xnnpack.lowering.context import bounds
from partitioners.xnnpack.lowering.movement import reshaped
from partitioners.xnnpack.lowering.operation import Operation
from partitioners.xnnpack.lowering.pooling import convolution_options
from partitioners.xnnpack.lowering.values import TO_NCHW, TO_NHWC, Value
from partitioners.xnnpack.lowering.weights import Weights, write_bias


def batch_norm(operation: Operation) -> Value:
    """aten._native_batch_norm_legit_no_training -> DepthwiseConv2d with a kernel of one element."""
    factors, summands = _affine(operation)
    x, model = operation.operand(operation.node.args[0]), operation.ctx.model
    require(x.rank in (2, 3, 4), operation.node, "rank", x.rank, "2 to 4")
    if x.rank == 4:
        source = operation.id_of(x, True)
    else:
        shape = (*x.shape, 1, 1)[:4]
        flat = reshaped(operation, operation.id_of(x), shape, x.open_axes)
        source = operation.moved("StaticTranspose", [flat], {"perm": TO_NHWC})
    filters = Weights(factors.to(torch.float32).reshape(1, 1, 1, -1), "fp32").write(model)
    options = convolution_options((1, 1), groups=x.shape[1])
    made = operation.emit("DepthwiseConv2d", [source, filters, write_bias(operation.ctx, summands, "fp32")], options)
    if x.rank == 4:
        return operation.result(made, True)
    whole = operation.moved("StaticTranspose", [made], {"perm": TO_NCHW})
    return operation.result(reshaped(operation, whole, *bounds(operation.node)))


def _affine(operation: Operation) -> tuple[torch.Tensor, torch.Tensor]:
    """Factor and summand per channel, computed in float64 and rounded to the statistics' type."""
    arguments, ctx = operation.arguments, operation.ctx
    mean, variance = (ctx.constant(arguments[name]) for name in ("running_mean", "running_var"))
    if mean is None or variance is None:
        require(False, operation.node, "statistics", "computed", "constants")
    assert mean is not None and variance is not None
    gamma, beta = (ctx.constant(arguments[name]) for name in ("weight", "bias"))
    scale = torch.ones_like(mean).double() if gamma is None else gamma.double()
    shift = torch.zeros_like(mean).double() if beta is None else beta.double()
    deviation = torch.sqrt(variance.double() + torch.tensor(arguments["eps"], dtype=torch.float32))
    return (scale / deviation).to(mean.dtype), (-mean.double() * scale / deviation + shift).to(mean.dtype)
