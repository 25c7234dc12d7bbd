"""The integer golden of a whole graph, and what both goldens need of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from torch import Tensor

from conformance.graph import Graph, Quant, Ref, Step
from conformance.programs import materialise
from reference import integer
from reference.affine import Affine
from reference.golden.weighted import MOVEMENT
from reference.integer import QTensor

# Behind an operator without a quantisation of its own these run on its codes (their own output's steps).
_FUSED = (
    frozenset({"aten.relu.default", "aten.relu6.default", "aten.hardtanh.default", "aten.clamp.default"})
    | {"aten.sigmoid.default", "aten.tanh.default"}
    | (MOVEMENT - {"aten.cat.default"})
)


@lru_cache(maxsize=1024)
def affine(quant: Quant) -> Affine:
    """A per-tensor quantisation as `reference` spells it. Raises ValueError for a per-channel one."""
    if isinstance(quant.scale, tuple):
        raise ValueError(f"quantisation of an output: found {len(quant.scale)} scales, expected 1")
    return Affine(quant.scale, quant.zero_point, quant.qmin, quant.qmax)


def substitute(argument: Any, found: Mapping[Ref, Any]) -> Any:
    """A step's argument with its references replaced."""
    if isinstance(argument, Ref):
        return found[argument]
    if isinstance(argument, tuple):
        return tuple(substitute(item, found) for item in argument)
    return argument


@lru_cache(maxsize=4096)
def references(argument: Any) -> tuple[Ref, ...]:
    """Every reference inside an argument, in order."""
    if isinstance(argument, Ref):
        return (argument,)
    if isinstance(argument, tuple):
        return tuple(ref for item in argument for ref in references(item))
    return ()


def operands(step: Step) -> tuple[Ref, ...]:
    """The operands that must be codes for the step to be one on integers: a divisor need not be."""
    refs = references(step.args)
    return refs[:1] if step.op == "aten.div.Tensor" else refs


def step_quants(graph: Graph) -> dict[str, Quant | None]:
    """The quantisation that each step's result has as integers; None for a step that works on reals.

    A step without its own takes that of the activation or reshape behind it, when nothing else uses its result.
    """
    users: dict[str, list[Step]] = {}
    for step in graph.steps:
        for name in {ref.name for ref in references(step.args)}:
            users.setdefault(name, []).append(step)
    returned = {ref.name for ref in graph.outputs}
    found: dict[str, Quant | None] = {}
    for step in reversed(graph.steps):
        found[step.name] = step.quant
        behind = users.get(step.name, [])
        if step.quant is None and len(behind) == 1 and step.name not in returned and behind[0].op in _FUSED:
            found[step.name] = found[behind[0].name]
    return found


def with_moved_quants(graph: Graph) -> Graph:
    """The graph with a quantisation for every step that only moves codes and has none: its operand's.

    Between dequantize and an operator, a transposed weight is still codes.
    """
    if all(step.quant is not None for step in graph.steps):
        return graph
    known = {value.name: value.quant for value in graph.values}
    steps = []
    for step in graph.steps:
        quants = {known[ref.name] for ref in references(step.args)}
        if step.quant is None and step.op in MOVEMENT and len(quants) == 1:
            (quant,) = quants
            if quant is not None and quant.axis is None and quant.dtype == "int8":
                step = replace(step, quant=quant)
        known[step.name] = step.quant
        steps.append(step)
    return replace(graph, steps=tuple(steps))


def exact_codes(graph: Graph) -> dict[Ref, QTensor]:
    """The integer golden of every value and every step's output; none where a real number enters on the way.

    Raises IntegerError for an operator or operands without integer semantics.
    """
    graph = with_moved_quants(graph)
    quants = step_quants(graph)
    found: dict[Ref, QTensor] = {}
    reals: dict[Ref, Tensor] = {}
    for value in graph.values:
        codes, q = materialise(value), value.quant
        if q is None:
            reals[Ref(value.name)] = codes
        else:
            found[Ref(value.name)] = QTensor(codes, q.scale, q.zero_point, q.axis)
    for step in graph.steps:
        found.update(_integer_step(step, quants[step.name], found, reals))
    return found


def _integer_step(
    step: Step, quant: Quant | None, found: Mapping[Ref, QTensor], reals: Mapping[Ref, Tensor]
) -> dict[Ref, QTensor]:
    """The outputs' codes; nothing for a step on reals, or with an operator that no NPU computes on integers.

    A divisor alone may be real: it is made into codes.
    """
    if step.op not in integer.OPERATORS or quant is None or any(ref not in found for ref in operands(step)):
        return {}
    known: Mapping[Ref, Any] = {**found, **reals} if step.op == "aten.div.Tensor" else found
    if any(ref not in known for ref in references(step.args)):
        return {}
    y = affine(quant)
    codes = integer.run(step.op, substitute(step.args, known), dict(step.kwargs), y)
    return {Ref(step.name, index): QTensor(c, y.scale, y.zero_point) for index, c in enumerate(codes)}
