"""Where an operator stands: who else takes its operand and its result, and who stands before and after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from npu_assay.conformance.cases.around import behind_conv as channels_first
from npu_assay.conformance.cases.around import then_abs, then_abs_and_returned, then_two
from npu_assay.conformance.cases.drafts import CaseDraft, limit, outside, placed
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import SUBJECT, Call, Prefix, Q, X, bare, model, quant, step
from npu_assay.conformance.cases.pieces.neighbors import before_conv, behind_conv, behind_linear
from npu_assay.conformance.cases.pieces.spelling import INTEGERS
from npu_assay.conformance.cases.pieces.subject import Subject
from npu_assay.conformance.cases.pieces.values import is_positive
from npu_assay.conformance.programs.graph import ChannelsLast, Fill, Graph, Quant, Ref, Step, Value, renamed


def contexts(u: Call, prefix: Prefix = bare) -> list[CaseDraft]:
    """Where the operator stands: consumers, a second use, neighbors that are not quantized."""
    return [*surroundings(u, prefix), *unquantized(u)]


def beside(u: Call, prefix: Prefix = bare) -> Iterator[CaseDraft]:
    """Consumers of the result, and others of the operand."""
    yield placed("before_abs", u, prefix, then_abs)
    yield placed("two_consumers", u, prefix, then_two)
    yield placed("also_a_model_output", u, prefix, then_abs_and_returned)
    yield placed("input_shared_with_abs", input_shared(u, prefix))


def surroundings(u: Call, prefix: Prefix = bare) -> list[CaseDraft]:
    """Contexts that leave the verdict alone."""
    return [*beside(u, prefix), placed("used_twice", used_twice(u, prefix)), *more_contexts(u, prefix)]


def input_shared(u: Call, prefix: Prefix = bare) -> Graph:
    """The operator's operand also goes into an abs of its own."""
    graph = model(u, prefix)
    operand = prefix(u)[2]
    beside = Step("beside", "aten.abs.default", (operand,), (), u.x.quant)
    return Graph(graph.values, (*graph.steps, beside), (*graph.outputs, Ref("beside")))


def used_twice(u: Call, prefix: Prefix = bare) -> Graph:
    """One module called on two inputs: constants are shared, `before` computes for the first only."""
    x = replace(u.x, name="x_again", fill=replace(u.x.fill, seed=99))
    return _with_again(u, prefix, (x,), u)


def _with_again(u: Call, prefix: Prefix, more: tuple[Value, ...], again: Call) -> Graph:
    """The model, and the operator once more on `x_again`; `more` are the values that the model lacks."""
    graph, operand = model(u, prefix), Ref("x_again")
    steps = graph.steps
    if prefix is not bare:
        steps = (*steps, Step("before_again", "aten.abs.default", (operand,), (), more[0].quant))
        operand = Ref("before_again")
    second = step(again, operand, "again")
    return Graph((*graph.values, *more), (*steps, second), (*graph.outputs, Ref("again")))


TWO_SCALES = "used_twice_at_two_scales"
FIXED = frozenset({"aten._softmax.default", "aten.sigmoid.default", "aten.tanh.default"})
"""Operators whose results have the quantization that their range asks for, whatever the operand has."""


def used_apart(u: Call, prefix: Prefix = bare) -> Graph | None:
    """One module called on two inputs, of which the second has twice the scale; None where there is no one scale.

    Weights are shared; a bias in steps of the accumulator is another one for each call, a real one is shared as well.
    """
    x, y = u.x, u.y
    if x.constant or x.quant is None or y is None or isinstance(x.quant.scale, tuple):
        return None
    twice = replace(u, values=tuple(_again(v) for v in u.values), y=y if u.op in FIXED else _doubled(y))
    biases = {v.name: f"{v.name}_again" for v in u.values if _is_bias(v)}
    new = tuple(value for value in twice.values if value.name not in {v.name for v in u.values})
    return _with_again(u, prefix, new, replace(twice, args=renamed(twice.args, biases)))


def _again(value: Value) -> Value:
    """The first input and an integer bias at twice the scale; everything else as it is."""
    if value.name != X.name and not _is_bias(value):
        return value
    fill = value.fill if value.constant else replace(value.fill, seed=99)
    return replace(value, name=f"{value.name}_again", quant=_doubled(value.quant), fill=fill)


def _is_bias(value: Value) -> bool:
    return value.constant and value.quant is not None and value.quant.dtype == "int32"


def _doubled(quant: Quant | None) -> Quant | None:
    if quant is None:
        return None
    scale = tuple(2 * s for s in quant.scale) if isinstance(quant.scale, tuple) else 2 * quant.scale
    return replace(quant, scale=scale)


SHARED_SUM = quant(0.1, 5)


def constant_shared(u: Call, prefix: Prefix = bare) -> Graph | None:
    """A constant is also added to an input of its own; None where none is of floats, or of int8 with one scale."""
    known = (v for v in u.values if v.constant and v.shape and v.dtype.startswith("float"))
    shared = next((v for v in known if v.quant is None or (v.quant.dtype == "int8" and v.quant.axis is None)), None)
    if shared is None:
        return None
    graph, quantized = model(u, prefix), shared.quant is not None
    x = Value("beside_x", shared.shape, Q if quantized else None, Fill(seed=7), dtype=shared.dtype)
    total = Step("beside", "aten.add.Tensor", (Ref(x.name), Ref(shared.name)), (), SHARED_SUM if quantized else None)
    return Graph((*graph.values, x), (*graph.steps, total), (*graph.outputs, Ref("beside")))


VIEWED = frozenset({"aten.as_strided_copy.default", "aten.view_copy.default"})
"""Operators that torch does not compute of images in the other layout, or that read them as they lie."""


def channels_last(u: Call, prefix: Prefix = bare) -> Graph | None:
    """The model's images in the other layout; None where `x` is none, or another size of it is open."""
    return None if u.op in VIEWED else in_the_other_layout(model(u, prefix), u.x)


def in_the_other_layout(graph: Graph, x: Value) -> Graph | None:
    """The graph with channels that lie next to each other in its operand; None where that is not an image."""
    if len(x.shape) != 4 or x.constant or x.dynamic:
        return None
    images = (ChannelsLast(**vars(v)) if v.name == x.name else v for v in graph.values)
    return replace(graph, values=tuple(images))


def more_contexts(u: Call, prefix: Prefix = bare) -> list[CaseDraft]:
    """Where programs of real models stand that plain ones do not."""
    found = {
        TWO_SCALES: used_apart(u, prefix),
        "constant_shared_with_add": constant_shared(u, prefix),
        "channels_last": channels_last(u, prefix),
    }
    return [placed(name, graph) for name, graph in found.items() if graph is not None]


def unquantized(u: Call) -> list[CaseDraft]:
    """The operator does not stand between dequantize and quantize: never delegated."""
    floats = tuple(replace(value, quant=None) for value in u.values)
    variants = (("float_model", model(replace(u, values=floats, y=None))), *float_neighbors(u))
    kept = limit("quantized", "quantised_on_both_sides", u, bare, then_abs)
    return [kept, *(outside("quantized", variant, graph) for variant, graph in variants)]


def float_neighbors(u: Call) -> tuple[tuple[str, Graph], ...]:
    """A quantized operator with a float input or a float output, alone and next to an abs."""
    float_input = u.with_x(quant=None)
    float_output, returned = replace(u, y=None), model(u).outputs
    between = Step("between", "aten.abs.default", (X,), (), None)
    after = Step("after", "aten.abs.default", (Ref(SUBJECT),), (), u.y)
    return (
        ("float_input", model(float_input)),
        ("float_output", model(float_output)),
        ("behind_unquantised_abs", Graph(u.values, (between, step(u, Ref("between"))), returned)),
        ("before_unquantised_abs", Graph(u.values, (step(float_output), after), (Ref("after"), *returned[1:]))),
    )


def behind_convolution(u: Call, channels: Iterable[int] = (8, 5, 1), size: tuple[int, ...] = (4, 6)) -> list[CaseDraft]:
    """Elementwise after a convolution, where values are channels-first: any channel count."""
    return [
        placed(f"behind_conv_channels_{count}", u.with_x(shape=(1, count, *size)), channels_first) for count in channels
    ]


def twice_in_a_row(u: Call) -> Graph:
    """The operator on its own output, as one module called twice would be."""
    graph = model(u)
    again = Step("again", u.op, (Ref("subject"), *u.args[1:]), u.kwargs, u.y)
    return Graph(graph.values, (*graph.steps, again), (Ref("again"),))


def mixed(u: Call, precision: str) -> Iterator[CaseDraft]:
    """Neighbors of another precision."""
    x, *rest = u.values
    other = {"fp32": "float16", "fp16": "float32"}.get(precision)
    if other is not None:
        source = replace(x, name="source", dtype=other)
        order = tuple(range(len(x.shape)))
        cast = Step("cast", CAST, (Ref("source"),), (("dtype", x.dtype), ("dim_order", order)))
        yield placed(f"behind_{other}", Graph((source, *rest), (cast, step(u, Ref("cast"))), model(u).outputs))


def between_codes(u: Call, quant: Quant = Q) -> Graph:
    """A float operator between a dequantize and a quantize node."""
    values = tuple(
        value if value.constant else replace(value, quant=quant, fill=_codes(value.fill)) for value in u.values
    )
    return model(replace(u, values=values, y=quant))


def _codes(fill: Fill) -> Fill:
    """Codes above the zero point for numbers that were to be positive."""
    return Fill("list", values=tuple(range(4, 128, 7))) if is_positive(fill) else Fill(seed=fill.seed)


CAST = "dim_order_ops._to_dim_order_copy.default"


def floats_around(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Where the operator stands; half precision has fewer contexts, as it differs in numbers only."""
    return float_contexts(subject.call(precision), precision)


def float_contexts(u: Call, precision: str) -> Iterator[CaseDraft]:
    """Where a call stands: next to others, after layers of its precision and of another."""
    yield placed("two_consumers", u, bare, then_two)
    yield placed("behind_linear", behind_linear(u, precision))
    yield from mixed(u, precision)
    if precision == "fp16":
        return
    yield placed("also_a_model_output", u, bare, then_abs_and_returned)
    yield placed("input_shared_with_abs", input_shared(u))
    yield placed("used_twice", used_twice(u))
    yield from more_contexts(u)
    if len(u.x.shape) == 4:
        yield placed("behind_conv", behind_conv(u, precision))


def integers_around(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Where the operator stands; on plain integers not next to layers, which compute on codes."""
    u, prefix = subject.call(precision), subject.prefix
    if subject.reals:
        yield from beside(u, prefix)
    elif u.x.dtype != "bool":
        yield placed("input_shared_with_abs", input_shared(u, prefix))
    yield placed("used_twice", used_twice(u, prefix))
    if precision == INTEGERS:
        return
    if prefix is bare:
        yield placed("behind_linear", behind_linear(u, precision))
        if len(u.x.shape) == 4:
            yield placed("behind_conv", behind_conv(u, precision))
            if subject.elementwise and subject.reals:
                yield placed("before_conv", before_conv(u, precision))
    yield from more_contexts(u, prefix)
