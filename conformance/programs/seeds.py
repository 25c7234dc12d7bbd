"""The same cases with other random numbers, and programs that run on several: a right backend passes them all.

A backend compiles a program of which the inputs are open. They are filled when it has compiled.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from npu_assay.conformance.programs.graph import Case, Fill, Graph, Value
from npu_assay.conformance.programs.variation_names import OPENED, SIDE

APART = 1_000_003
"""The seeds of one case are letters summed up and small numbers: far less than this."""
FURTHER = 999_983
"""Seeds of further inputs of one program."""
OPEN = Fill("open")
Fills = tuple[Fill, ...]
Sizes = tuple[tuple[int, ...], ...]


def reseeded(case: Case, seed: int) -> Case:
    """The case with its random inputs and constants drawn anew; seed 0 is the case as it is.

    Values that shared their numbers still do. What is not random, such as ties and extremes, stays.
    """
    if seed == 0:
        return case
    values = tuple(_reseeded(value, seed) for value in case.graph.values)
    return replace(case, graph=replace(case.graph, values=values))


def _reseeded(value: Value, seed: int) -> Value:
    if value.fill.kind != "random":
        return value
    return replace(value, fill=replace(value.fill, seed=value.fill.seed + APART * seed))


def redrawn(graph: Graph, number: int) -> Graph:
    """The program with other inputs, its constants as they are; number 0 is the program as it is.

    Codes are drawn at random whatever they were. Other inputs are drawn anew where they are random: indices and
    special numbers stay.
    """
    if number == 0:
        return graph
    return replace(graph, values=tuple(v if v.constant else _redrawn(v, number) for v in graph.values))


def _redrawn(value: Value, number: int) -> Value:
    fill = value.fill
    if fill.kind != "random" and value.quant is None:
        return value
    return replace(value, fill=Fill(seed=fill.seed + FURTHER * number))


def opened(graph: Graph) -> Graph:
    """The program without the numbers of its inputs."""
    return filled(graph, (OPEN,) * len(fills(graph)))


def fills(graph: Graph) -> Fills:
    """How the numbers of a program's inputs are made, in order."""
    return tuple(value.fill for value in graph.inputs)


def sizes(graph: Graph) -> Sizes:
    """The shapes of a program's inputs, in order."""
    return tuple(value.shape for value in graph.inputs)


def filled(graph: Graph, fills: Fills, sizes: Sizes | None = None) -> Graph:
    """The program with these numbers and sizes in its inputs. Raises ValueError for another count than it has."""
    shapes = [value.shape for value in graph.inputs] if sizes is None else sizes
    given = {v.name: replace(v, fill=f, shape=s) for v, f, s in zip(graph.inputs, fills, shapes, strict=True)}
    return replace(graph, values=tuple(given.get(value.name, value) for value in graph.values))


def stretched(graph: Graph, by: int) -> Graph:
    """The program with so much added to every size above 1 that is dynamic."""
    values = (replace(v, shape=tuple(_stretched(v, axis, by) for axis in range(len(v.shape)))) for v in graph.values)
    return replace(graph, values=tuple(values))


def _stretched(value: Value, axis: int, by: int) -> int:
    size = value.shape[axis]
    return size + by if axis in value.dynamic and size > 1 else size


ONE_IN = 8


def is_first(name: str, side: str) -> bool:
    """Whether the case of this id is the first one of its row (and precision).

    Its blobs also run where nothing was compiled, and its program takes turns with another one of the row.
    """
    return side == "accept" and name.endswith("/baseline")


def runs_once(name: str, side: str) -> bool:
    """Whether the program of this id is tagged, compiled and run once: a variation that is not about sizes to come."""
    return side == SIDE and f"/{SIDE}/{OPENED}." not in name


def is_thorough(name: str, side: str) -> bool:
    """Whether further inputs also run on the program as it is loaded anew, which costs two loads.

    That is the first case of a row, and of others one in `ONE_IN`, but of variations: the digest of its id says which.
    """
    return is_first(name, side) or (side != SIDE and hashlib.sha256(name.encode()).digest()[0] % ONE_IN == 0)
