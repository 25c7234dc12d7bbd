"""The reductions of a graph, larger ones first. Each result is smaller than the graph, so reducing ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from npu_assay.conformance.fuzz.sketch import Kind, can_resize, kinds, resized, with_refs, without_dead
from npu_assay.conformance.programs.graph import Fill, Graph, Ref, Value, references

PLAIN = ("zero", "ramp")


def reductions(graph: Graph) -> Iterator[Graph]:
    """Smaller graphs that torch accepts: fewer outputs, fewer steps, smaller sizes, simpler numbers."""
    known = kinds(graph)
    if known is None:
        return
    for candidate in (*_outputs(graph), *_steps(graph, known), *_sizes(graph), *_fills(graph)):
        if candidate.outputs and candidate.inputs:
            yield candidate


def _outputs(graph: Graph) -> Iterator[Graph]:
    """Graphs with one output, with all outputs but one, and with the result of an inner step as the only output."""
    if len(graph.outputs) > 1:
        for ref in graph.outputs:
            yield without_dead(replace(graph, outputs=(ref,)))
        for ref in graph.outputs:
            yield without_dead(replace(graph, outputs=tuple(other for other in graph.outputs if other != ref)))
    for step in graph.steps:
        shorter = without_dead(replace(graph, outputs=(Ref(step.name),)))
        if len(shorter.steps) < len(graph.steps):
            yield shorter


def _steps(graph: Graph, known: dict[Ref, Kind]) -> Iterator[Graph]:
    """Graphs without one step: a model input, or one of its operands, replaces its result."""
    for step in reversed(graph.steps):
        results = [Ref(step.name, index) for index in range(step.outputs)]
        inputs = {ref: _input(ref, known[ref]) for ref in results}
        yield _without(
            graph, step.name, {ref: Ref(value.name) for ref, value in inputs.items()}, tuple(inputs.values())
        )
        for ref in dict.fromkeys(references(step.args)):
            if step.outputs == 1 and known[ref] == known[results[0]]:
                yield _without(graph, step.name, {results[0]: ref}, ())


def _without(graph: Graph, name: str, refs: dict[Ref, Ref], values: tuple[Value, ...]) -> Graph:
    steps = tuple(with_refs(step, refs) for step in graph.steps if step.name != name)
    outputs = tuple(ref for ref in graph.outputs if ref.name != name)
    return without_dead(Graph((*graph.values, *values), steps, outputs))


def _input(ref: Ref, kind: Kind) -> Value:
    name = f"{ref.name}_{ref.index}" if ref.index else f"{ref.name}_in"
    return Value(name, kind.shape, kind.quant, Fill(), dtype=kind.dtype)


def _sizes(graph: Graph) -> Iterator[Graph]:
    for shape in dict.fromkeys(value.shape for value in graph.values):
        for axis, size in enumerate(shape if can_resize(graph, shape) else ()):
            for smaller in dict.fromkeys((1, size // 2, size - 1)):
                if 0 < smaller < size:
                    other = resized(graph, shape, axis, smaller)
                    if kinds(other) is not None:
                        yield other


def _fills(graph: Graph) -> Iterator[Graph]:
    for index, value in enumerate(graph.values):
        rank = PLAIN.index(value.fill.kind) if value.fill.kind in PLAIN else len(PLAIN)
        for kind in PLAIN[:rank] if value.dtype == "float32" else ():
            values = (*graph.values[:index], replace(value, fill=Fill(kind)), *graph.values[index + 1 :])
            yield replace(graph, values=values)
