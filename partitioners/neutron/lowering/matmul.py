"""Matrix products: FULLY_CONNECTED and BATCH_MATMUL."""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx

from npu_assay.partitioners.exir.compiling import bind, require
from npu_assay.partitioners.exir.layout import arranged, identity
from npu_assay.partitioners.neutron.lowering.bias import bias_tensor
from npu_assay.partitioners.neutron.lowering.context import Context, folded
from npu_assay.partitioners.neutron.lowering.values import Value

OPTIONS = {"fused_activation_function": "NONE", "weights_format": 0, "keep_num_dims": False}
SWAPPED = (1, 0)


def addmm(ctx: Context, node: fx.Node) -> None:
    """aten.addmm with alpha = beta = 1 -> FULLY_CONNECTED with an int32 bias."""
    bound = bind(node)
    require(bound["alpha"] == 1, node, "alpha", bound["alpha"], 1)
    require(bound["beta"] == 1, node, "beta", bound["beta"], 1)
    x, weights = _operands(ctx, node, bound["mat1"], bound["mat2"])
    bias = bias_tensor(ctx, node, bound["self"], x.quantisation, weights.quantisation, weights.shape[0])
    _fully_connected(ctx, node, x, weights, [bias])


def mm(ctx: Context, node: fx.Node) -> None:
    """aten.mm -> FULLY_CONNECTED without bias."""
    x, weights = _operands(ctx, node, *node.args[:2])
    _fully_connected(ctx, node, x, weights, [])


def bmm(ctx: Context, node: fx.Node) -> None:
    """aten.bmm -> BATCH_MATMUL.

    Channels-first matrices are held transposed; then the transposed product of a and b is the
    product of the held b and the held a, and no transposition is needed.
    """
    layout = ctx.layout(node)
    tensors = [ctx.tensor(ctx.value(operand, node), layout) for operand in node.args[:2]]
    ordered = tensors if layout == identity(3) else tensors[::-1]
    options = {"adj_x": False, "adj_y": False, "asymmetric_quantize_inputs": False}
    ctx.emit(node, "BATCH_MATMUL", ordered, options, layout=layout)


def _operands(ctx: Context, node: fx.Node, left: object, right: object) -> tuple[Value, Value]:
    """The left matrix, and the right one as [outputs, inputs], transposed here when it is a constant."""
    x, matrix = ctx.value(left, node), ctx.value(right, node)
    if matrix.data is not None:
        require(
            not any(matrix.quantisation.zero_points), node, "zero point of weights", matrix.quantisation.zero_points, 0
        )
        return x, folded(matrix.name, matrix, matrix.data.transpose(SWAPPED), SWAPPED)
    shape = arranged(matrix.shape, SWAPPED)
    return x, Value(matrix.name, shape, matrix.quantisation, source=matrix, permutation=SWAPPED)


def _fully_connected(ctx: Context, node: fx.Node, x: Value, weights: Value, bias: Sequence[int]) -> None:
    tensor, weights = _flattened(ctx, x, weights)
    require(not weights.quantisation.per_channel or weights.quantisation.axis == 0, node, "axis of scales", 0, 1)
    ctx.emit(node, "FULLY_CONNECTED", [tensor, ctx.tensor(weights, identity(2)), *bias], OPTIONS)


def _flattened(ctx: Context, x: Value, weights: Value) -> tuple[int, Value]:
    """The left tensor and the weights that fit its order of columns.

    A channels-last tensor flattened to [batch, features] keeps its device order when the weights
    are constant: their columns are permuted instead of the tensor.
    """
    source = x.source
    if source is None or x.permutation is not None or x.tensors or weights.data is None:
        return ctx.tensor(x, identity(2)), weights
    layout = source.home
    if layout == identity(source.rank) or source.shape[:1] != x.shape[:1] or layout[0] != 0:
        return ctx.tensor(x, identity(2)), weights
    flat = ctx.model.reshape(ctx.tensor(source, layout), x.shape, x.name)
    rows = weights.data.reshape(weights.shape[0], *source.shape[1:])
    columns = rows.transpose(layout).reshape(weights.shape)
    return flat, Value(weights.name, weights.shape, weights.quantisation, data=columns)
