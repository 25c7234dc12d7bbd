"""Other operands: sizes, types and quantizations of each, one in the place of another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

from npu_assay.conformance.cases.variations.base import Base, Variation, ends, in_turn, replaced
from npu_assay.conformance.programs.graph import Graph, Quant, Value, references, renamed

LARGE = 20_001
"""Numbers of a tensor past the blocks of most kernels."""
FACTORS = (1e-10, 1e-6, 1e-3, 1 + 2**-10, 3.0, 1e3, 1e6)
TYPES = ("float64", "float16", "bfloat16", "float32", "int64", "int32", "int16", "int8", "uint8", "bool")
CODES = {
    "symmetric": {"zero_point": 0, "qmin": -127},
    "lowest_zero_point": {"zero_point": -128},
    "highest_zero_point": {"zero_point": 127},
    "narrow": {"qmin": -20, "qmax": 20},
    "uint8": {"zero_point": 128, "qmin": 0, "qmax": 255, "dtype": "uint8"},
    "int16": {"zero_point": 0, "qmin": -32768, "qmax": 32767, "dtype": "int16"},
    "int16_symmetric": {"zero_point": 0, "qmin": -32767, "qmax": 32767, "dtype": "int16"},
    "int32": {"zero_point": 0, "qmin": -(2**31), "qmax": 2**31 - 1, "dtype": "int32"},
}


def sizes(base: Base) -> Iterator[Variation]:
    """The last, second and first dimension of each operand as another one, of it alone and of all that have it."""
    values = base.values[::-1]
    # Where there are scales of an axis, they say how many there are.
    slots = ((v, axis) for v in values for axis in ends(len(v.shape)) if v.quant is None or axis != v.quant.axis)
    return in_turn(*(_other_sizes(base, *slot) for slot in slots), *(_other_ranks(base, value) for value in values))


def _other_sizes(base: Base, value: Value, axis: int) -> Iterator[Variation]:
    size = value.shape[axis]
    for other in dict.fromkeys((1, size + 1, 2 * size, 0, max(1, size - 1), _large(value, axis))):
        alike = {v.name: {"shape": replaced(v.shape, axis, other)} for v in base.values if v.shape == value.shape}
        if len(alike) > 1:
            yield f"all_axis_{axis}_of_{other}", base.with_values(alike)
        yield f"{value.name}_axis_{axis}_of_{other}", base.with_values({value.name: alike[value.name]})


def _other_ranks(base: Base, value: Value) -> Iterator[Variation]:
    yield "all_deeper", base.with_values({v.name: {"shape": (1, *v.shape)} for v in base.values if not v.constant})
    shapes = {"deeper": (1, *value.shape), "flatter": value.shape[1:], "scalar": (), "last": value.shape[-1:]}
    for label, shape in shapes.items():
        yield f"{value.name}_{label}", base.with_values({value.name: {"shape": shape}})


def open_sizes(base: Base) -> Iterator[Variation]:
    """Sizes known only at run time: each dimension of each input, of all inputs that have it, and all dimensions."""
    inputs = [value for value in base.values[::-1] if not value.constant]
    for axis in range(max((len(value.shape) for value in inputs), default=0)):
        opened = {v.name: {"dynamic": (axis,)} for v in inputs if axis < len(v.shape) and v.shape[axis] > 1}
        if len(opened) > 1:
            yield f"all_axis_{axis}", base.with_values(opened)
        for name, changes in opened.items():
            yield f"{name}_axis_{axis}", base.with_values({name: changes})
    every = {v.name: {"dynamic": tuple(axis for axis, size in enumerate(v.shape) if size > 1)} for v in inputs}
    yield "all", base.with_values(every)


def _large(value: Value, axis: int) -> int:
    return LARGE // math.prod(max(size, 1) for size in replaced(value.shape, axis, 1)) + 1


def quantizations(base: Base) -> Iterator[Variation]:
    """The quantization of each operand and of the result: other scales, zero points, ranges and types."""
    values = (_other_quants(base, value.name, value.quant) for value in base.values[::-1] if value.quant is not None)
    return in_turn(_results(base), *values)


def _other_quants(base: Base, name: str, found: Quant) -> Iterator[Variation]:
    for label, quant in _quants(found):
        yield f"{name}_{label}", base.with_values({name: {"quant": quant}})


def _results(base: Base) -> Iterator[Variation]:
    result = base.step.quant
    if result is None:
        return
    for value in base.values:
        if value.quant is not None and value.quant.axis is None and value.quant.dtype == result.dtype:
            yield f"result_as_{value.name}_but_zero_point", base.with_step(quant=moved(value.quant))
            yield f"result_as_{value.name}", base.with_step(quant=value.quant)
    yield "result_real", base.with_step(quant=None)
    for label, quant in _quants(result):
        yield f"result_{label}", base.with_step(quant=quant)


def moved(quant: Quant) -> Quant:
    """A quantization with the zero point beside it."""
    return replace(quant, zero_point=quant.zero_point + (1 if quant.zero_point < quant.qmax else -1))


def _quants(quant: Quant) -> Iterator[tuple[str, Quant]]:
    scales = quant.scale
    if isinstance(scales, tuple):
        for place in ends(len(scales)):
            for factor in FACTORS:
                scaled = replaced(scales, place, scales[place] * factor)
                yield f"channel_{place}_times_{factor:g}", replace(quant, scale=scaled)
        yield "one_scale", replace(quant, scale=max(scales), axis=None, group=None)
        return
    for factor in FACTORS:
        yield f"times_{factor:g}", replace(quant, scale=scales * factor)
    if quant.dtype == "int32":
        return
    yield "zero_point_moved", moved(quant)
    for label, changes in CODES.items():
        made: Any = changes
        yield label, replace(quant, **made)


def types(base: Base) -> Iterator[Variation]:
    """Each operand that has no codes in each type, alone and with all others of its type; quantized ones as reals."""
    for value in base.values[::-1]:
        if value.quant is not None:
            yield f"{value.name}_real", base.with_values({value.name: {"quant": None}})
            continue
        for dtype in TYPES:
            if dtype != value.dtype:
                yield f"{value.name}_{dtype}", base.with_values({value.name: {"dtype": dtype}})
                alike = {v.name: {"dtype": dtype} for v in base.values if (v.dtype, v.quant) == (value.dtype, None)}
                if len(alike) > 1:
                    yield f"all_{dtype}", base.with_values(alike)
    for value in base.values[::-1]:
        kind = "input" if value.constant else "constant"
        yield f"{value.name}_{kind}", base.with_values({value.name: {"constant": not value.constant}})


def exchanged(base: Base) -> Iterator[Variation]:
    """One operand in the place of another, both in each other's, and all the same."""
    for one, other in combinations(base.operands, 2):
        if one.name == other.name:
            continue
        yield f"{one.name}_for_{other.name}", _renamed(base, {other.name: one.name})
        yield f"{other.name}_for_{one.name}", _renamed(base, {one.name: other.name})
        yield f"{one.name}_and_{other.name}", _renamed(base, {one.name: other.name, other.name: one.name})


def _renamed(base: Base, names: dict[str, str]) -> Graph:
    step = base.step
    graph = base.with_step(args=renamed(step.args, names), kwargs=renamed(step.kwargs, names))
    read = {ref.name for ref in references((tuple(each.args for each in graph.steps), graph.outputs))}
    return replace(graph, values=tuple(v for v in graph.values if v.name in read or not v.constant))
