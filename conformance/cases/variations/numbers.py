"""Other numbers in each operand: ends of the range, infinities, zeros of both signs, one sign, uneven magnitudes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from npu_assay.conformance.cases.variations.base import Base, Variation
from npu_assay.conformance.programs.graph import Fill, Value

KINDS = ("min", "max", "alternating", "zero")
SPECIAL = {
    "infinite": (math.inf, 0.5, -math.inf, -0.75),
    "nan": (0.5, math.nan, -0.75),
    "zeros": (-0.0, 0.0, -0.0, 1.5, -2.5),
    "subnormal": (2.0**-149, -(2.0**-127), 1.5),
    "negative": (-1.5, -0.25, -3.0),
    "halves": (0.5, 1.5, -0.5, -1.5, 2.5, -2.5),
    "uneven": (2.0**24, 1.0, -(2.0**24), 0.5, 1e-3, -1.0, 3e5),
}


def extremes(base: Base) -> Iterator[Variation]:
    """The lowest and highest codes, both in turn and the zero point alone, in each operand and in all."""
    for value in base.values[::-1]:
        if value.quant is not None:
            for kind in KINDS:
                yield f"{value.name}_{kind}", base.with_values({value.name: {"fill": Fill(kind)}})
            if places := math.prod(value.shape):
                last = {"fill": Fill("one_hot", index=places - 1)}
                yield f"{value.name}_last_alone", base.with_values({value.name: last})
    for kind in KINDS:
        coded = {v.name: {"fill": Fill(kind)} for v in base.values if v.quant is not None}
        if len(coded) > 1:
            yield f"all_{kind}", base.with_values(coded)


def special_numbers(base: Base) -> Iterator[Variation]:
    """Reals of each kind in each operand that has any, and in all; before a quantize node they saturate."""
    for label, numbers in SPECIAL.items():
        for value in base.values[::-1]:
            if (fill := _filled(value, numbers)) is not None:
                yield f"{value.name}_{label}", base.with_values({value.name: {"fill": fill}})
        fills = {v.name: {"fill": fill} for v in base.values if (fill := _filled(v, numbers)) is not None}
        if len(fills) > 1:
            yield f"all_{label}", base.with_values(fills)


def _filled(value: Value, numbers: tuple[float, ...]) -> Fill | None:
    if value.quant is None:
        return Fill("list", values=numbers) if value.dtype.startswith("float") else None
    if value.constant or value.quant.axis is not None or any(map(math.isnan, numbers)):
        return None
    return Fill("reals", values=numbers)
