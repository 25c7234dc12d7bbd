"""One call of an operator or one graph, spelled in each precision.

fp32 and fp16 are plain floats. In static_int8 every activation stands after a dequantize node and goes into a
quantize node. Linear layers and convolutions also have weights: symmetric int8 codes with one scale (static_int8) or
one per output (static_int8_per_channel, dynamic_int8), or 4-bit codes with a scale per group (dynamic_int4); their
bias is a float, as in the programs that PT2E makes.

For hardware that computes on integers alone everything is written in int8, with one scale for all weights. `spelled`
makes the other precisions of it: int16 (256 times finer steps, zero points 0, weights stay int8) and weights with a
scale per output (int8_per_channel, int16_per_channel). In `integers` tensors are plain numbers without scales.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from npu_assay.conformance.cases.make import Call, Q, X, bias_quant, seeded, spread, weight_quant
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value

# ------------------------------------------------------------------------------------ floats


STATIC = ("static_int8", "static_int8_per_channel")
DYNAMIC = ("dynamic_int8", "dynamic_int4")
FLOATS = ("fp32", "fp16")
GROUP = 32  # inputs per scale of 4-bit weights
WEIGHT_SCALE = 0.01


def is_static(precision: str) -> bool:
    """Whether activations are int8 codes with scales in the program."""
    return precision in STATIC


def real(name: str, shape: Sequence[int], precision: str, fill: Fill | None = None, quant: Quant = Q) -> Value:
    """An activation: floats, or codes of `quant` in static_int8."""
    dtype = "float16" if precision == "fp16" else "float32"
    return Value(
        name, tuple(shape), quant if is_static(precision) else None, seeded(name) if fill is None else fill, dtype=dtype
    )


def result(precision: str, quant: Quant = Q) -> Quant | None:
    """The output's quantization: none but in static_int8."""
    return quant if is_static(precision) else None


def floats(name: str, shape: Sequence[int], precision: str, fill: Fill | None = None) -> Value:
    """A constant of plain floats: weights in fp32 and fp16, a bias in every precision."""
    return replace(real(name, shape, "fp16" if precision == "fp16" else "fp32", fill), constant=True)


def weights(name: str, shape: Sequence[int], precision: str, axis: int = 0, group: int = GROUP) -> Value:
    """Constant weights with outputs along `axis`."""
    quant = weights_quant(shape, precision, axis, group)
    return replace(floats(name, shape, precision), quant=quant)


def weights_quant(shape: Sequence[int], precision: str, axis: int = 0, group: int = GROUP) -> Quant | None:
    """How a precision's weights are quantized; None: they are floats."""
    if precision in FLOATS:
        return None
    if precision == "static_int8":
        return weight_quant(WEIGHT_SCALE)
    if precision == "dynamic_int4":
        scales = spread(WEIGHT_SCALE * 16, shape[0] * (shape[1] // group))
        return Quant(scales, 0, -8, 7, axis=0, group=group)
    return weight_quant(spread(WEIGHT_SCALE, shape[axis]), axis)


def run_time(precision: str) -> str | None:
    """How `x` is quantized at run time, in the precisions that do."""
    return "per_tensor" if precision == "dynamic_int8" else "per_token" if precision == "dynamic_int4" else None


def call_on(
    op: str, x: Value, precision: str, *rest: Any, more: tuple[Value, ...] = (), y: Quant = Q, **kwargs: Any
) -> Call:
    """`op(x, *rest, **kwargs)`; `more` are the values that `rest` refers to."""
    return Call(op, (x, *more), (X, *rest), result(precision, y), tuple(kwargs.items()))


# ------------------------------------------------------------------------------------ integers


INT8 = "int8"
INT16 = "int16"
INTEGERS = "integers"
PER_CHANNEL = "_per_channel"
QUANTIZED = (INT8, INT8 + PER_CHANNEL, INT16, INT16 + PER_CHANNEL)
IMAGE = (1, 3, 4, 5)
FINER = 256
CONVOLUTION = "aten.convolution.default"
LINEAR = "aten.linear.default"
WEIGHTED = (CONVOLUTION, LINEAR)
TRANSPOSED = 6  # the position of a convolution's argument


def is_wide(precision: str) -> bool:
    """Whether codes have 16 bits."""
    return precision.startswith(INT16)


def wide(q: Quant) -> Quant:
    """Nearly the same numbers in symmetric 16-bit codes."""
    assert isinstance(q.scale, float)
    return Quant(q.scale / FINER, 0, -(2**15) + 1, 2**15 - 1, None, "int16")


def codes_quant(precision: str, q: Quant = Q) -> Quant:
    """An int8 quantization in a precision."""
    return wide(q) if is_wide(precision) else q


def other_type(precision: str, q: Quant = Q) -> Quant:
    """The same numbers in the codes that the precision has not."""
    return Quant(0.05, 3) if is_wide(precision) else wide(q)


def spelled(u: Call, precision: str) -> Call:
    """The call in a precision."""
    step = Step("subject", u.op, u.args, u.kwargs, u.y)
    graph = spelled_graph(Graph(u.values, (step,), ()), precision)
    return replace(u, values=graph.values, y=graph.steps[0].quant)


def spelled_graph(graph: Graph, precision: str) -> Graph:
    """The graph in a precision: activations, then the weights and biases that depend on them."""
    if precision not in QUANTIZED[1:]:  # it is written so
        return graph
    weights = {ref.name for step in graph.steps if step.op in WEIGHTED for ref in _refs(step.args[1:2])}
    values = {value.name: value if value.name in weights else _widened(value, precision) for value in graph.values}
    steps = [replace(step, quant=_wide_or_not(step.quant, precision)) for step in graph.steps]
    quants = {value.name: value.quant for value in values.values()} | {step.name: step.quant for step in steps}
    for step in steps:
        if step.op in WEIGHTED:
            values |= _constants(step, values, quants, precision)
    return Graph(tuple(values[value.name] for value in graph.values), tuple(steps), graph.outputs)


def _refs(arguments: Iterable[object]) -> list[Ref]:
    return [argument for argument in arguments if isinstance(argument, Ref)]


def _wide_or_not(q: Quant | None, precision: str) -> Quant | None:
    return wide(q) if q is not None and q.dtype == "int8" and q.axis is None and is_wide(precision) else q


def _widened(value: Value, precision: str) -> Value:
    q = _wide_or_not(value.quant, precision)
    if q is value.quant or value.quant is None:
        return value
    numbers = tuple((code - value.quant.zero_point) * FINER for code in value.fill.values)
    return replace(value, quant=q, fill=replace(value.fill, values=numbers))


def _constants(
    step: Step, values: Mapping[str, Value], quants: Mapping[str, Quant | None], precision: str
) -> dict[str, Value]:
    """A product's weights and bias in a precision; as they are where they are not quantized constants."""
    x, w, *rest = (argument for argument in step.args[:3])
    weight = values.get(w.name)
    if weight is None or weight.quant is None or not isinstance(weight.quant.scale, float):
        return {}
    if precision.endswith(PER_CHANNEL):
        axis = 1 if step.op == CONVOLUTION and step.args[TRANSPOSED] else 0
        weight = replace(weight, quant=weight_quant(spread(weight.quant.scale, weight.shape[axis]), axis))
    found, q = {weight.name: weight}, quants[x.name]
    for ref in _refs(rest):
        bias = values.get(ref.name)
        if bias is not None and bias.quant is not None and bias.quant.dtype == "int32" and q is not None:
            finer = FINER if is_wide(precision) else 1
            made = bias_quant(q, weight.quant or Q)
            found[ref.name] = replace(bias, quant=replace(made, qmin=made.qmin * finer, qmax=made.qmax * finer))
    return found


def integers(
    name: str, shape: Sequence[int], dtype: str = "int32", low: int = -9, high: int = 9, constant: bool = False
) -> Value:
    """A tensor of plain integers within low..high."""
    numbers = tuple(low + (7 * index + len(name)) % (high - low + 1) for index in range(math.prod(shape)))
    fill = Fill("list", values=tuple(map(float, numbers)) or (0.0,))
    return Value(name, tuple(shape), None, fill, constant, dtype)


def flags(name: str, shape: Sequence[int], constant: bool = False) -> Value:
    """A tensor of booleans."""
    return integers(name, shape, "bool", 0, 1, constant)


def indices(name: str, shape: Sequence[int], size: int, constant: bool = False) -> Value:
    """Indices below `size`."""
    return integers(name, shape, "int32", 0, size - 1, constant)


def numbers(value: Value, *listed: float) -> Value:
    """The value with other numbers."""
    return replace(value, fill=Fill("list", values=listed))


def as_integers(u: Call, dtype: str = "int32") -> Call:
    """The call on plain numbers: integers, or truths; without quantization."""
    low, high = (0, 1) if dtype == "bool" else (-9, 9)
    values = tuple(
        replace(integers(v.name, v.shape, dtype, low, high), constant=v.constant) if v.quant is not None else v
        for v in u.values
    )
    return replace(u, values=values, y=None)


def in_int8(at: Callable[[tuple[int, ...]], Call]) -> Callable[[str, tuple[int, ...]], Call]:
    """Calls that are written in int8, spelled in a precision."""
    return lambda precision, shape: spelled(at(shape), precision)


def or_integers(at: Callable[[tuple[int, ...]], Call], dtype: str = "int32") -> Callable[[str, tuple[int, ...]], Call]:
    """Calls that are written in int8, spelled in a precision: for `integers`, on plain numbers of a type."""
    return lambda precision, shape: (
        as_integers(at(shape), dtype) if precision == INTEGERS else spelled(at(shape), precision)
    )


def per_channel(precision: str) -> bool:
    """Whether weights have a scale per output."""
    return precision.endswith("_per_channel")


# ------------------------------------------------------------------------------------ changes


def activations(u: Call, **changes: Any) -> Call:
    """The same call with changes in every operand that is not a constant."""
    return replace(u, values=tuple(v if v.constant else replace(v, **changes) for v in u.values))


def opened(u: Call, axes: tuple[int, ...]) -> Call:
    """The same call with the sizes of some axes left open, of every operand that is not a constant and has them.

    A dynamic size is at least 2 here: torch.export takes a size of 1 for a known one.
    """
    return replace(u, values=tuple(value if value.constant else _opened(value, axes) for value in u.values))


def _opened(value: Value, axes: tuple[int, ...]) -> Value:
    shape = tuple(max(2, size) if axis in axes else size for axis, size in enumerate(value.shape))
    return replace(value, shape=shape, dynamic=tuple(axis for axis in axes if axis < len(shape)))
