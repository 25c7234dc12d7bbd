"""Knobs of dtypes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from npu_assay.conformance.cases.boundaries.knob import Knob, operands
from npu_assay.conformance.programs.graph import Graph, Quant

CODES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"int8": (-128, 127), "uint8": (0, 255), "int16": (-(2**15), 2**15 - 1)}
)
"""The types of codes, and their ranges."""
TYPES = ("dtype", "input_dtype", "output_dtype")
"""The names of the knobs."""
REALS = ("float32", "float16", "bfloat16", "float64")


def types(graph: Graph) -> Iterator[Knob]:
    """The dtype of everything that is not a constant: of codes that of inputs and that of results also alone."""
    first = next(operands(graph), None)
    if first is None or first.constant:
        return
    at = first.dtype if first.quant is None else first.quant.dtype
    if first.quant is None and at in REALS:
        yield Knob("dtype", at, tuple(name for name in REALS if name != at), partial(_of_reals, at))
    elif at in CODES:
        others = tuple(name for name in CODES if name != at)
        for name, inputs, results in (
            ("dtype", True, True),
            ("input_dtype", True, False),
            ("output_dtype", False, True),
        ):
            yield Knob(name, at, others, partial(_of_codes, at, inputs, results))


def _of_codes(at: str, inputs: bool, results: bool, graph: Graph, dtype: str) -> Graph | None:
    """Activations of these codes, with the same scales; zero points stay as far from the lowest code as they were.

    To int16 and from it they are 0.
    """
    low, high = CODES[dtype]

    def changed(quant: Quant | None) -> Quant | None:
        if quant is None or quant.dtype != at:
            return quant
        zero = 0 if "int16" in (dtype, at) else quant.zero_point - CODES[at][0] + low
        return replace(quant, dtype=dtype, qmin=low, qmax=high, zero_point=zero)

    values = tuple(replace(v, quant=changed(v.quant)) if inputs and not v.constant else v for v in graph.values)
    steps = tuple(replace(step, quant=changed(step.quant)) if results else step for step in graph.steps)
    return replace(graph, values=values, steps=steps)


def _of_reals(at: str, graph: Graph, dtype: str) -> Graph | None:
    return replace(graph, values=tuple(replace(v, dtype=dtype) if v.dtype == at else v for v in graph.values))
