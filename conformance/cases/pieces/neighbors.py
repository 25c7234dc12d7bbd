"""Layers before an operator and activations after it, of its own precision."""

from __future__ import annotations

from dataclasses import replace

from npu_assay.conformance.cases.around import pointwise
from npu_assay.conformance.cases.make import (
    RELU,
    SUBJECT,
    Call,
    Prefix,
    Q,
    Suffix,
    bare,
    bias_quant,
    constant,
    fitting_weight_scale,
    model,
    step,
    weight_quant,
)
from npu_assay.conformance.cases.permitted import Shape
from npu_assay.conformance.cases.pieces.spelling import (
    CONVOLUTION,
    LINEAR,
    QUANTIZED,
    codes_quant,
    floats,
    is_static,
    real,
    run_time,
)
from npu_assay.conformance.cases.pieces.spelling import weights as weights_in
from npu_assay.conformance.cases.pieces.values import small_numbers
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value

# ------------------------------------------------------------------------------------ before


INPUTS, NEIGHBOR_SCALE = 4, 0.01


def behind_linear(u: Call, precision: str) -> Graph:
    """Behind a linear layer of the same precision, which makes `x`; a row of one number comes from four."""
    x, inputs = u.x, 64 if precision == "dynamic_int4" else INPUTS
    return _behind(u, precision, (*x.shape[:-1], inputs), (x.shape[-1] if x.shape else 1, inputs), LINEAR)


def behind_conv(u: Call, precision: str) -> Graph:
    """Behind a 1x1 convolution of the same precision (weights of 8 bits), which makes the four-dimensional `x`."""
    x, precision = u.x, "dynamic_int8" if precision == "dynamic_int4" else precision
    shapes = (x.shape[0], INPUTS, *x.shape[2:]), (x.shape[1], INPUTS, 1, 1)
    return _behind(u, precision, *shapes, CONVOLUTION, *POINTWISE)


POINTWISE = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)
"""The arguments of a convolution after its operands."""


def _behind(u: Call, precision: str, shape: Shape, weights: Shape, op: str, *rest: object) -> Graph:
    """The call with `x` computed by a layer from an operand of a shape."""
    args = (Ref("before_x"), Ref("before_w"), Ref("before_b"), *rest)
    before = Step("before", op, args, (), u.x.quant, dynamic=run_time(precision))
    values = (_integer_layer if precision in QUANTIZED else _float_layer)(u.x, precision, shape, weights)
    return Graph((*values, *u.values[1:]), (before, step(u, Ref("before"))), model(u).outputs)


def _float_layer(x: Value, precision: str, shape: Shape, weights: Shape) -> tuple[Value, ...]:
    """Operands of a layer, the first of them open where `x` is."""
    numbers = small_numbers(x)
    source = real("before_x", shape, precision, None if is_static(precision) else numbers)
    w = weights_in("before_w", weights, precision)
    return (
        replace(source, dynamic=x.dynamic),
        replace(w, fill=numbers) if w.quant is None else w,
        floats("before_b", weights[:1], precision, numbers),
    )


def _integer_layer(x: Value, precision: str, shape: Shape, weights: Shape) -> tuple[Value, ...]:
    q, w = codes_quant(precision), weight_quant(NEIGHBOR_SCALE)
    return (
        Value("before_x", shape, q, Fill(seed=5)),
        constant("before_w", weights, w),
        constant("before_b", weights[:1], bias_quant(q, w)),
    )


# ------------------------------------------------------------------------------------ after


def before_conv(u: Call, precision: str) -> Graph:
    """In front of a 1x1 convolution of its four-dimensional result, which has the shape of `x`."""
    assert u.y is not None
    w = constant("after_w", (INPUTS, u.x.shape[1], 1, 1), weight_quant(NEIGHBOR_SCALE))
    b = constant("after_b", (INPUTS,), bias_quant(u.y, weight_quant(NEIGHBOR_SCALE)))
    args = (Ref(SUBJECT), Ref("after_w"), Ref("after_b"), *POINTWISE)
    after = Step("after", "aten.convolution.default", args, (), codes_quant(precision))
    return Graph((*u.values, w, b), (step(u), after), (Ref("after"),))


def after(u: Call, op: str, args: tuple[object, ...]) -> Graph:
    """In front of an operator on its result, which is quantized as the result is."""
    behind = Step("after", op, (Ref(SUBJECT), *args), (), u.y)
    return Graph(u.values, (step(u), behind), (Ref("after"),))


def fused(op: str, *bounds: float) -> Suffix:
    """An activation takes the result, and its output alone is quantized."""

    def suffix(u: Call) -> tuple[tuple[Step, ...], tuple[Ref, ...]]:
        return (Step("activation", op, (Ref(SUBJECT), *bounds), (), u.y),), (Ref("activation"),)

    return suffix


then_relu = fused(RELU)
then_hardtanh = fused("aten.hardtanh.default", -1.0, 2.0)


def with_activation(u: Call, suffix: Suffix) -> Graph:
    """The call without quantization of its own, then the activation with it."""
    values, _, _ = bare(u)
    after, returned = suffix(u)
    return Graph(values, (step(replace(u, y=None)), *after), returned)


def into_conv(u: Call, channels: int, prefix: Prefix = bare) -> Graph:
    """The result goes into a 1x1 convolution over `channels` channels and so becomes channels-first."""
    assert u.y is not None
    graph = model(u, prefix)
    (_, weights, bias), convolution = pointwise((1, channels, 1, 1), 8, Q)
    assert weights.quant is not None
    constants = (weights, replace(bias, quant=bias_quant(u.y, weights.quant)))
    after = replace(convolution, name="after", args=(Ref(SUBJECT), *convolution.args[1:]))
    return Graph((*graph.values, *constants), (*graph.steps, after), (Ref("after"),))


def matrix_weights(rows: int, columns: int, x: Quant = Q, y: Quant = Q) -> Value:
    """Constant second operand of mm, [rows, columns], per-tensor symmetric."""
    return constant("w", (rows, columns), weight_quant(fitting_weight_scale(x, y, rows)))
