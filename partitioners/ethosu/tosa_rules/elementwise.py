"""Operators whose result has one element per element: arithmetic, logic, comparisons, tables, rescales, casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from npu_assay.partitioners.ethosu.tosa_model import NUMPY_TYPES
from npu_assay.partitioners.ethosu.tosa_rules.use import DATA, INTEGERS, Result, Use

CASTS: Final = {
    "BOOL": ("INT8", "INT16", "INT32"),
    "INT8": ("BOOL", "INT16", "INT32"),
    "INT16": ("BOOL", "INT8", "INT32"),
    "INT32": ("BOOL", "INT8", "INT16"),
}
SHIFTS: Final = (2, 62)
"""The shifts that RESCALE has."""

Rule = Callable[[Use, str], Result]
"""From an operator and the type that the graph gives its result: the result that it must have."""


def of_types(*allowed: str) -> Rule:
    """Any number of operands of one type, broadcast; the result has their type."""
    return lambda use, _: (use.types(*allowed), use.broadcast(use.tensors))


def comparison(use: Use, _: str) -> Result:
    use.types("INT32")
    return "BOOL", use.broadcast(use.tensors)


def multiply(use: Use, _: str) -> Result:
    dtype, factors = use.same_type(use.tensors[:2], INTEGERS), use.tensors[:2]
    shift = int(use.constant(2, "INT8", (1,)).item())
    use.within("shift", shift, 0, 63 if dtype == "INT32" else 0)
    return "INT32", use.broadcast(factors)


def negate(use: Use, _: str) -> Result:
    dtype = use.same_type(use.tensors[:1], INTEGERS)
    use.zero_point(1, dtype)
    use.zero_point(2, dtype)
    return dtype, use.x.shape


def clamp(use: Use, _: str) -> Result:
    dtype = use.types("INT8", "INT16")
    low, high, limits = use.attribute("min_val"), use.attribute("max_val"), np.iinfo(NUMPY_TYPES[dtype])
    use.require(limits.min <= low <= high <= limits.max, "limits", [low, high], f"ascending, of {dtype}")
    return dtype, use.x.shape


def table(use: Use, _: str) -> Result:
    dtype = use.same_type(use.tensors[:1], ("INT8", "INT16"))
    use.constant(1, dtype, (256,) if dtype == "INT8" else (513,))
    return ("INT8" if dtype == "INT8" else "INT32"), use.x.shape


def select(use: Use, _: str) -> Result:
    condition, *values = use.tensors
    use.require(condition.dtype == "BOOL", "type of the condition", condition.dtype, "BOOL")
    return use.same_type(values, DATA), use.broadcast(use.tensors)


def cast(use: Use, target: str) -> Result:
    source = use.same_type(use.tensors, DATA)
    use.require(target in CASTS[source], f"type from {source}", target, f"one of {list(CASTS[source])}")
    return target, use.x.shape


def rescale(use: Use, target: str) -> Result:
    """Also the ranges in which TOSA defines the constants: multipliers not negative, shifts from 2 to 62."""
    source = use.same_type(use.tensors[:1], (*INTEGERS, "INT48"))
    use.require(target in INTEGERS, "type of the result", target, f"one of {list(INTEGERS)}")
    scale32 = use.attribute("scale32")
    use.require(not (scale32 and source == "INT48"), "scale32", scale32, "false for INT48")
    use.require(
        use.attribute("rounding_mode") == "SINGLE_ROUND",
        "rounding_mode",
        use.attribute("rounding_mode"),
        "SINGLE_ROUND",
    )
    _factors(use, scale32)
    _unsigned(use, source, target)
    return target, use.x.shape


def _factors(use: Use, scale32: bool) -> None:
    """One multiplier and shift, or one per index of the last axis."""
    per_channel = use.attribute("per_channel")
    use.require(not per_channel or bool(use.x.shape), "rank", 0, "an axis to have multipliers for")
    count = use.x.shape[-1] if per_channel else 1
    multipliers, shifts = use.constant(1, "INT32" if scale32 else "INT16", (count,)), use.constant(2, "INT8", (count,))
    use.require(int(multipliers.min()) >= 0, "multiplier", int(multipliers.min()), "at least 0")
    for shift in (int(shifts.min()), int(shifts.max())):
        use.within("shift", shift, *SHIFTS)


def _unsigned(use: Use, source: str, target: str) -> None:
    """Unsigned numbers of 8 or 16 bits, on one side only; which zero points each type has."""
    flags = use.attribute("input_unsigned"), use.attribute("output_unsigned")
    use.require(not all(flags), "unsigned", "input and output", "at most one of them")
    small = {source, target} <= {"INT8", "INT16"}
    use.require(small or not any(flags), "unsigned types", [source, target], "INT8 and INT16")
    for dtype, unsigned, position in ((source, flags[0], 3), (target, flags[1], 4)):
        zero_point = int(use.constant(position, dtype, (1,)).item())
        zero_points = (0, -(2**15)) if unsigned else (0,)  # 32768 as 16 bits
        holds = dtype == "INT8" or zero_point in zero_points
        use.require(holds, f"zero point of {dtype}", zero_point, f"one of {list(zero_points)}")


RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("ADD", "SUB", "INTDIV", "MAXIMUM", "MINIMUM", "ABS", "CLZ"), of_types("INT32")),
    **dict.fromkeys(("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR", "BITWISE_NOT"), of_types(*INTEGERS)),
    **dict.fromkeys(("LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT", "ARITHMETIC_RIGHT_SHIFT"), of_types(*INTEGERS)),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR", "LOGICAL_NOT"), of_types("BOOL")),
    **dict.fromkeys(("EQUAL", "GREATER", "GREATER_EQUAL"), comparison),
    "CAST": cast,
    "CLAMP": clamp,
    "IDENTITY": of_types(*DATA, "INT48"),
    "MUL": multiply,
    "NEGATE": negate,
    "RESCALE": rescale,
    "SELECT": select,
    "TABLE": table,
}
