"""One plain, accepted use of every row's operator, and the context it is accepted in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
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
from npu_assay.conformance.cases.permitted import (
    INFINITY,
    Shape,
    deep,
    fitting,
    fixed_quant,
    growth,
    image,
    least_rank,
    permitted_bounds,
    pieces,
    plain_bounds,
    sliced_size,
    transposable,
    vertical_strides,
)
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Value

Placed = tuple[Use, Front]

IMAGE = image()
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


# ------------------------------------------------------------------------------------ rows


def _on_image(op: str, *rest: Any, front: Front = bare, **kwargs: Any) -> Callable[[Limits], Placed]:
    """A plain image, whatever the limits."""
    return lambda limits: (use(op, IMAGE, *rest, **kwargs), front)


def _on(op: str, shape: Shape, *rest: Any, front: Front = bare, **kwargs: Any) -> Callable[[Limits], Placed]:
    return lambda limits: (use(op, shape, *rest, **kwargs), front)


def _pool(op: str, *rest: Any) -> Callable[[Limits], Placed]:
    """A window over an image of 8 x 8, or a line of 16."""

    def place(limits: Limits) -> Placed:
        channels = limits.multiple("channels_multiple_of")
        return use(op, (1, channels, 8, 8) if len(rest[0]) == 2 else (1, channels, 16), *rest), bare

    return place


def _max_pool(op: str) -> Callable[[Limits], Placed]:
    """As many rows at a time as are permitted."""

    def place(limits: Limits) -> Placed:
        return _pool(op, (2, 3), (max(vertical_strides(limits)), 1))(limits)

    return place


def _clamped(op: str, unbounded: float | None) -> Callable[[Limits], Placed]:
    def place(limits: Limits) -> Placed:
        bounds = plain_bounds(permitted_bounds(limits, unbounded))
        shape = image(limits.multiple("alone_channels_multiple_of"))
        return use(op, shape, *bounds, y=POSITIVE if bounds == (0, 6) else fitting(*bounds)), bare

    return place


def _relu(limits: Limits) -> Placed:
    return use("aten.relu.default", image(limits.multiple("alone_channels_multiple_of")), y=POSITIVE), bare


def _table(op: str, x: Quant, y: Quant) -> Callable[[Limits], Placed]:
    return lambda limits: (use(op, IMAGE, x=x, y=fixed_quant(limits, y)), bare)


def _softmax(limits: Limits) -> Placed:
    shape = deep((5, limits.multiple("channels_multiple_of")), least_rank(limits))
    return use("aten._softmax.default", shape, -1, False, y=fixed_quant(limits, PROBABILITY)), bare


def _bmm(limits: Limits) -> Placed:
    m = limits.multiple("matrix_dims_multiple_of")
    z = activation("z", (2, 2 * m, m))
    return use("aten.bmm.default", (2, m, 2 * m), Ref("z"), more=(z,), y=quant(1.0, 2)), bare


def _cat(limits: Limits) -> Placed:
    m = limits.multiple("channels_multiple_of")
    return cat((2, 3, m), (2, 5, m), dim=1), bare


def _product(limits: Limits) -> Placed:
    shape = image(limits.multiple("any_dim_multiple_of"))
    return binary("aten.mul.Tensor", shape, HALF, HALF, quant(0.002, 1)), bare


def _quotient(limits: Limits) -> Placed:
    return use("aten.div.Tensor", image(limits.multiple("any_dim_multiple_of")), 2.0, y=quant(0.025, 3)), bare


def _mean(limits: Limits) -> Placed:
    return use("aten.mean.dim", (1, limits.multiple("channels_multiple_of"), 4, 6), (-1, -2), True), bare


def _permute(limits: Limits) -> Placed:
    macs = transposable(limits)
    return use("aten.permute_copy.default", (1, macs, 8, macs), (0, 2, 3, 1)), bare


def _slice(limits: Limits) -> Placed:
    return use("aten.slice_copy.Tensor", (1, 5, sliced_size(limits)), 2, 1, 6), bare


def _split(op: str) -> Callable[[Limits], Placed]:
    """split.Tensor takes the size of the pieces, the others all sizes."""

    def place(limits: Limits) -> Placed:
        length = sliced_size(limits)
        sizes = pieces(length, 3) if op == "aten.split.Tensor" else (3, length - 3)
        return use(op, (1, 5, length), 3 if op == "aten.split.Tensor" else sizes, 2, outputs=len(sizes)), bare

    return place


def _upsample(op: str, *rest: Any) -> Callable[[Limits], Placed]:
    def place(limits: Limits) -> Placed:
        factor = float(growth(limits)[0])
        return use(op, (1, limits.multiple("channels_multiple_of"), 3, 5), *rest, (factor, factor)), bare

    return place


BASELINES: Mapping[str, Callable[[Limits], Placed]] = {
    "aten.abs.default": _on_image("aten.abs.default"),
    "aten._adaptive_avg_pool2d.default": _on_image("aten._adaptive_avg_pool2d.default", (4, 2)),
    "aten.addmm.default": lambda limits: (addmm(3, 7, 5), bare),
    "aten.add.Tensor": lambda limits: (binary("aten.add.Tensor", IMAGE, y=quant(0.1, 5)), bare),
    "aten.avg_pool1d.default": _pool("aten.avg_pool1d.default", (2,), (2,)),
    "aten.avg_pool2d.default": _pool("aten.avg_pool2d.default", (2, 3), (2, 1)),
    "aten.bmm.default": _bmm,
    "aten.cat.default": _cat,
    "aten.clamp.default": _clamped("aten.clamp.default", None),
    "aten.clone.default": _on_image("aten.clone.default", front=behind_abs, memory_format="contiguous_format"),
    "aten.constant_pad_nd.default": _on_image("aten.constant_pad_nd.default", (0, 0, 1, 2)),
    "aten.convolution.default": lambda limits: (convolution(), bare),
    "aten.dim_order_ops._clone_dim_order.default": _on_image(
        "dim_order_ops._clone_dim_order.default", front=behind_abs, dim_order=(0, 1, 2, 3)
    ),
    "aten.div.Tensor": _quotient,
    "aten.hardtanh.default": _clamped("aten.hardtanh.default", INFINITY),
    "aten.leaky_relu.default": _on_image("aten.leaky_relu.default", 0.1),
    "aten.max_pool1d.default": _pool("aten.max_pool1d.default", (2,), (2,)),
    "aten.max_pool2d.default": _max_pool("aten.max_pool2d.default"),
    "aten.max_pool2d_with_indices.default": _max_pool("aten.max_pool2d_with_indices.default"),
    "aten.mean.dim": _mean,
    "aten.mul.Tensor": _product,
    "aten.mm.default": _on("aten.mm.default", (3, 7), Ref("w"), more=(matrix_weights(7, 5),)),
    "aten.neg.default": _on_image("aten.neg.default"),
    "aten.permute_copy.default": _permute,
    "aten.prelu.default": lambda limits: (prelu(image(limits.multiple("channels_multiple_of"))), bare),
    "aten.relu.default": _relu,
    "aten.sigmoid.default": _table("aten.sigmoid.default", Q, PROBABILITY),
    "aten.slice_copy.Tensor": _slice,
    "aten._softmax.default": _softmax,
    "aten.split.default": _split("aten.split.default"),
    "aten.split.Tensor": _split("aten.split.Tensor"),
    "aten.split_with_sizes.default": _split("aten.split_with_sizes.default"),
    "aten.squeeze.default": _on("aten.squeeze.default", (1, 8, 1, 4), front=behind_abs),
    "aten.squeeze.dim": _on("aten.squeeze.dim", (1, 8, 1, 4), 2, front=behind_abs),
    "aten.squeeze.dims": _on("aten.squeeze.dims", (1, 8, 1, 4), (0, 2), front=behind_abs),
    "aten.tanh.default": _table("aten.tanh.default", UNIT, TANH),
    "aten.unsqueeze.default": _on("aten.unsqueeze.default", (3, 8), 1, front=behind_abs),
    "aten.upsample_bilinear2d.vec": _upsample("aten.upsample_bilinear2d.vec", None, False),
    "aten.upsample_nearest2d.vec": _upsample("aten.upsample_nearest2d.vec", None),
    "aten.view_copy.default": _on("aten.view_copy.default", (3, 8), (-1, 12), front=behind_abs),
}


def plain(row: str, limits: Limits) -> Placed:
    """The row's plain use and where it stands. Raises KeyError for an operator that has none yet."""
    return BASELINES[row](limits)


def baseline(row: str, limits: Limits | None = None) -> Graph:
    """The row's plain model. Raises KeyError for an operator that has none yet."""
    return model(*plain(row, Limits() if limits is None else limits))
