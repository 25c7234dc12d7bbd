"""Knobs of arguments that limits name: texts, real numbers, numbers that are left out, and lists of sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from npu_assay.conformance.cases.boundaries.arguments import Argument, taken_arguments
from npu_assay.conformance.cases.boundaries.knob import Knob, near, operands, subject, with_subject
from npu_assay.conformance.cases.boundaries.sizes import resized, shaped
from npu_assay.conformance.cases.make import SUBJECT, spread
from npu_assay.conformance.predicates.features import FILLED
from npu_assay.conformance.predicates.grammar import VALUE
from npu_assay.conformance.programs.graph import Graph, Ref

TEXTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "approximate": ("none", "tanh"),
        "mode": ("constant", "reflect", "replicate", "circular"),
        "reduce": ("sum", "prod", "mean", "amax", "amin"),
        "rounding_mode": ("floor", "trunc"),
    }
)
"""The texts that torch takes for an argument, which its schema does not list."""
LEFT_OUT: Mapping[str, tuple[float, ...]] = MappingProxyType({"correction": (1, 0, 2, 3)})
"""Numbers for an argument that is left out."""
NEAR = 2.0**-4  # of a limit's size, how far from it real numbers are tried; of 0 it is the distance


def named_arguments(graph: Graph, names: frozenset[str], reals: Sequence[float]) -> Iterator[Knob]:
    """names: the features of the row's limits. reals: the numbers in them."""
    if "group" in names:
        yield from _groups(graph)
    for argument in taken_arguments(graph):
        at, name = argument.get(graph), argument.name
        if name in names or (name == VALUE and FILLED in names):
            yield from _named(argument, at, graph, reals)
        if name == "size" and "view" in subject(graph).op and names & {"out", "size"}:
            yield Knob("viewed", None, tuple(VIEWS), partial(_viewed, argument))
        elif name == "scale_factors" and isinstance(at, tuple) and names & {"out", "scale_factors"}:
            yield from _factors(argument, at)


def _named(argument: Argument, at: Any, graph: Graph, reals: Sequence[float]) -> Iterator[Knob]:
    name = argument.name
    if isinstance(at, str) and name in TEXTS:
        yield Knob(name, at, tuple(text for text in TEXTS[name] if text != at), argument.put)
    elif type(at) is float:
        yield Knob(name, at, tuple(n for n in around(reals) if n != at), argument.put)
    elif at is None and name in LEFT_OUT:
        yield Knob(name, None, LEFT_OUT[name], argument.put)
    elif isinstance(at, tuple) and name in LISTS:
        yield from LISTS[name](argument, at, graph, [int(n) for n in reals])


def around(reals: Sequence[float]) -> tuple[float, ...]:
    """Each number, whole ones beside whole ones, and a little less and more."""
    whole = (n + more for n in reals for more in (0, -1, 1) if type(n) is int)
    steps = ((n, NEAR * (abs(n) or 1.0)) for n in reals)
    little = (n + sign * step for n, step in steps for sign in (0, -1, 1))
    return tuple(dict.fromkeys(map(float, (*whole, *little))))


def _grouped(name: str, graph: Graph, group: int) -> Graph | None:
    """Groups of this many neighbors, where the rows are whole groups."""
    value = next(each for each in graph.values if each.name == name)
    if value.quant is None or value.shape[-1] % group:
        return None
    largest = max(value.quant.scale) if isinstance(value.quant.scale, tuple) else value.quant.scale
    quant = replace(value.quant, group=group, scale=spread(largest, value.shape[0] * (value.shape[-1] // group)))
    return replace(graph, values=tuple(replace(v, quant=quant) if v.name == name else v for v in graph.values))


def _factors(argument: Argument, at: tuple[Any, ...]) -> Iterator[Knob]:
    places = (1.0, 1.5, 2.0, 3.0, 4.0, 1.25)
    for index, number in enumerate(at):
        yield Knob(
            f"scale_factors_{index}", number, tuple(p for p in places if p != number), partial(_item, argument, index)
        )


def _item(argument: Argument, index: int, graph: Graph, number: float) -> Graph:
    listed = argument.get(graph)
    return argument.put(graph, (*listed[:index], number, *listed[index + 1 :]))


def _groups(graph: Graph) -> Iterator[Knob]:
    for value in operands(graph):
        if value.quant is not None and value.quant.group is not None:
            places = tuple(n for n in (16, 64, 8, 32) if n != value.quant.group)
            yield Knob(f"{value.name}_group", value.quant.group, places, partial(_grouped, value.name))


# ------------------------------------------------------------------------------------ lists of sizes


def _normalized(argument: Argument, at: tuple[int, ...], graph: Graph, told: Sequence[int]) -> Iterator[Knob]:
    """How many of the last dimensions are normalized, and how large they are."""
    first = next(operands(graph))
    counts = tuple(n for n in range(1, len(first.shape)) if n != len(at))
    yield Knob("normalized_count", len(at), counts, partial(_normalized_count, argument))
    for index, size in enumerate(at):
        places = near(size, told, 1, 10)
        yield Knob(f"normalized_shape_{index}", size, places, partial(_normalized_size, argument, index), True)


def _normalized_count(argument: Argument, graph: Graph, count: int) -> Graph:
    first, *others = operands(graph)
    shape = first.shape[len(first.shape) - count :]
    names = {value.name for value in others}
    return argument.put(shaped(graph, names, shape), shape)


def _normalized_size(argument: Argument, index: int, graph: Graph, size: int) -> Graph | None:
    first, *others = operands(graph)
    at = argument.get(graph)
    if index >= len(at):
        return None
    slots = [(first.name, len(first.shape) - len(at) + index), *((value.name, index) for value in others)]
    return argument.put(resized(slots, graph, size), (*at[:index], size, *at[index + 1 :]))


def _pieces(argument: Argument, at: tuple[int, ...], graph: Graph, told: Sequence[int]) -> Iterator[Knob]:
    """How many pieces something is split into, and how large each is; it is as large as all of them."""
    yield Knob(
        "split_sizes_count", len(at), tuple(n for n in near(len(at), told, 1, 3) if n <= 8), partial(_cut, argument)
    )
    for index, size in enumerate(at):
        yield Knob(f"split_sizes_{index}", size, near(size, told, 1, 8), partial(_piece, argument, index), True)


def _cut(argument: Argument, graph: Graph, count: int) -> Graph:
    return _split(argument, graph, (*argument.get(graph), *(1,) * count)[:count])


def _piece(argument: Argument, index: int, graph: Graph, size: int) -> Graph | None:
    at = argument.get(graph)
    return _split(argument, graph, (*at[:index], size, *at[index + 1 :])) if index < len(at) else None


def _split(argument: Argument, graph: Graph, pieces: tuple[int, ...]) -> Graph:
    dims = {each.name: each.get(graph) for each in taken_arguments(graph)}
    first = next(operands(graph))
    grown = argument.put(resized([(first.name, dims["dim"] % len(first.shape))], graph, sum(pieces)), pieces)
    others = tuple(ref for ref in graph.outputs if ref.name != SUBJECT)
    made = tuple(Ref(SUBJECT, index) for index in range(len(pieces)))
    step = replace(subject(grown), outputs=len(pieces))
    return replace(with_subject(grown, step), outputs=(*made, *others))


def _pads(argument: Argument, at: tuple[int, ...], graph: Graph, told: Sequence[int]) -> Iterator[Knob]:
    """How many ends are padded: two more, or two less."""
    counts = tuple(n for n in (len(at) - 2, len(at) + 2) if n >= 0)
    yield Knob("pad_count", len(at), counts, partial(_padded, argument))


def _padded(argument: Argument, graph: Graph, count: int) -> Graph:
    return argument.put(graph, (*argument.get(graph), 1, 1)[:count])


LISTS: Mapping[str, Callable[[Argument, tuple[int, ...], Graph, Sequence[int]], Iterator[Knob]]] = MappingProxyType(
    {"normalized_shape": _normalized, "pad": _pads, "split_sizes": _pieces}
)
"""Knobs of lists of which other sizes, or pairs, are a part."""
VIEWS: Mapping[str, Any] = MappingProxyType(
    {
        "same": lambda shape: shape,
        "rows": lambda shape: (-1, shape[-1]),
        "images": lambda shape: (shape[0], -1),
        "more": lambda shape: (1, *shape),
        "deeper": lambda shape: (1, 1, *shape),
        "columns": lambda shape: (*shape[:-2], shape[-1], shape[-2]),
        "flat": lambda shape: (math.prod(shape),),
    }
)
"""Sizes that something can be seen with, from its own."""


def _viewed(argument: Argument, graph: Graph, how: str) -> Graph | None:
    shape = next(operands(graph)).shape
    return argument.put(graph, VIEWS[how](shape)) if len(shape) > 1 else None
