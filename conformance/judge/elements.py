"""The elements of a failing output that are furthest off, beside what they must be and the inputs that tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from npu_assay.conformance.judge.gates import Output, element, place
from npu_assay.conformance.judge.influence import Influence, number_at
from npu_assay.conformance.judge.numerics import Golden, beside
from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.record.results import Element, Number, rounded

MOST = 6
"""Elements of a case that are recorded: enough to see a pattern, and less than a kilobyte."""
DIGITS = 9
"""Significant digits that tell every float32 from its neighbors."""


def furthest(golden: Golden, outputs: Sequence[Tensor], scheme: str | None, delegated: bool) -> tuple[Element, ...]:
    """The elements that are furthest off, output by output; the outputs must be well formed.

    They are sorted by the distance of gate 1, then by that of gate 3 over its bound. Arguments: see `numerics.judge`.
    """
    judged = enumerate(beside(golden, outputs, scheme, delegated))
    found = [(number, output, at) for number, output in judged for at in _ranked(output)]
    if not found:
        return ()
    influence = Influence(golden.graph)
    return tuple(_element(golden.graph, influence, *each) for each in found[:MOST])


def _ranked(output: Output) -> list[int]:
    """Flat indices of the elements that are off, the furthest first; equal ones in the order of the output."""
    off, distance = _off(output).flatten(), output.distance.flatten()
    ratio = (distance / output.bounded.error.expand_as(output.distance).flatten()).nan_to_num(0.0)
    order = torch.argsort(ratio, descending=True, stable=True)
    order = order[torch.argsort(off[order], descending=True, stable=True)]
    return [int(at) for at in order[:MOST] if off[at] > 0 or distance[at] > 0]


def _off(output: Output) -> Tensor:
    """The distance that gate 1 measures; 0 where it compares nothing."""
    if output.codes is not None:
        return (output.codes.actual - output.codes.expected).abs()
    if output.exact is None:
        return torch.zeros_like(output.real)
    return (output.real - output.exact).abs().nan_to_num(0.0)


def _element(graph: Graph, influence: Influence, number: int, output: Output, at: int) -> Element:
    shape = output.real.shape
    index = place(output.real, at)
    found, expected, allowed = _compared(output, at)
    return Element(
        output.name,
        index,
        found,
        expected,
        allowed,
        rounded(element(output.real, at)),
        rounded(element(output.bounded.value, at)),
        rounded(element(output.bounded.error.expand(shape), at)),
        dict(influence.on(number, index)) or dict(_here(graph, index, shape)),
    )


def _compared(output: Output, at: int) -> tuple[Number, Number, Number]:
    """What was found, expected and allowed by gate 1: codes, or reals to the last bit, or None."""
    codes = output.codes
    if codes is not None:
        allowed = rounded(element(codes.allowed.expand_as(codes.actual), at))
        return int(element(codes.actual, at)), int(element(codes.expected, at)), allowed
    if output.exact is None:
        return None, None, None
    return float(f"{element(output.real, at):.{DIGITS}g}"), float(f"{element(output.exact, at):.{DIGITS}g}"), 0


def _here(graph: Graph, index: Sequence[int], shape: Sequence[int]) -> Iterator[tuple[str, Number]]:
    """Without a gradient: the values of the output's rank whose shape broadcasts to it, each with its number there."""
    for value in graph.values:
        sizes = value.shape
        if len(sizes) == len(shape) and all(n in (1, whole) for n, whole in zip(sizes, shape, strict=True)):
            yield value.name, number_at(value, [min(at, n - 1) for at, n in zip(index, sizes, strict=True)])
