"""Where an operator stands: behind and before others, in its own number type and next to another one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from npu_assay.conformance.cases.make import (
    SUBJECT,
    Back,
    Draft,
    Q,
    Use,
    bare,
    model,
    placed,
    step,
    then_abs_and_returned,
    then_two,
)
from npu_assay.conformance.cases.shared import input_shared, more_contexts, used_twice
from npu_assay.conformance.cases.typed.spelling import floats, is_static, real, run_time, weights
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value

CAST = "dim_order_ops._to_dim_order_copy.default"


def contexts(u: Use, precision: str) -> list[Draft]:
    """Contexts that leave the verdict alone; half precision has fewer, as it differs in numbers only."""
    drafts = [
        placed("two_consumers", model(u, None, then_two)),
        placed("behind_linear", behind_linear(u, precision)),
        *mixed(u, precision),
    ]
    if precision == "fp16":
        return drafts
    drafts += [
        placed("also_a_model_output", model(u, None, then_abs_and_returned)),
        placed("input_shared_with_abs", input_shared(u)),
        placed("used_twice", used_twice(u)),
        *more_contexts(u),
    ]
    if len(u.values[0].shape) == 4:
        drafts.append(placed("behind_conv", behind_conv(u, precision)))
    return drafts


# ------------------------------------------------------------------------------------ behind a product


def behind_linear(u: Use, precision: str) -> Graph:
    """Behind a linear layer of the same precision, which makes `x`; a row of one number comes from four."""
    x, *rest = u.values
    inputs, outputs = 64 if precision == "dynamic_int4" else 4, x.shape[-1] if x.shape else 1
    shape = (*x.shape[:-1], inputs)
    values = (
        _source(x, "before_x", shape, precision),
        _weights(x, (outputs, inputs), precision),
        floats("before_b", (outputs,), precision, _numbers(x)),
    )
    args = (Ref("before_x"), Ref("before_w"), Ref("before_b"))
    before = Step("before", "aten.linear.default", args, (), x.quant, dynamic=run_time(precision))
    return _behind(u, (*values, *rest), before)


def behind_conv(u: Use, precision: str) -> Graph:
    """Behind a 1x1 convolution of the same precision (8-bit weights), which makes the four-dimensional `x`."""
    x, *rest = u.values
    precision = "dynamic_int8" if precision == "dynamic_int4" else precision
    channels = x.shape[1]
    values = (
        _source(x, "before_x", (x.shape[0], 4, *x.shape[2:]), precision),
        _weights(x, (channels, 4, 1, 1), precision),
        floats("before_b", (channels,), precision, _numbers(x)),
    )
    args = (Ref("before_x"), Ref("before_w"), Ref("before_b"), (1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    before = Step("before", "aten.convolution.default", args, (), x.quant, dynamic=run_time(precision))
    return _behind(u, (*values, *rest), before)


SMALL = Fill("list", values=(0.25, -0.5, 0.125, 0.375, -0.25, 0.5, 0.0625))
POSITIVE = Fill("list", values=(0.25, 0.5, 0.125, 0.375, 0.75, 1.0, 0.0625))


def _numbers(x: Value) -> Fill:
    """Numbers for operands of a product whose results stay small, and positive where `x` was to be."""
    return POSITIVE if is_positive(x.fill) else SMALL


def is_positive(fill: Fill) -> bool:
    """Whether all listed numbers are above zero."""
    return fill.kind == "list" and all(number > 0 for number in fill.values)


def other_numbers(fill: Fill) -> Fill:
    """Other numbers than `fill`, positive where those are."""
    return POSITIVE if is_positive(fill) else Fill("ramp")


def _weights(x: Value, shape: tuple[int, ...], precision: str) -> Value:
    made = weights("before_w", shape, precision)
    return replace(made, fill=_numbers(x)) if made.quant is None else made


def _source(x: Value, name: str, shape: tuple[int, ...], precision: str) -> Value:
    numbers = None if is_static(precision) else _numbers(x)
    return replace(real(name, shape, precision, numbers), dynamic=x.dynamic)


def _behind(u: Use, values: tuple[Value, ...], before: Step) -> Graph:
    """The use with `x` computed by `before`."""
    graph = model(u)
    return Graph(values, (before, step(u, Ref("before"))), graph.outputs)


# ------------------------------------------------------------------------------------ other number types


def mixed(u: Use, precision: str) -> Iterator[Draft]:
    """Neighbours of another number type."""
    x, *rest = u.values
    other = {"fp32": "float16", "fp16": "float32"}.get(precision)
    if other is not None:
        source = replace(x, name="source", dtype=other)
        order = tuple(range(len(x.shape)))
        cast = Step("cast", CAST, (Ref("source"),), (("dtype", x.dtype), ("dim_order", order)))
        yield placed(f"behind_{other}", Graph((source, *rest), (cast, step(u, Ref("cast"))), model(u).outputs))


def between_codes(u: Use, quant: Quant = Q) -> Graph:
    """A float operator between a dequantize and a quantize node."""
    values = tuple(
        value if value.constant else replace(value, quant=quant, fill=_codes(value.fill)) for value in u.values
    )
    return model(replace(u, values=values, y=quant))


def _codes(fill: Fill) -> Fill:
    """Codes above the zero point for numbers that were to be positive."""
    return Fill("list", values=tuple(range(4, 128, 7))) if is_positive(fill) else Fill(seed=fill.seed)


def fused(op: str, *bounds: float) -> Back:
    """An activation takes the result, and its output alone is quantised."""

    def back(u: Use) -> tuple[tuple[Step, ...], tuple[Ref, ...]]:
        return (Step("activation", op, (Ref(SUBJECT), *bounds), (), u.y),), (Ref("activation"),)

    return back


then_relu = fused("aten.relu.default")
then_hardtanh = fused("aten.hardtanh.default", -1.0, 2.0)


def with_activation(u: Use, back: Back) -> Graph:
    """The use without quantisation of its own, then the activation with it."""
    values, _, _ = bare(u)
    after, returned = back(u)
    return Graph(values, (step(replace(u, y=None)), *after), returned)
