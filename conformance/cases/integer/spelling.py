"""One use of an operator or one graph, spelled in each number type of tables for integer hardware.

Families write everything in int8, products with one scale for all weights. `spelled` makes the other precisions of
it: int16 (256 times finer steps, zero points 0, weights stay int8) and weights with a scale per output
(int8_per_channel, int16_per_channel). In `integers` tensors are plain numbers without scales.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from npu_assay.conformance.cases.make import Q, Use, bias_quant, spread, weight_quant
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value

INT8, INT16, INTEGERS = "int8", "int16", "integers"
PER_CHANNEL = "_per_channel"
QUANTISED = (INT8, INT8 + PER_CHANNEL, INT16, INT16 + PER_CHANNEL)
IMAGE = (1, 3, 4, 5)
FINER = 256
CONVOLUTION, LINEAR = "aten.convolution.default", "aten.linear.default"
PRODUCTS = (CONVOLUTION, LINEAR)
TRANSPOSED = 6  # the position of a convolution's argument


def is_wide(precision: str) -> bool:
    """Whether codes have 16 bits."""
    return precision.startswith(INT16)


def wide(q: Quant) -> Quant:
    """Nearly the same numbers in symmetric 16-bit codes."""
    assert isinstance(q.scale, float)
    return Quant(q.scale / FINER, 0, -(2**15) + 1, 2**15 - 1, None, "int16")


def codes_quant(precision: str, q: Quant = Q) -> Quant:
    """An int8 quantisation in a precision."""
    return wide(q) if is_wide(precision) else q


def other_type(precision: str, q: Quant = Q) -> Quant:
    """The same numbers in the codes that the precision has not."""
    return Quant(0.05, 3) if is_wide(precision) else wide(q)


# ------------------------------------------------------------------------------------ uses and graphs


def spelled(u: Use, precision: str) -> Use:
    """The use in a precision."""
    step = Step("subject", u.op, u.args, u.kwargs, u.y)
    graph = spelled_graph(Graph(u.values, (step,), ()), precision)
    return replace(u, values=graph.values, y=graph.steps[0].quant)


def spelled_graph(graph: Graph, precision: str) -> Graph:
    """The graph in a precision: activations, then the weights and biases that depend on them."""
    if precision in (INT8, INTEGERS):
        return graph
    weights = {ref.name for step in graph.steps if step.op in PRODUCTS for ref in _refs(step.args[1:2])}
    values = {value.name: value if value.name in weights else _widened(value, precision) for value in graph.values}
    steps = [replace(step, quant=_wide_or_not(step.quant, precision)) for step in graph.steps]
    quants = {value.name: value.quant for value in values.values()} | {step.name: step.quant for step in steps}
    for step in steps:
        if step.op in PRODUCTS:
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
    """A product's weights and bias in a precision; as they are where they are not quantised constants."""
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


# ------------------------------------------------------------------------------------ plain integers


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


def as_integers(u: Use, dtype: str = "int32") -> Use:
    """The use on plain numbers: integers, or truths; without quantisation."""
    low, high = (0, 1) if dtype == "bool" else (-9, 9)
    values = tuple(
        replace(integers(v.name, v.shape, dtype, low, high), constant=v.constant) if v.quant is not None else v
        for v in u.values
    )
    return replace(u, values=values, y=None)


def based(at: Callable[[tuple[int, ...]], Use], precision: str) -> Callable[[tuple[int, ...]], Use]:
    """Uses in int8, or for `integers` the same on plain numbers."""
    return (lambda shape: as_integers(at(shape))) if precision == INTEGERS else at
