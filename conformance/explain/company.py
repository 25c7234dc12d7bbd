"""An operator in better company than it has in its model: models of it alone, quantized as backends like it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from npu_assay.conformance.cases.make import SUBJECT, bias_quant, weight_quant
from npu_assay.conformance.explain.single import quantized, split
from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step, references, renamed

FIXED = (Quant(1 / 256, -128), Quant(1 / 128, 0))
"""Codes of results between 0 and 1, and between -1 and 1."""


def in_company(graph: Graph) -> Iterator[Graph]:
    """The operator as it is, between quantized operands, and after an operator that computes.

    Where the model has no codes of its result, also with those that activations are given.
    """
    has_codes = graph.steps[0].quant is not None
    yield graph
    if any(value.quant is not None for value in graph.values) or graph.steps[0].quant is not None:
        graph = quantized(graph)
        yield graph
    else:
        yield weighted(quantized(graph), bias=False)
        graph = weighted(quantized(graph), bias=True)
        yield graph
    yield (behind := _behind_abs(graph))
    if not has_codes:
        for quant in FIXED:
            yield replace(behind, steps=(*behind.steps[:-1], replace(behind.steps[-1], quant=quant)))


def as_layers(layer: Graph) -> Iterator[Graph]:
    """A linear layer quantized, whole and split."""
    whole = weighted(quantized(layer), bias=True)
    yield from (whole, split(whole))


def weighted(graph: Graph, bias: bool) -> Graph:
    """Real constants of a model quantized as weights are, and a bias in steps of the accumulator, or left real."""
    x = next((v.quant for v in graph.values if not v.constant and v.quant is not None), None)
    w = weight_quant(0.01)
    constants = [v for v in graph.values if v.constant and v.quant is None and v.dtype == "float32"]
    quants = {v.name: w for v in constants if len(v.shape) > 1}
    if bias and x is not None and quants:
        quants |= {v.name: bias_quant(x, w) for v in constants if len(v.shape) == 1}
    return replace(graph, values=tuple(replace(v, quant=quants.get(v.name, v.quant)) for v in graph.values))


def _behind_abs(graph: Graph) -> Graph:
    """The operator's operands that are not constants come from operators that compute."""
    step, known = graph.steps[0], {value.name: value for value in graph.values}
    behind: dict[str, Step] = {}
    for name in dict.fromkeys(ref.name for ref in references(step.args) if ref.name in known):
        value = known[name]
        if value.dtype != "bool" and not value.constant:
            quant = value.quant if value.quant is None or value.quant.axis is None else None
            behind[name] = Step(f"before_{len(behind)}", "aten.abs.default", (Ref(name),), (), quant)
    again = replace(step, name=SUBJECT, args=renamed(step.args, {name: each.name for name, each in behind.items()}))
    return replace(graph, steps=(*behind.values(), again))


def of_its_own(graph: Graph) -> Graph:
    """With a bias in steps of this call's accumulator, where it has those of another call of its layer."""
    inputs = [value.quant for value in graph.values if not value.constant and value.quant is not None]
    weights = [v.quant for v in graph.values if v.constant and len(v.shape) > 1 and v.quant is not None]
    if not inputs or not weights:
        return graph
    bias = bias_quant(inputs[0], weights[0])
    own = (
        replace(v, quant=bias) if v.constant and v.quant is not None and v.quant.dtype == bias.dtype else v
        for v in graph.values
    )
    return replace(graph, values=tuple(own))
