"""Programs on the edge of a row's plain ones: extreme numbers as arguments, extreme scales, codes read with two scales.

No row says whether they are delegated. What is delegated must compile, run and be right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step, Value
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_TENSOR, edge_op, target_name

NUMBERS = (math.inf, -math.inf, math.nan, 3e38, -3e38, 1e-38, 1e-45, 0.0, 1e300)
FACTORS = (1e-6, 1e-3, 1e3, 1e6)
FAR = (1e-30, 1e-12, 1e12, 1e30)
"""Factors for all scales together, so that ratios stay."""
TINY = (1e-10, 1e-20, 1e-37)
Variant = tuple[str, Graph]


def with_scales(graph: Graph) -> Iterator[Variant]:
    """The scale of one value, of all, or of one channel, far from what it was; that of a bias follows or does not."""
    yield from _with_scales(graph)
    yield from _with_tiny_channels(graph)


# ------------------------------------------------------------------------------------ arguments


def with_numbers(graph: Graph, subject: str) -> Iterator[Variant]:
    """Each real number among the subject's arguments, given or left out, as another one."""
    place = next(index for index, step in enumerate(graph.steps) if step.name == subject)
    for label, step in _steps(graph.steps[place]):
        yield label, replace(graph, steps=(*graph.steps[:place], step, *graph.steps[place + 1 :]))


def _steps(step: Step) -> Iterator[tuple[str, Step]]:
    for position, parameter in enumerate(_parameters(step.op)):
        given = step.args[position] if position < len(step.args) else None
        if _is_real(parameter, given):
            yield from ((f"{parameter.name}_{n}", _given(step, position, parameter.name, n)) for n in NUMBERS)
        elif isinstance(given, tuple) and any(isinstance(one, float) for one in given):
            for index in range(len(given)):
                changed = ((*given[:index], n, *given[index + 1 :]) for n in NUMBERS)
                yield from ((f"{parameter.name}_{c}", _given(step, position, parameter.name, c)) for c in changed)


def _parameters(op: str) -> Any:
    try:
        overload: Any = edge_op(op)._op
        return overload._schema.arguments
    except (AttributeError, KeyError, ValueError):
        return ()


def _is_real(parameter: Any, given: Any) -> bool:
    """A number that may be real, or one in the place of a tensor."""
    if isinstance(given, bool) or not (given is None or isinstance(given, (int, float))):
        return False
    kind = str(parameter.type)
    return "List" not in kind and ("number" in kind or "float" in kind or ("Tensor" in kind and given is not None))


def _given(step: Step, position: int, name: str, number: Any) -> Step:
    if position <= len(step.args) and not _parameters(step.op)[position].kwarg_only:
        return replace(step, args=(*step.args[:position], number, *step.args[position + 1 :]))
    return replace(step, kwargs=tuple({**dict(step.kwargs), name: number}.items()))


# ------------------------------------------------------------------------------------ scales


def _with_scales(graph: Graph) -> Iterator[Variant]:
    parts: list[Value | Step] = [*graph.values, *graph.steps]
    names = [part.name for part in parts if part.quant is not None and not _is_bias(part)]
    for factor in FACTORS:
        for name in names:
            changed = _changed(graph, lambda part: part.name == name, factor)  # noqa: B023
            yield f"{name}_times_{factor:g}", changed
            yield f"{name}_and_bias_times_{factor:g}", _changed(changed, _is_bias, factor)
    for factor in (*FACTORS, *FAR):
        yield (
            f"all_times_{factor:g}",
            _changed(graph, lambda p: _is_bias(p) or not getattr(p, "constant", False), factor),
        )


def _is_bias(part: Value | Step) -> bool:
    return part.quant is not None and part.quant.dtype == "int32"


def _is_no_weight(part: Value | Step) -> bool:
    return _is_bias(part) or isinstance(part, Step) or not part.constant


def _changed(graph: Graph, wanted: Callable[[Value | Step], bool], factor: float) -> Graph:
    """The program with the scales of some values times a factor."""
    return _requantized(graph, lambda part, quant: _times(quant, factor) if wanted(part) else quant)


def _requantized(graph: Graph, change: Callable[[Any, Quant], Quant]) -> Graph:
    def new(part: Any) -> Any:
        return part if part.quant is None else replace(part, quant=change(part, part.quant))

    return replace(graph, values=tuple(map(new, graph.values)), steps=tuple(map(new, graph.steps)))


def _times(quant: Quant, factor: float) -> Quant:
    scale = quant.scale
    return replace(quant, scale=tuple(s * factor for s in scale) if isinstance(scale, tuple) else scale * factor)


def _with_tiny_channels(graph: Graph) -> Iterator[Variant]:
    """One channel's scale of a constant, the first and the last; that of the bias follows or does not."""
    for value in graph.values:
        if value.quant is None or not isinstance(value.quant.scale, tuple) or _is_bias(value):
            continue
        for place in (0, len(value.quant.scale) - 1):
            for tiny in TINY:
                ratio = tiny / value.quant.scale[place]
                alone = _with_channel(graph, lambda part: part.name == value.name, place, ratio)  # noqa: B023
                yield f"{value.name}_{place}_{tiny:g}", alone
                yield f"{value.name}_and_bias_{place}_{tiny:g}", _with_channel(alone, _is_bias, place, ratio)


def _with_channel(graph: Graph, wanted: Callable[[Any], bool], place: int, ratio: float) -> Graph:
    def change(part: Any, quant: Quant) -> Quant:
        scale = quant.scale
        if not (wanted(part) and isinstance(scale, tuple) and place < len(scale)):
            return quant
        return replace(quant, scale=(*scale[:place], scale[place] * ratio, *scale[place + 1 :]))

    return _requantized(graph, change)


# ------------------------------------------------------------------------------------ readers


def applied_twice(graph: Graph, subject: str) -> Graph:
    """The program with a second application of its subject to the same operands."""
    step = next(step for step in graph.steps if step.name == subject)
    again = replace(step, name=f"{subject}_again")
    return replace(graph, steps=(*graph.steps, again), outputs=(*graph.outputs, Ref(again.name)))


def read_with_two_scales(program: ExportedProgram) -> bool:
    """Double the scale of all but the first dequantize node of the same codes; False if there are none."""
    later = [reader for node in program.graph.nodes for reader in list(filter(_dequantizes, node.users))[1:]]
    for reader in later:
        codes, scale, *rest = reader.args
        reader.args = (codes, scale * 2, *rest)
    return bool(later)


def _dequantizes(node: fx.Node) -> bool:
    return node.op == "call_function" and target_name(node.target) == DEQUANTIZE_PER_TENSOR
