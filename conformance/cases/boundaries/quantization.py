"""Knobs of scales and codes, of operands that are numbers, of arguments left out, and of what stands after.

The search for cases of the shipped tables turns them as well as those of `knobs`: the suite's own codes ask about them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.boundaries.arguments import Argument, taken_arguments
from npu_assay.conformance.cases.boundaries.knob import Knob, operands, subject, with_subject
from npu_assay.conformance.cases.boundaries.ranks import of_rank
from npu_assay.conformance.cases.boundaries.types import CODES, REALS
from npu_assay.conformance.cases.make import RELU, SUBJECT, Q, f32, spread
from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step, Value, references

FACTORS = (2.0, 0.5, 1.25, 1.00002, 256.0, 2.0**-10)  # of scales
TINY = 2.0**-130  # a scale below the least normal float32
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "bool")
RANGES = {**CODES, "int32": (-(2**31), 2**31 - 1)}
ZERO_POINTS = (0, -128, 127, -129, 128, 255, 1, -1)
BEHIND = "behind"  # the name of an activation behind the subject
LEFT_OUT = {"divisor_override": (1, 2, 4, 9), "storage_offset": (0, 1), "start": (0, 1), "end": (1, 2), "dim": (0, 1)}
"""Arguments that may be left out, and what is tried where they are."""


def more_knobs(graph: Graph, scales: Sequence[float] = ()) -> Iterator[Knob]:
    """Knobs that few predicates of other people need. scales: some that limits tell."""
    for value in operands(graph):
        yield from _of_value(graph, value, scales)
    yield from _of_steps(graph)
    yield from _of_result(graph, scales)
    yield from of_arguments(graph)


def _of_steps(graph: Graph) -> Iterator[Knob]:
    """Operands that something in front makes: whether they have codes, and how many dimensions more than eight."""
    names = {ref.name for ref in references(subject(graph).args)}
    for step in graph.steps:
        if step.name in names and step.quant is not None:
            yield Knob(f"{step.name}_quantized", True, (False,), partial(_step_real, step.name))
    first = next(operands(graph), None)
    if first is not None and not first.dynamic:
        yield Knob(f"{first.name}_high_rank", len(first.shape), (9,), partial(of_rank, (first.name,), 1))


def _of_value(graph: Graph, value: Value, scales: Sequence[float]) -> Iterator[Knob]:
    name, quant = value.name, value.quant
    turn = partial(_with_value, name)
    yield Knob(f"{name}_quantized", quant is not None, (quant is None,), partial(turn, _quantized))
    if quant is None:
        kinds = tuple(kind for kind in (*REALS, *INTEGERS) if kind != value.dtype)
        yield Knob(f"{name}_type", value.dtype, kinds, partial(turn, _typed))
    else:
        yield from _of_quant(name, quant, partial(turn, _requantized), len(value.shape), scales)
    if not value.constant:
        for axis, size in enumerate(value.shape):
            if size > 1 and axis not in value.dynamic:
                yield Knob(f"{name}_open_{axis}", (), ((axis,),), partial(turn, _opened))
    for axis, size in enumerate(value.shape):
        yield Knob(f"{name}_empty_{axis}", size, (0,), partial(turn, partial(_sized, axis)))
    taken, first = references(subject(graph).args), next(operands(graph))
    if value.constant and value.name != first.name and math.prod(value.shape) == 1 < math.prod(first.shape):
        yield Knob(f"{name}_spread", value.shape, (first.shape,), partial(turn, _shaped))
    if Ref(name) in taken[1:]:
        yield Knob(f"{name}_number", None, (1.0, 2.0, 0.0, 2), partial(_as_number, name))


def _of_quant(name: str, quant: Quant, turn: Any, rank: int, scales: Sequence[float]) -> Iterator[Knob]:
    """What can be changed of scales and codes; `turn(change)` takes the quantization, and the place."""
    scale = max(quant.scale) if isinstance(quant.scale, tuple) else quant.scale
    places = tuple(f32(scale * factor) for factor in FACTORS)
    places = (*places, TINY, *(f32(each) for each in scales if each > 0))
    yield Knob(f"{name}_scale", scale, places, partial(turn, _scaled))
    yield Knob(f"{name}_zero_point", quant.zero_point, ZERO_POINTS, partial(turn, _shifted))
    kinds = tuple(kind for kind in RANGES if kind != quant.dtype)
    yield Knob(f"{name}_code", quant.dtype, kinds, partial(turn, _coded))
    if quant.group is None:
        axes = tuple(axis for axis in (None, *range(rank)) if axis != quant.axis)
        yield Knob(f"{name}_scale_axis", quant.axis, axes, partial(turn, "axis"))


def _of_result(graph: Graph, scales: Sequence[float]) -> Iterator[Knob]:
    step = subject(graph)
    yield Knob("out_returned", False, (True,), _returned)
    if step.quant is None:
        if any(value.quant is not None for value in graph.values) or not _following(graph):
            yield Knob("out_quantized", False, (True,), _with_result_codes)
        return
    yield Knob("out_quantized", True, (False,), _with_result_codes)
    yield from _of_quant("out", step.quant, _requantized_result, 0, scales)  # its sizes are not known here
    if not _following(graph):
        names = (RELU, "aten.tanh.default", "aten.neg.default")
        yield Knob("out_behind", None, names, _followed)


def of_arguments(graph: Graph) -> Iterator[Knob]:
    """Arguments that may be left out."""
    for argument in taken_arguments(graph):
        at = argument.get(graph)
        if argument.default is None and at is not None:
            yield Knob(f"{argument.name}_given", True, (False,), partial(_left_out, argument))
        elif at is None and argument.name in LEFT_OUT:
            yield Knob(argument.name, None, LEFT_OUT[argument.name], argument.put)
        elif argument.name == "output_size" and isinstance(at, tuple) and len(at) == 2:
            size = next(operands(graph)).shape[-2]
            places = tuple(size * n + more for n in (1, 2, 3, 4, 8, 256) for more in (1, 0, 2, -1))
            yield Knob("square_output_size", at, places, partial(_square, argument))
        elif isinstance(at, tuple) and at and all(type(item) is float for item in at):
            yield from _reals(argument, at)
        elif argument.name == "mode" and isinstance(at, str):
            modes = tuple(place for place in ("constant", "reflect", "replicate", "circular") if place != at)
            yield Knob("mode", at, modes, argument.put)


def _reals(argument: Argument, at: tuple[float, ...]) -> Iterator[Knob]:
    """Each real number of a list, and all of them at once."""
    factors = (1.125, 1.25, 1.5, 2.0, 0.5, 4.0, 256.0)
    for index, number in enumerate(at):
        yield Knob(
            f"{argument.name}_{index}", number, tuple(number * f for f in factors), partial(_put_real, argument, index)
        )
    if len(set(at)) == 1:
        yield Knob(argument.name, at[0], tuple(at[0] * f for f in factors), argument.put_all)


def _put_real(argument: Argument, index: int, graph: Graph, number: float) -> Graph | None:
    listed = argument.get(graph)
    if not isinstance(listed, tuple) or index >= len(listed):
        return None
    return argument.put(graph, (*listed[:index], number, *listed[index + 1 :]))


# ------------------------------------------------------------------------------------ turns


def _step_real(name: str, graph: Graph, _: bool) -> Graph:
    """The result of a step without codes."""
    return replace(graph, steps=tuple(replace(s, quant=None) if s.name == name else s for s in graph.steps))


def _square(argument: Argument, graph: Graph, number: int) -> Graph | None:
    """An image as high as it is wide, and all numbers of a list the same."""
    first, listed = next(operands(graph)), argument.get(graph)
    if len(first.shape) != 4 or not isinstance(listed, tuple):
        return None
    square = (*first.shape[:3], first.shape[2])
    values = tuple(replace(v, shape=square) if v.name == first.name else v for v in graph.values)
    return argument.put(replace(graph, values=values), (number,) * len(listed))


def _with_value(name: str, change: Any, *rest: Any) -> Graph | None:
    """The model with one value changed; `rest` are what a change of a quantization is, the graph and the place."""
    *inner, given, place = rest
    graph: Graph = given
    values = list[Value]()
    for value in graph.values:
        changed = change(value, *inner, place) if value.name == name else value
        if changed is None:
            return None
        values.append(changed)
    return replace(graph, values=tuple(values))


def _quantized(value: Value, wanted: bool) -> Value:
    return replace(value, quant=Q if wanted else None, dtype="float32")


def _typed(value: Value, kind: str) -> Value:
    return replace(value, dtype=kind)


def _opened(value: Value, axes: tuple[int, ...]) -> Value:
    return replace(value, dynamic=(*value.dynamic, *axes))


def _shaped(value: Value, shape: tuple[int, ...]) -> Value:
    return replace(value, shape=shape)


def _sized(axis: int, value: Value, size: int) -> Value:
    return replace(value, shape=(*value.shape[:axis], size, *value.shape[axis + 1 :]))


def _requantized(value: Value, change: Any, place: Any) -> Value | None:
    if value.quant is None:
        return None
    if change == "axis":
        quant = _spread(value.quant, value.shape, place)
        return None if quant is None else replace(value, quant=quant)
    return replace(value, quant=change(value.quant, place))


def _requantized_result(change: Any, graph: Graph, place: Any) -> Graph | None:
    step = subject(graph)
    if step.quant is None:
        return None
    quant = _spread(step.quant, (), place) if change == "axis" else change(step.quant, place)
    return None if quant is None else with_subject(graph, replace(step, quant=quant))


def _scaled(quant: Quant, scale: float) -> Quant:
    """Scales of channels keep their ratios."""
    if not isinstance(quant.scale, tuple):
        return replace(quant, scale=scale)
    most = max(quant.scale)
    return replace(quant, scale=tuple(f32(each / most * scale) for each in quant.scale))


def _shifted(quant: Quant, zero_point: int) -> Quant:
    return replace(quant, zero_point=zero_point)


def _coded(quant: Quant, dtype: str) -> Quant:
    """Codes of another type; zero points stay as far from the lowest code as they were, int16 and int32 have 0."""
    low, high = RANGES[dtype]
    before = RANGES.get(quant.dtype, RANGES["int8"])[0]
    zero = 0 if dtype in ("int16", "int32") or quant.dtype in ("int16", "int32") else quant.zero_point - before + low
    return replace(quant, dtype=dtype, qmin=low, qmax=high, zero_point=zero)


def _spread(quant: Quant, shape: tuple[int, ...], axis: int | None) -> Quant | None:
    """One scale for all, or one for each channel of an axis."""
    most = max(quant.scale) if isinstance(quant.scale, tuple) else quant.scale
    if axis is None:
        return replace(quant, scale=most, axis=None)
    if axis >= len(shape):
        return None
    return replace(quant, scale=spread(most, shape[axis]), axis=axis)


def _as_number(name: str, graph: Graph, number: float) -> Graph:
    """A number in the place of an operand."""
    step = subject(graph)
    args = tuple(number if isinstance(item, Ref) and item.name == name else item for item in step.args)
    return pruned(with_subject(graph, replace(step, args=args)))


def _left_out(argument: Argument, graph: Graph, _: bool) -> Graph:
    return pruned(argument.put(graph, None))


def pruned(graph: Graph) -> Graph:
    """The model without values that nothing takes."""
    taken = {ref.name for step in graph.steps for ref in (*references(step.args), *_named(step))}
    kept = taken | {ref.name for ref in graph.outputs}
    return replace(graph, values=tuple(value for value in graph.values if value.name in kept))


def _named(step: Step) -> tuple[Ref, ...]:
    return tuple(ref for _, item in step.kwargs for ref in references(item))


def _following(graph: Graph) -> bool:
    return any(ref.name == SUBJECT for step in graph.steps for ref in (*references(step.args), *_named(step)))


def _returned(graph: Graph, _: bool) -> Graph | None:
    """The subject's result is one of the model's, too."""
    return None if Ref(SUBJECT) in graph.outputs else replace(graph, outputs=(*graph.outputs, Ref(SUBJECT)))


def _with_result_codes(graph: Graph, wanted: bool) -> Graph:
    step = subject(graph)
    quant = next((value.quant for value in graph.values if value.quant is not None and not value.constant), Q)
    return with_subject(graph, replace(step, quant=quant if wanted else None))


def _followed(graph: Graph, op: str) -> Graph:
    """An activation between the subject and its quantization."""
    step = subject(graph)
    behind = Step(BEHIND, op, (Ref(SUBJECT),), quant=step.quant)
    outputs = tuple(Ref(BEHIND) if ref == Ref(SUBJECT) else ref for ref in graph.outputs)
    inner = with_subject(graph, replace(step, quant=None))
    return replace(inner, steps=(*inner.steps, behind), outputs=outputs)
