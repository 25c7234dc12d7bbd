"""Layers before an operator and activations after it, of its own number type."""

from __future__ import annotations

from dataclasses import replace

from npu_assay.conformance.cases.make import (
    SUBJECT,
    Call,
    Q,
    Suffix,
    bare,
    behind_abs,
    bias_quant,
    constant,
    fitting_weight_scale,
    model,
    pointwise,
    step,
    weight_quant,
)
from npu_assay.conformance.cases.pieces.spelling import codes_quant, floats, is_static, real, run_time, weights
from npu_assay.conformance.cases.pieces.values import small_numbers
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value

# ------------------------------------------------------------------------------------ before


def float_behind_linear(u: Call, precision: str) -> Graph:
    """Behind a linear layer of the same precision, which makes `x`; a row of one number comes from four."""
    x, *rest = u.values
    inputs, outputs = 64 if precision == "dynamic_int4" else 4, x.shape[-1] if x.shape else 1
    shape = (*x.shape[:-1], inputs)
    values = (
        _source(x, "before_x", shape, precision),
        _float_weights(x, (outputs, inputs), precision),
        floats("before_b", (outputs,), precision, small_numbers(x)),
    )
    args = (Ref("before_x"), Ref("before_w"), Ref("before_b"))
    before = Step("before", "aten.linear.default", args, (), x.quant, dynamic=run_time(precision))
    return _float_behind(u, (*values, *rest), before)


def float_behind_conv(u: Call, precision: str) -> Graph:
    """Behind a 1x1 convolution of the same precision (8-bit weights), which makes the four-dimensional `x`."""
    x, *rest = u.values
    precision = "dynamic_int8" if precision == "dynamic_int4" else precision
    channels = x.shape[1]
    values = (
        _source(x, "before_x", (x.shape[0], 4, *x.shape[2:]), precision),
        _float_weights(x, (channels, 4, 1, 1), precision),
        floats("before_b", (channels,), precision, small_numbers(x)),
    )
    args = (Ref("before_x"), Ref("before_w"), Ref("before_b"), (1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    before = Step("before", "aten.convolution.default", args, (), x.quant, dynamic=run_time(precision))
    return _float_behind(u, (*values, *rest), before)


def _float_weights(x: Value, shape: tuple[int, ...], precision: str) -> Value:
    made = weights("before_w", shape, precision)
    return replace(made, fill=small_numbers(x)) if made.quant is None else made


def _source(x: Value, name: str, shape: tuple[int, ...], precision: str) -> Value:
    numbers = None if is_static(precision) else small_numbers(x)
    return replace(real(name, shape, precision, numbers), dynamic=x.dynamic)


def _float_behind(u: Call, values: tuple[Value, ...], before: Step) -> Graph:
    """The call with `x` computed by `before`."""
    graph = model(u)
    return Graph(values, (before, step(u, Ref("before"))), graph.outputs)


INPUTS = 4
NEIGHBOR_SCALE = 0.01


def integer_behind_linear(u: Call, precision: str) -> Graph:
    """Behind a linear layer, which makes `x`."""
    x = u.x
    source = Value("before_x", (*x.shape[:-1], INPUTS), Q, Fill(seed=5))
    shape = (x.shape[-1] if x.shape else 1, INPUTS)
    return _integer_behind(u, source, shape, "aten.linear.default", (), precision)


def integer_behind_conv(u: Call, precision: str) -> Graph:
    """Behind a 1x1 convolution, which makes the four-dimensional `x`."""
    x = u.x
    source = Value("before_x", (x.shape[0], INPUTS, *x.shape[2:]), Q, Fill(seed=5))
    rest = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    return _integer_behind(u, source, (x.shape[1], INPUTS, 1, 1), "aten.convolution.default", rest, precision)


def _integer_behind(
    u: Call, source: Value, weights: tuple[int, ...], op: str, rest: tuple[object, ...], precision: str
) -> Graph:
    x, *others = u.values
    q, w = codes_quant(precision), constant("before_w", weights, weight_quant(NEIGHBOR_SCALE))
    b = constant("before_b", weights[:1], bias_quant(q, weight_quant(NEIGHBOR_SCALE)))
    args = (Ref("before_x"), Ref("before_w"), Ref("before_b"), *rest)
    before = Step("before", op, args, (), x.quant)
    values = (replace(source, quant=q), w, b, *others)
    return Graph(values, (before, step(u, Ref("before"))), model(u).outputs)


# ------------------------------------------------------------------------------------ after


def before_conv(u: Call, precision: str) -> Graph:
    """In front of a 1x1 convolution of its four-dimensional result, which has the shape of `x`."""
    assert u.y is not None
    w = constant("after_w", (INPUTS, u.x.shape[1], 1, 1), weight_quant(NEIGHBOR_SCALE))
    b = constant("after_b", (INPUTS,), bias_quant(u.y, weight_quant(NEIGHBOR_SCALE)))
    args = (Ref(SUBJECT), Ref("after_w"), Ref("after_b"), (1, 1), (0, 0), (1, 1), False, (0, 0), 1)
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


then_relu = fused("aten.relu.default")
then_hardtanh = fused("aten.hardtanh.default", -1.0, 2.0)


def with_activation(u: Call, suffix: Suffix) -> Graph:
    """The call without quantization of its own, then the activation with it."""
    values, _, _ = bare(u)
    after, returned = suffix(u)
    return Graph(values, (step(replace(u, y=None)), *after), returned)


def static_before_conv(u: Call, channels: int) -> Graph:
    """Behind an abs; the result goes into a 1x1 convolution and so becomes channels-first."""
    assert u.y is not None
    graph = model(u, behind_abs)
    values, convolution = pointwise((1, channels, 1, 1), 8, Q)
    weights = values[1]
    assert weights.quant is not None
    bias = replace(values[2], quant=bias_quant(u.y, weights.quant))
    after = replace(convolution, name="after", args=(Ref(SUBJECT), *convolution.args[1:]))
    return Graph((*graph.values, weights, bias), (*graph.steps, after), (Ref("after"),))


def matrix_weights(rows: int, columns: int, x: Quant = Q, y: Quant = Q) -> Value:
    """Constant second operand of mm, [rows, columns], per-tensor symmetric."""
    return constant("w", (rows, columns), weight_quant(fitting_weight_scale(x, y, rows)))
