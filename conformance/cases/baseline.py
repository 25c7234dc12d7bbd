"""One plain, accepted use of every row's operator, and the context it is accepted in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.cases.make import (
    UNIT,
    Front,
    Q,
    Use,
    X,
    activation,
    bare,
    behind_abs,
    bias_quant,
    constant,
    fitting_weight_scale,
    model,
    quant,
    spread,
    use,
    weight_quant,
)
from conformance.graph import Fill, Graph, Quant, Ref, Value

IMAGE = (1, 8, 8, 8)  # fits channels-first and channels-last readings alike
POSITIVE = quant(6.2 / 255, -128)
PROBABILITY = Quant(1 / 256, -128)
TANH = Quant(1 / 128, 0)
HALF = Quant(1 / 256, 0)  # what the Neutron quantizer gives the operands of mul


def binary(op: str, shape: tuple[int, ...], x: Quant = Q, z: Quant = Q, y: Quant = Q, **kwargs: Any) -> Use:
    """An operator on two inputs of one shape."""
    return use(op, shape, Ref("z"), x=x, y=y, more=(activation("z", shape, z),), **kwargs)


def matrix_weights(rows: int, columns: int, x: Quant = Q, y: Quant = Q) -> Value:
    """Constant second operand of mm, [rows, columns], per-tensor symmetric."""
    return constant("w", (rows, columns), weight_quant(fitting_weight_scale(x, y, rows)))


def addmm(m: int, k: int, n: int) -> Use:
    """bias[n] + x[m, k] @ w[k, n]."""
    w = matrix_weights(k, n)
    assert w.quant is not None
    bias = constant("bias", (n,), bias_quant(Q, w.quant))
    return Use("aten.addmm.default", (activation("x", (m, k)), w, bias), (Ref("bias"), X, Ref("w")), Q)


def convolution(
    cin: int = 3,
    cout: int = 5,
    size: tuple[int, ...] = (6, 7),
    kernel: tuple[int, ...] = (3, 3),
    stride: tuple[int, ...] = (1, 1),
    padding: tuple[int, ...] = (0, 0),
    dilation: tuple[int, ...] = (1, 1),
    groups: int = 1,
    batch: int = 1,
) -> Use:
    """A convolution with per-channel weights (scales spread over a factor of 10) and a bias."""
    terms = cin // groups
    for extent in kernel:
        terms *= extent
    w = weight_quant(spread(2 * fitting_weight_scale(Q, Q, terms), cout), 0)
    values = (
        activation("x", (batch, cin, *size)),
        constant("w", (cout, cin // groups, *kernel), w),
        constant("bias", (cout,), bias_quant(Q, w)),
    )
    nothing = (0,) * len(kernel)
    args = (X, Ref("w"), Ref("bias"), stride, padding, dilation, False, nothing, groups)
    return Use("aten.convolution.default", values, args, Q)


def cat(*shapes: tuple[int, ...], dim: int = -1, q: Quant = Q) -> Use:
    """Concatenation of inputs x, x1, x2, ... of these shapes."""
    first, *others = shapes
    more = tuple(activation(f"x{index}", shape, q) for index, shape in enumerate(others, 1))
    values = (activation("x", first, q), *more)
    return Use("aten.cat.default", values, (tuple(Ref(v.name) for v in values), dim), q)


def divisor(shape: tuple[int, ...]) -> Value:
    """A constant tensor of divisors between 0.5 and 2.55, either sign, never zero."""
    codes = tuple(sign * code for code in range(25, 127, 7) for sign in (1, -1))
    return constant("z", shape, weight_quant(0.02), Fill("list", values=codes))


def prelu(shape: tuple[int, ...]) -> Use:
    """prelu with one slope per channel (dimension 1)."""
    return use("aten.prelu.default", shape, Ref("alpha"), more=(constant("alpha", (shape[1],), weight_quant(0.004)),))


BASELINES: Mapping[str, tuple[Use, Front]] = {
    "aten.abs.default": (use("aten.abs.default", IMAGE), bare),
    "aten._adaptive_avg_pool2d.default": (use("aten._adaptive_avg_pool2d.default", IMAGE, (4, 2)), bare),
    "aten.addmm.default": (addmm(3, 7, 5), bare),
    "aten.add.Tensor": (binary("aten.add.Tensor", IMAGE, y=quant(0.1, 5)), bare),
    "aten.avg_pool1d.default": (use("aten.avg_pool1d.default", (1, 8, 16), (2,), (2,)), bare),
    "aten.avg_pool2d.default": (use("aten.avg_pool2d.default", IMAGE, (2, 3), (2, 1)), bare),
    "aten.bmm.default": (
        use("aten.bmm.default", (2, 8, 16), Ref("z"), more=(activation("z", (2, 16, 8)),), y=quant(1.0, 2)),
        bare,
    ),
    "aten.cat.default": (cat((2, 3, 8), (2, 5, 8), dim=1), bare),
    "aten.clamp.default": (use("aten.clamp.default", IMAGE, 0, 6, y=POSITIVE), bare),
    "aten.clone.default": (use("aten.clone.default", IMAGE, memory_format="contiguous_format"), behind_abs),
    "aten.constant_pad_nd.default": (use("aten.constant_pad_nd.default", IMAGE, (0, 0, 1, 2)), bare),
    "aten.convolution.default": (convolution(), bare),
    "aten.dim_order_ops._clone_dim_order.default": (
        use("dim_order_ops._clone_dim_order.default", IMAGE, dim_order=(0, 1, 2, 3)),
        behind_abs,
    ),
    "aten.div.Tensor": (use("aten.div.Tensor", IMAGE, 2.0, y=quant(0.025, 3)), bare),
    "aten.hardtanh.default": (use("aten.hardtanh.default", IMAGE, 0, 6, y=POSITIVE), bare),
    "aten.leaky_relu.default": (use("aten.leaky_relu.default", IMAGE, 0.1), bare),
    "aten.max_pool1d.default": (use("aten.max_pool1d.default", (1, 8, 16), (2,), (2,)), bare),
    "aten.max_pool2d.default": (use("aten.max_pool2d.default", IMAGE, (2, 3), (2, 1)), bare),
    "aten.max_pool2d_with_indices.default": (
        use("aten.max_pool2d_with_indices.default", IMAGE, (2, 3), (2, 1)),
        bare,
    ),
    "aten.mean.dim": (use("aten.mean.dim", (1, 8, 4, 6), (-1, -2), True), bare),
    "aten.mul.Tensor": (binary("aten.mul.Tensor", IMAGE, HALF, HALF, quant(0.002, 1)), bare),
    "aten.mm.default": (use("aten.mm.default", (3, 7), Ref("w"), more=(matrix_weights(7, 5),)), bare),
    "aten.neg.default": (use("aten.neg.default", IMAGE), bare),
    "aten.permute_copy.default": (use("aten.permute_copy.default", IMAGE, (0, 2, 3, 1)), bare),
    "aten.prelu.default": (prelu(IMAGE), bare),
    "aten.relu.default": (use("aten.relu.default", IMAGE, y=POSITIVE), bare),
    "aten.sigmoid.default": (use("aten.sigmoid.default", IMAGE, y=PROBABILITY), bare),
    "aten.slice_copy.Tensor": (use("aten.slice_copy.Tensor", (1, 5, 8), 2, 1, 6), bare),
    "aten._softmax.default": (use("aten._softmax.default", (5, 8), -1, False, y=PROBABILITY), bare),
    "aten.split.default": (use("aten.split.default", (1, 5, 8), (3, 5), 2, outputs=2), bare),
    "aten.split.Tensor": (use("aten.split.Tensor", (1, 5, 8), 3, 2, outputs=3), bare),
    "aten.split_with_sizes.default": (use("aten.split_with_sizes.default", (1, 5, 8), (3, 5), 2, outputs=2), bare),
    "aten.squeeze.default": (use("aten.squeeze.default", (1, 8, 1, 4)), behind_abs),
    "aten.squeeze.dim": (use("aten.squeeze.dim", (1, 8, 1, 4), 2), behind_abs),
    "aten.squeeze.dims": (use("aten.squeeze.dims", (1, 8, 1, 4), (0, 2)), behind_abs),
    "aten.tanh.default": (use("aten.tanh.default", IMAGE, x=UNIT, y=TANH), bare),
    "aten.unsqueeze.default": (use("aten.unsqueeze.default", (3, 8), 1), behind_abs),
    "aten.upsample_bilinear2d.vec": (use("aten.upsample_bilinear2d.vec", (1, 8, 3, 5), None, False, (2.0, 2.0)), bare),
    "aten.upsample_nearest2d.vec": (use("aten.upsample_nearest2d.vec", (1, 8, 3, 5), None, (2.0, 2.0)), bare),
    "aten.view_copy.default": (use("aten.view_copy.default", (3, 8), (-1, 12)), behind_abs),
}


def baseline(row: str) -> Graph:
    """The row's plain model. Raises KeyError for an operator that has none yet."""
    return model(*BASELINES[row])
