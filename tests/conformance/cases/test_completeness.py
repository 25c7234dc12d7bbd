"""Every row has every context and value that it can have in some precision, and says why it lacks another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

import pytest

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.programs.graph import Graph, Value
from npu_assay.conformance.table import load_table

TABLES = ("neutron@1.3", "neutron@1.4", "xnnpack@1.5", "ethos_u55@1.5", "ethos_u85@1.5")
FLOATS = ("fp32", "fp16")
SHARED = ("constant_shared_with_add", "weights_shared_with_a_transposed_convolution", "bias_shared_with_a_linear_layer")
CONTEXTS: Mapping[str, tuple[str, ...]] = {
    "two scales": ("used_twice_at_two_scales",),
    "channels last": ("channels_last",),
    "shared constant": SHARED,
    "nan": ("nan",),
    "infinities": ("infinities",),
    "zeros": ("zeros_and_subnormals",),
    "constant nan": ("constants_nan",),
    "constant infinities": ("constants_infinities",),
    "constant zeros": ("constants_zeros_and_subnormals",),
    "saturating inputs": ("saturating_inputs",),
}


@dataclass
class Found:
    """What a row has in one precision: its plain program, and the names of its cases."""

    row: str
    precision: str
    plain: Graph
    names: set[str] = field(default_factory=set)

    @property
    def x(self) -> Value:
        return self.plain.values[0]

    @property
    def operator(self) -> str:
        return next(step.op for step in self.plain.steps if step.name == "subject")

    @property
    def results_have_a_scale(self) -> bool:
        return next(step.quant for step in self.plain.steps if step.name == "subject") is not None

    def constants(self) -> list[Value]:
        return [value for value in self.plain.values if value.constant and value.shape]


@cache
def found_in(table: str) -> tuple[Found, ...]:
    promised = {row.name for row in load_table(table).rows}
    cases = [case for case in cases_for(load_table(table)) if case.row in promised]
    rows: dict[tuple[str, str], Found] = {}
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    for case in cases:
        key = (case.row, case.precision or "")
        name = case.id.rpartition("/")[2]
        names[key].add(name)
        if name == "baseline":
            rows[key] = Found(case.row, case.precision or "", case.graph)
    for key, one in rows.items():
        one.names = names[key]
    return tuple(rows.values())


# ------------------------------------------------------------------------------------ reasons

MADE = ("arange", "eye", "full", "linspace", "scalar_tensor", "full_like")
DEFINED_IN_PART = ("acos", "acosh", "asin", "atanh", "erfinv", "log", "log10", "log1p", "reciprocal", "rsqrt")


def named(*names: str) -> Callable[[Found], bool]:
    return lambda one: one.operator.split(".")[1] in names


def quantised(one: Found) -> bool:
    return one.x.quant is not None


def float_constants(one: Found) -> bool:
    return one.precision in FLOATS and any(v.quant is None for v in one.constants())


Reasons = Mapping[str, Callable[[Found], bool]]

NO_SCALES: Reasons = {
    "its operand has no scale": lambda one: not quantised(one),
    "its result has no scale": lambda one: not one.results_have_a_scale,
    "its operand is a constant": lambda one: one.x.constant,
    "its result comes from no operand": named(*MADE),
}
NO_IMAGE: Reasons = {
    "its operand is no image": lambda one: len(one.x.shape) != 4,
    "it reads its operand as it lies": named("as_strided_copy", "view_copy"),
    "it holds integers or truths, whose layouts are those of codes": lambda one: one.precision == "integers",
    "its result comes from no operand": named(*MADE),
}
NO_CONSTANT: Reasons = {
    "it has no constant": lambda one: not one.constants(),
}
NOT_OF_FLOATS: Reasons = {
    "it has no row of floats: its operands are codes": lambda one: one.precision not in FLOATS,
    "its operand is codes": lambda one: one.x.dtype == "int8" or quantised(one),
}
UNDEFINED: Reasons = {"torch leaves open which code NaN becomes": named("quantize_per_tensor")}
NO_FLOAT_CONSTANT: Reasons = {"it has no constants of floats": lambda one: not float_constants(one)}
NOT_QUANTISED: Reasons = {
    "it has no quantized operand": lambda one: not quantised(one),
    "its operand is a constant": lambda one: one.x.constant,
    "it is defined on part of the reals, and saturated codes are not in it": named(*DEFINED_IN_PART, "sqrt"),
    "its operand is raised to a power, and must be above zero": lambda one: one.operator == "aten.pow.Tensor_Tensor",
}
REASONS: Mapping[str, Reasons] = {
    "two scales": NO_SCALES,
    "channels last": NO_IMAGE,
    "shared constant": NO_CONSTANT,
    "nan": {**NOT_OF_FLOATS, **UNDEFINED},
    "infinities": NOT_OF_FLOATS,
    "zeros": NOT_OF_FLOATS,
    "constant nan": NO_FLOAT_CONSTANT,
    "constant infinities": NO_FLOAT_CONSTANT,
    "constant zeros": NO_FLOAT_CONSTANT,
    "saturating inputs": NOT_QUANTISED,
}
FEWER = ("fp16", "int16", "int16_per_channel", "int8_per_channel", "static_int8", "static_int8_per_channel")
"""Precisions that differ from another one of the row in numbers only, and have fewer contexts for that."""


def has(one: Found, context: str) -> bool:
    return not one.names.isdisjoint(CONTEXTS[context])


def why_not(one: Found, context: str, row: list[Found]) -> str:
    """Why a row lacks a context in a precision; "" where nothing says so."""
    if one.precision in FEWER and any(has(other, context) for other in row):
        return "another precision of the row has it"
    return next((reason for reason, holds in REASONS[context].items() if holds(one)), "")


def rows_of(table: str) -> dict[str, list[Found]]:
    rows: dict[str, list[Found]] = defaultdict(list)
    for one in found_in(table):
        rows[one.row].append(one)
    return rows


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("table", TABLES)
def test_every_row_has_it_or_a_reason(table: str, context: str) -> None:
    rows = rows_of(table)
    assert set(rows) == {row.name for row in load_table(table).rows}
    silent = [
        (one.row, one.precision)
        for row in rows.values()
        for one in row
        if not has(one, context) and not why_not(one, context, row)
    ]
    assert silent == []


@pytest.mark.parametrize("context", CONTEXTS)
def test_every_reason_is_needed(context: str) -> None:
    """Each is the only one for some row of some table."""
    given = {
        why_not(one, context, row)
        for table in TABLES
        for row in rows_of(table).values()
        for one in row
        if not has(one, context)
    }
    assert set(REASONS[context]) <= given
