"""The same cases with other random numbers: a right backend passes them whatever was drawn."""

from __future__ import annotations

from dataclasses import replace

from npu_assay.conformance.graph import Case, Value

APART = 1_000_003
"""The seeds of one case are letters summed up and small numbers: far less than this."""


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
