"""Walks a graph's steps: exact integers, or float64 with bounds along two paths.

The chain path keeps a step's real result, saturated to its range, and lets bounds grow from step to step.
The code path rounds after every quantised step and keeps all codes that are legal under the slack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from conformance.graph import Graph, Quant, Ref, Step
from conformance.programs import materialise
from reference import golden, integer, onnx_golden
from reference.affine import Affine
from reference.golden import Bounded, Codes
from reference.integer import QTensor

# Behind an operator without a quantisation of its own these run on its codes (their own output's steps).
_FUSED = frozenset(
    {"aten.relu.default", "aten.relu6.default", "aten.hardtanh.default", "aten.clamp.default"}
    | {"aten.sigmoid.default", "aten.tanh.default"}
)


@dataclass(frozen=True)
class Walk:
    """The float golden of every graph output: chain bounds, legal codes and their quantisation, dtype."""

    bounded: tuple[Bounded, ...]
    codes: tuple[Codes | None, ...]
    quants: tuple[Quant | None, ...]
    dtypes: tuple[torch.dtype, ...]


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


def references(argument: Any) -> list[Ref]:
    """Every reference inside an argument."""
    if isinstance(argument, Ref):
        return [argument]
    if isinstance(argument, tuple):
        return [ref for item in argument for ref in references(item)]
    return []


def step_quants(graph: Graph) -> dict[str, Quant | None]:
    """The quantisation that each step's result has as integers; None for a step that works on reals.

    A step without its own takes that of the activation behind it, when nothing else uses its result.
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


# ------------------------------------------------------------------------------------ integers


def exact_codes(graph: Graph) -> tuple[Tensor | None, ...]:
    """The integer golden of each graph output: int8, None where a real number enters on the way.

    Raises IntegerError for an operator or operands without integer semantics.
    """
    quants = step_quants(graph)
    found: dict[Ref, Any] = {}
    for value in graph.values:
        q = value.quant
        codes = materialise(value)
        found[Ref(value.name)] = codes if q is None else QTensor(codes, q.scale, q.zero_point, q.axis)
    for step in graph.steps:
        found.update(_integer_step(step, quants[step.name], found))
    outputs = (found[ref] for ref in graph.outputs)
    return tuple(x.codes if isinstance(x, QTensor) else None for x in outputs)


def _integer_step(step: Step, quant: Quant | None, found: Mapping[Ref, Any]) -> dict[Ref, Any]:
    operands = [found[ref] for ref in references(step.args)]
    real = [(isinstance(x, Tensor) and step.op != "aten.div.Tensor") or x is None for x in operands]
    if quant is None or any(real):
        return {Ref(step.name, index): None for index in range(step.outputs)}
    y = affine(quant)
    codes = integer.run(step.op, substitute(step.args, found), dict(step.kwargs), y)
    results = [QTensor(c, y.scale, y.zero_point) for c in codes]
    return {Ref(step.name, index): x for index, x in zip(range(step.outputs), results, strict=False)}


# ------------------------------------------------------------------------------------ float64


@dataclass(frozen=True)
class _Node:
    """A value or a step's output on both paths; `quant` None when it is a real number."""

    chain: Bounded
    code: Bounded
    codes: Codes | None = None
    quant: Quant | None = None
    dtype: torch.dtype = torch.float32


def walk(graph: Graph, scheme: str | None, delegated: bool) -> Walk:
    """The float golden of a graph, with the slack of `scheme` and, unless delegated, of float32 besides."""
    quants = step_quants(graph)
    nodes: dict[Ref, _Node] = {Ref(value.name): _value_node(materialise(value), value.quant) for value in graph.values}
    for step in graph.steps:
        nodes.update(_float_step(step, quants[step.name], nodes, scheme, delegated))
    outputs = [nodes[ref] for ref in graph.outputs]
    return Walk(
        tuple(x.chain for x in outputs),
        tuple(x.codes for x in outputs),
        tuple(x.quant for x in outputs),
        tuple(x.dtype for x in outputs),
    )


def _value_node(numbers: Tensor, quant: Quant | None) -> _Node:
    if quant is None:
        real = Bounded(numbers.to(torch.float64))
        return _Node(real, real)
    real = golden.dequantised(numbers, quant.scale, quant.zero_point, quant.axis)
    codes = numbers.to(torch.float64)
    return _Node(real, real, Codes(codes, codes, codes), quant)


def _float_step(
    step: Step, quant: Quant | None, nodes: Mapping[Ref, _Node], scheme: str | None, delegated: bool
) -> dict[Ref, _Node]:
    """Both paths through a step; one computation serves both while their operands are the same."""
    refs = references(step.args)
    integers = quant is not None and all(nodes[ref].quant is not None for ref in refs)
    arithmetic = _Arithmetic(scheme, integers, not (delegated and integers), None if quant is None else affine(quant))
    chain = arithmetic.results(step, {ref: nodes[ref].chain for ref in refs})
    same = all(nodes[ref].chain is nodes[ref].code for ref in refs)
    code = chain if same else arithmetic.results(step, {ref: nodes[ref].code for ref in refs})
    return {
        Ref(step.name, index): _node(step, index, chain[index], code[index])
        for index in range(min(step.outputs, len(chain)))
    }


@dataclass(frozen=True)
class _Result:
    """A step's real result with the slack, in steps of its output, of the arithmetic that computed it."""

    real: Bounded
    slack: golden.Slack
    on_grid: bool


@dataclass(frozen=True)
class _Arithmetic:
    """Which roundings a step's result may have seen: the device's, float32's, or either."""

    scheme: str | None
    device: bool
    float32: bool
    y: Affine | None

    def results(self, step: Step, operands: Mapping[Ref, Bounded]) -> list[_Result]:
        args, kwargs = substitute(step.args, operands), dict(step.kwargs)
        reals = golden.run_float32(step.op, args, kwargs) if self.float32 else golden.run(step.op, args, kwargs)
        return [self._result(step, args, kwargs, real) for real in reals]

    def _result(self, step: Step, args: Any, kwargs: dict[str, Any], real: Bounded) -> _Result:
        if self.y is None:
            return _Result(real, 0.0, False)
        unit = self.y.scale32
        slack: golden.Slack = 0.0
        if self.device:
            slack = golden.device(step.op, args, kwargs, real, unit, self.scheme)
        if self.float32:
            slack = slack + golden.quantise_float32(real, unit)
        if step.quant is None:  # fused: its rounding is the activation's; the slack goes through that one
            return _Result(Bounded(real.value, real.error + slack * unit), 0.0, False)
        return _Result(real, slack, self.device and golden.on_grid(step.op, args, kwargs, unit))


def _node(step: Step, index: int, chain: _Result, code: _Result) -> _Node:
    if step.op == "aten.max_pool2d_with_indices.default" and index == 1:
        return _Node(chain.real, code.real, dtype=torch.int64)
    if step.quant is None:
        return _Node(chain.real, code.real)
    y = affine(step.quant)
    codes = golden.legal_codes(code.real, y, code.slack, on_grid=code.on_grid)
    bounded = golden.quantised(chain.real, y, chain.slack, on_grid=chain.on_grid)
    return _Node(bounded, codes.real(y), codes, step.quant)


# ------------------------------------------------------------------------------------ the golden itself


def second_opinion(graph: Graph) -> tuple[str, ...]:
    """Where `onnx.reference` contradicts the float golden on a step of this graph: a fault of the golden.

    Steps whose operator ONNX lacks (`onnx_golden.WITHOUT`) are passed over. Some milliseconds per step.
    """
    reals: dict[Ref, Bounded] = {Ref(v.name): _value_node(materialise(v), v.quant).chain for v in graph.values}
    found = []
    for step in graph.steps:
        args, kwargs = substitute(step.args, reals), dict(step.kwargs)
        results = golden.run(step.op, args, kwargs)
        reals.update({Ref(step.name, index): result for index, result in enumerate(results)})
        numbers = [result.value for result in results]
        message = onnx_golden.disagreement(step.op, golden.values(args), numbers, kwargs)
        found += [f"{step.name}: {message}"] if message else []
    return tuple(found)
