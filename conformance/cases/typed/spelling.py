"""One use of an operator, spelled in each number type that a table lists.

fp32 and fp16 are plain floats. In static_int8 every activation stands behind a dequantize node and goes into a
quantize node. Products also have weights: symmetric int8 codes with one scale (static_int8) or one per output
(static_int8_per_channel, dynamic_int8), or 4-bit codes with a scale per group (dynamic_int4); their bias is a
float, as in the programs that PT2E makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from npu_assay.conformance.cases.make import Q, Use, X, seeded, spread, weight_quant
from npu_assay.conformance.programs.graph import Fill, Quant, Value

STATIC = ("static_int8", "static_int8_per_channel")
DYNAMIC = ("dynamic_int8", "dynamic_int4")
FLOATS = ("fp32", "fp16")
IMAGE = (1, 3, 4, 5)
GROUP = 32  # inputs per scale of 4-bit weights
WEIGHT_SCALE = 0.01


def is_static(precision: str) -> bool:
    """Whether activations are int8 codes with scales in the program."""
    return precision in STATIC


def real(name: str, shape: Sequence[int], precision: str, fill: Fill | None = None, quant: Quant = Q) -> Value:
    """An activation: floats, or codes of `quant` in static_int8."""
    dtype = "float16" if precision == "fp16" else "float32"
    return Value(
        name,
        tuple(shape),
        quant if is_static(precision) else None,
        seeded(name) if fill is None else fill,
        dtype=dtype,
    )


def result(precision: str, quant: Quant = Q) -> Quant | None:
    """The output's quantisation: none but in static_int8."""
    return quant if is_static(precision) else None


def floats(name: str, shape: Sequence[int], precision: str, fill: Fill | None = None) -> Value:
    """A constant of plain floats: weights in fp32 and fp16, a bias in every precision."""
    return replace(real(name, shape, "fp16" if precision == "fp16" else "fp32", fill), constant=True)


def weights(name: str, shape: Sequence[int], precision: str, axis: int = 0, group: int = GROUP) -> Value:
    """Constant weights with outputs along `axis`."""
    quant = weights_quant(shape, precision, axis, group)
    return replace(floats(name, shape, precision), quant=quant)


def weights_quant(shape: Sequence[int], precision: str, axis: int = 0, group: int = GROUP) -> Quant | None:
    """How a precision's weights are quantised; None: they are floats."""
    if precision in FLOATS:
        return None
    if precision == "static_int8":
        return weight_quant(WEIGHT_SCALE)
    if precision == "dynamic_int4":
        scales = spread(WEIGHT_SCALE * 16, shape[0] * (shape[1] // group))
        return Quant(scales, 0, -8, 7, axis=0, group=group)
    return weight_quant(spread(WEIGHT_SCALE, shape[axis]), axis)


def run_time(precision: str) -> str | None:
    """How `x` is quantised at run time, in the precisions that do."""
    return "per_tensor" if precision == "dynamic_int8" else "per_token" if precision == "dynamic_int4" else None


def use(
    op: str,
    x: Value,
    precision: str,
    *rest: Any,
    more: tuple[Value, ...] = (),
    y: Quant = Q,
    **kwargs: Any,
) -> Use:
    """`op(x, *rest, **kwargs)`; `more` are the values that `rest` refers to."""
    return Use(op, (x, *more), (X, *rest), result(precision, y), tuple(kwargs.items()))


def retyped(u: Use, dtype: str) -> Use:
    """The same use on plain numbers of another type."""
    return replace(u, values=tuple(replace(value, dtype=dtype) for value in u.values))


def with_x(u: Use, **changes: Any) -> Use:
    """The same use with another shape, quantisation or other numbers in `x`."""
    return replace(u, values=(replace(u.values[0], **changes), *u.values[1:]))


def activations(u: Use, **changes: Any) -> Use:
    """The same use with changes in every operand that is no constant."""
    return replace(u, values=tuple(v if v.constant else replace(v, **changes) for v in u.values))


def opened(u: Use, axes: tuple[int, ...]) -> Use:
    """The same use with the sizes of some axes left open, of every operand that is no constant and has them.

    An open size is at least 2 here: torch.export takes a size of 1 for a known one.
    """
    return replace(u, values=tuple(value if value.constant else _opened(value, axes) for value in u.values))


def _opened(value: Value, axes: tuple[int, ...]) -> Value:
    shape = tuple(max(2, size) if axis in axes else size for axis, size in enumerate(value.shape))
    return replace(value, shape=shape, dynamic=tuple(axis for axis in axes if axis < len(shape)))
