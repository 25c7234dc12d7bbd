"""Changes of graphs: the kinds of values, other sizes, other names, and dead code removed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from npu_assay.conformance.common.memory import keep
from npu_assay.conformance.fuzz.answering import REFUSED
from npu_assay.conformance.programs.build import REALS
from npu_assay.conformance.programs.edge_form import returns_indices, typed
from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step, Value, references, substitute
from npu_assay.partitioners.exir.ops import edge_op

MOST = 4096  # elements of a value
# What torch says to arguments that do not fit.

CONVOLUTION, LINEAR = "aten.convolution.default", "aten.linear.default"

NAMES = {dtype: name for name, dtype in REALS.items()}

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Kind:
    """The shape, quantization and dtype of a value."""

    shape: Shape
    quant: Quant | None
    dtype: str


def kind_of(value: Value) -> Kind:
    """The kind of an input or a constant."""
    return Kind(value.shape, value.quant, "float32" if value.quant is not None else value.dtype)


def kinds(graph: Graph) -> dict[Ref, Kind] | None:
    """The kind of every reference of a graph; None for a graph that torch refuses or that is too large."""
    found = further(graph.values, graph.steps, {})
    return None if found is None or any(ref not in found for ref in graph.outputs) else found


def further(values: Sequence[Value], steps: Sequence[Step], known: Mapping[Ref, Kind]) -> dict[Ref, Kind] | None:
    """As `kinds`, for further values and steps of a graph whose other references are `known`."""
    found = {**known, **{Ref(value.name): kind_of(value) for value in values}}
    if any(count(value.shape) > MOST for value in values):
        return None
    for step in steps:
        try:
            given = substitute(step.args, lambda ref: replace(found[ref], quant=None))
            results = _results(step.op, given, step.kwargs)
        except KeyError:  # a result that the step before has no longer: a split of fewer numbers, into fewer pieces
            return None
        if results is None:
            return None
        for index, (shape, dtype) in enumerate(results):
            quant = None if returns_indices(step.op, index) else step.quant
            found[Ref(step.name, index)] = Kind(shape, quant, dtype)
    return found


@keep(4096)
def _results(op: str, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...]) -> list[tuple[Shape, str]] | None:
    """Shapes and dtypes of an operator's results. Cached: arguments that are equal (1, True) give the same shapes."""
    try:
        result = edge_op(op)(*map(_meta, args), **{key: typed(item) for key, item in kwargs})
    except REFUSED:
        return None
    tensors = [result] if isinstance(result, torch.Tensor) else list(result)
    if any(not isinstance(x, torch.Tensor) or x.numel() > MOST or x.dtype not in NAMES for x in tensors):
        return None
    shapes = [(tuple(tensor.shape), NAMES[tensor.dtype]) for tensor in tensors]
    return shapes if _parameters_fit(op, args, shapes) else None


def _parameters_fit(op: str, args: tuple[Any, ...], results: Sequence[tuple[Shape, str]]) -> bool:
    """Whether a bias, or what a batch norm has for each channel, has the right shape, which torch does not see to.

    Without numbers it ignores a convolution's bias and broadcasts a linear's; a batch norm reads past its numbers.
    """
    if "batch_norm" in op:
        return all(each.shape == args[0].shape[1:2] for each in args[1:5] if isinstance(each, Kind))
    if op == LINEAR and len(args) > 2 and isinstance(args[2], Kind):
        return bool(args[2].shape == args[1].shape[:1])
    if op != CONVOLUTION or not isinstance(args[2], Kind):
        return True
    return args[2].shape == (results[0][0][-len(args[3]) - 1],)


def _meta(argument: Any) -> Any:
    if isinstance(argument, Kind):
        return torch.empty(argument.shape, dtype=REALS[argument.dtype], device="meta")
    return [_meta(item) for item in argument] if isinstance(argument, tuple) else argument


def count(shape: Shape) -> int:
    """The number of elements."""
    return math.prod(shape)


def with_refs(step: Step, refs: Mapping[Ref, Ref]) -> Step:
    """The step with the references in its arguments replaced."""
    return replace(step, args=substitute(step.args, lambda ref: refs.get(ref, ref)))


def without_dead(graph: Graph) -> Graph:
    """The graph without dead code. One input stays, so that the program has an input."""
    needed = {ref.name for ref in graph.outputs}
    steps = list[Step]()
    for step in reversed(graph.steps):
        if step.name in needed:
            steps.append(step)
            needed |= {ref.name for ref in references(step.args)}
    values = tuple(value for value in graph.values if value.name in needed)
    return Graph(values, tuple(reversed(steps)), graph.outputs)


def resized(graph: Graph, shape: Shape, axis: int, size: int) -> Graph:
    """The graph with another size along an axis of every value of this shape, and of its scales along that axis."""
    values = tuple(_resized(value, axis, size) if value.shape == shape else value for value in graph.values)
    return replace(graph, values=values)


def can_resize(graph: Graph, shape: Shape) -> bool:
    """Whether no value of this shape is quantized groupwise: group sizes depend on sizes."""
    return all(v.quant is None or v.quant.group is None for v in graph.values if v.shape == shape)


def _resized(value: Value, axis: int, size: int) -> Value:
    shape = (*value.shape[:axis], size, *value.shape[axis + 1 :])
    quant = value.quant
    if quant is not None and quant.axis == axis and isinstance(quant.scale, tuple):
        scales = tuple(quant.scale[i % len(quant.scale)] for i in range(size))
        quant = replace(quant, scale=scales)
    fill = replace(value.fill, index=value.fill.index % max(1, count(shape)))
    return replace(value, shape=shape, quant=quant, fill=fill, dynamic=tuple(a for a in value.dynamic if a != axis))


def free_outputs(steps: Sequence[Step], outputs: Sequence[Ref]) -> list[Ref]:
    """The references that no step takes."""
    taken = {ref for step in steps for ref in references(step.args)}
    return [ref for ref in outputs if ref not in taken]
