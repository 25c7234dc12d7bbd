"""What case functions are written with: one call of an operator, and the model around it.

A `Call` is the operator with its operands; `model` makes a whole model of it, with a prefix before it and a suffix
after it (nothing). The operator under test is always the step `SUBJECT`, its first operand the value `X`, which a
prefix replaces by the output of its last step.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value

SUBJECT = "subject"
X = Ref("x")
RELU = "aten.relu.default"
"""What the cases of other operators put after them most."""
DEVIATION = 73.9  # standard deviation of a code that is uniform in [-128, 127]


@dataclass(frozen=True)
class Call:
    """One application: `values` are its operands (the first is `x`), `y` its output's quantization.

    `dynamic` quantizes `x` at run time: see `npu_assay.conformance.programs.graph.Step`.
    """

    op: str
    values: tuple[Value, ...]
    args: tuple[Any, ...]
    y: Quant | None
    kwargs: tuple[tuple[str, Any], ...] = ()
    outputs: int = 1
    dynamic: str | None = None

    @property
    def x(self) -> Value:
        """The first operand."""
        return self.values[0]

    def value(self, name: str) -> Value:
        """The operand of a name. Raises StopIteration for a name that no operand has."""
        return next(value for value in self.values if value.name == name)

    def quant(self, name: str) -> Quant:
        """The quantization of the operand of a name, which has one."""
        found = self.value(name).quant
        assert found is not None
        return found

    def with_x(self, **changes: Any) -> Call:
        """The same call with changes in `x`: shape, quantization, numbers."""
        return replace(self, values=(replace(self.x, **changes), *self.values[1:]))

    def with_value(self, name: str, **changes: Any) -> Call:
        """The same call with changes in one operand."""
        return replace(self, values=tuple(replace(v, **changes) if v.name == name else v for v in self.values))

    def with_each(self, **changes: Any) -> Call:
        """The same call with changes in every operand."""
        return replace(self, values=tuple(replace(value, **changes) for value in self.values))

    def requantized(self, x: Quant | None, y: Quant | None) -> Call:
        """The same call with another quantization of `x` and of the output."""
        return replace(self.with_x(quant=x), y=y)


# ------------------------------------------------------------------------------------ numbers


def f32(number: float) -> float:
    """The float32 nearest to a number: scales are stored in that precision."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def quant(scale: float, zero_point: int = 0) -> Quant:
    """int8 activations with a float32 scale."""
    return Quant(f32(scale), zero_point)


Q = quant(0.05, 3)  # reals in [-6.55, 6.2]
MOST_SCALES = 2**16
UNIT = quant(1 / 128, 0)  # reals in [-1, 1)


def weight_quant(scales: float | Sequence[float], axis: int | None = None) -> Quant:
    """Symmetric int8 weights: codes in [-127, 127]; one scale, or one per index of `axis`."""
    if isinstance(scales, float):
        return Quant(f32(scales), 0, -127)
    return Quant(tuple(map(f32, scales)), 0, -127, axis=axis)


def bias_quant(x: Quant, w: Quant) -> Quant:
    """int32 bias at the accumulator's scale; codes stay within +-2000."""
    scales = w.scale if isinstance(w.scale, tuple) else (w.scale,)
    product = tuple(f32(_number(x.scale) * scale) for scale in scales)
    per_channel = isinstance(w.scale, tuple)
    return Quant(product if per_channel else product[0], 0, -2000, 2000, 0 if per_channel else None, "int32")


def _number(scale: float | tuple[float, ...]) -> float:
    if isinstance(scale, tuple):
        raise ValueError("expected one scale, found one per channel")
    return scale


def fitting_weight_scale(x: Quant, y: Quant, terms: int) -> float:
    """Weight scale for which sums of `terms` random products mostly stay within `y`'s range (3 sigma)."""
    return 127 * _number(y.scale) / (3 * _number(x.scale) * DEVIATION**2 * math.sqrt(terms))


def spread(scale: float, channels: int) -> tuple[float, ...]:
    """Per-channel scales around `scale`, spread evenly over a factor of 10 (largest about `scale`).

    Those of more than MOST_SCALES channels are the same ones again and again: each would be an object of its own.
    """
    if channels <= MOST_SCALES:
        return _spread(scale, channels)
    return (_spread(scale, MOST_SCALES) * -(-channels // MOST_SCALES))[:channels]


@lru_cache(maxsize=32)  # a search asks for the same sizes again and again
def _spread(scale: float, channels: int) -> tuple[float, ...]:
    scales = [scale * 10 ** (-index / max(1, channels - 1)) for index in range(channels)]
    return struct.unpack(f"{channels}f", struct.pack(f"{channels}f", *scales))


# ------------------------------------------------------------------------------------ ids


def sizes_of(*shapes: tuple[int, ...]) -> str:
    """Shapes in a case id: `2x8_and_2x16`."""
    return "_and_".join("x".join(map(str, shape)) for shape in shapes)


def label(value: object) -> str:
    """Numbers and lists of numbers in a case id: `minus_1`, `0_2_1`."""
    text = "_".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text.replace("-", "minus_")


# ------------------------------------------------------------------------------------ uses


def activation(name: str, shape: Sequence[int], q: Quant | None = Q, fill: Fill | None = None) -> Value:
    """A model input; random codes unless told otherwise, another seed for another name."""
    return Value(name, tuple(shape), q, seeded(name) if fill is None else fill)


def seeded(name: str) -> Fill:
    """Random numbers, others for another name."""
    return Fill(seed=sum(map(ord, name)))


def constant(name: str, shape: Sequence[int], q: Quant | None, fill: Fill | None = None) -> Value:
    """A constant: weights, bias, divisor, slopes."""
    return replace(activation(name, shape, q, fill), constant=True)


def call(
    op: str,
    shape: Sequence[int],
    *rest: Any,
    x: Quant | None = Q,
    y: Quant | None = Q,
    more: tuple[Value, ...] = (),
    outputs: int = 1,
    fill: Fill | None = None,
    **kwargs: Any,
) -> Call:
    """`op(x, *rest, **kwargs)` on a random `x`; `more` are the values that `rest` refers to."""
    return Call(op, (activation("x", shape, x, fill), *more), (X, *rest), y, tuple(kwargs.items()), outputs)


# ------------------------------------------------------------------------------------ contexts

Prefix = Callable[[Call], tuple[tuple[Value, ...], tuple[Step, ...], Ref]]  # values, steps, the subject's operand
Suffix = Callable[[Call], tuple[tuple[Step, ...], tuple[Ref, ...]]]  # steps, what the model returns


def model(u: Call, prefix: Prefix | None = None, suffix: Suffix | None = None) -> Graph:
    """The whole model: what stands before the operator (nothing), the operator, what follows (nothing)."""
    values, before, operand = (bare if prefix is None else prefix)(u)
    after, returned = (results if suffix is None else suffix)(u)
    return Graph(values, (*before, step(u, operand), *after), returned)


def step(u: Call, operand: Ref = X, name: str = SUBJECT) -> Step:
    """The application as a step, with `operand` in the place of `x`."""
    args = u.args if operand == X else _replaced(u.args, operand)
    return Step(name, u.op, args, u.kwargs, u.y, u.outputs, u.dynamic)


def _replaced(argument: Any, operand: Ref) -> Any:
    if argument == X:
        return operand
    if isinstance(argument, tuple):
        return tuple(_replaced(item, operand) for item in argument)
    return argument


def bare(u: Call) -> tuple[tuple[Value, ...], tuple[Step, ...], Ref]:
    """The operator's operand is a model input."""
    return u.values, (), X


def results(u: Call) -> tuple[tuple[Step, ...], tuple[Ref, ...]]:
    """The model returns what the operator returns."""
    return (), tuple(Ref(SUBJECT, index) for index in range(u.outputs))


# ------------------------------------------------------------------------------------ drafts
