"""Random programs of one operator, out of a table's cases: other numbers, other sizes, other scales and zero points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from npu_assay.conformance.fuzz.programs import SIZES
from npu_assay.conformance.fuzz.sketch import can_resize, kinds, resized
from npu_assay.conformance.programs.graph import Case, Fill, Graph, Quant, Ref, Step, Value

PRODUCTS = ("aten.convolution.default", "aten.linear.default")
FILLS = ("random", "random", "random", "random", "ramp", "alternating", "min", "max")


def drawn(case: Case, seed: int, exponents: float) -> Case:
    """The case with what a seed draws for it; scales are up to 2**exponents of what they were, or as little of it."""
    draw = Random(f"{case.id}/{seed}")
    graph = _scaled(draw, _sized(draw, _filled(draw, case.graph)), exponents)
    return replace(case, id=f"{case.id}/{seed}", side="random", expect="unspecified", reason=None, graph=graph)


def _filled(draw: Random, graph: Graph) -> Graph:
    """Other numbers wherever there are random ones."""

    def filled(value: Value) -> Value:
        if value.fill.kind != "random":
            return value
        kind = "random" if value.constant else draw.choice(FILLS)
        return replace(value, fill=Fill(kind, seed=draw.randrange(2**30)))

    return replace(graph, values=tuple(map(filled, graph.values)))


def _sized(draw: Random, graph: Graph) -> Graph:
    """Up to three other sizes, where torch takes them; none beside indices and masks, which would lie outside.

    Nor with strides as arguments: torch asks only with numbers whether they stay inside.
    """
    if any(value.quant is None for value in graph.values) or any("as_strided" in step.op for step in graph.steps):
        return graph
    for _ in range(draw.randrange(4)):
        shape = draw.choice([value.shape for value in graph.values])
        if shape and can_resize(graph, shape):
            other = resized(graph, shape, draw.randrange(len(shape)), draw.choice(SIZES))
            graph = graph if kinds(other) is None else other
    return graph


def _scaled(draw: Random, graph: Graph, exponents: float) -> Graph:
    """Equal quantizations stay equal, and a bias has the scale of its products."""
    dyadic = draw.random() < 1 / 3
    found = [*(value.quant for value in graph.values), *(step.quant for step in graph.steps)]
    quants = dict.fromkeys(quant for quant in found if quant is not None)
    factors: dict[Quant, float] = {}
    for quant in quants:
        exponent = draw.uniform(-exponents, exponents)
        factors[quant] = 2.0 ** (round(exponent) if dyadic else exponent)
    known = quantisations(graph)
    for step in graph.steps:
        _fit_bias(step, known, factors)
    points: dict[Quant, int] = {quant: _zero_point(draw, quant) for quant in quants}

    def new(quant: Quant | None) -> Quant | None:
        if quant is None:
            return None
        scale, factor = quant.scale, factors[quant]
        scaled = tuple(each * factor for each in scale) if isinstance(scale, tuple) else scale * factor
        return replace(quant, scale=scaled, zero_point=points[quant])

    return _with_quants(graph, new)


def quantisations(graph: Graph) -> dict[str, Quant | None]:
    """Of values and results, by name; a result's where a value has the same."""
    return {value.name: value.quant for value in graph.values} | {step.name: step.quant for step in graph.steps}


def _fit_bias(step: Step, known: Mapping[str, Quant | None], factors: dict[Quant, float]) -> None:
    if step.op in PRODUCTS and len(step.args) > 2 and isinstance(step.args[2], Ref):
        x, weight, bias = (known[ref.name] for ref in step.args[:3])
        if x is not None and weight is not None and bias is not None:
            factors[bias] = factors[x] * factors[weight]


def _zero_point(draw: Random, quant: Quant) -> int:
    """Only int8 activations have one that is not 0."""
    if quant.dtype != "int8" or quant.axis is not None or (quant.qmin, quant.zero_point) == (-127, 0):
        return quant.zero_point
    return draw.choice((quant.zero_point, -128, 127, draw.randrange(-128, 128)))


def _with_quants(graph: Graph, new: Callable[[Quant | None], Quant | None]) -> Graph:
    values = tuple(replace(value, quant=new(value.quant)) for value in graph.values)
    return replace(graph, values=values, steps=tuple(replace(step, quant=new(step.quant)) for step in graph.steps))
