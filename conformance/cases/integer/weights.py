"""Products with weights, convolutions or linear layers: their constants, activations behind them, and scales."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from npu_assay.conformance.cases.integer import contexts
from npu_assay.conformance.cases.integer.spelling import CONVOLUTION, codes_quant, is_wide, spelled
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    UNFUSED,
    Draft,
    Use,
    X,
    activation,
    constant,
    fused_in,
    limit,
    model,
    outside,
    placed,
    quant,
    spread,
    valued,
    weight_quant,
)
from npu_assay.conformance.cases.typed.contexts import fused, with_activation
from npu_assay.conformance.programs.graph import Fill, Quant, Ref, Value

W, B = Ref("w"), Ref("b")
POSITIVE = quant(0.0234375, -128)


def with_weight(u: Use, **changes: Any) -> Use:
    """The use with changes in its weights."""
    return replace(u, values=tuple(replace(v, **changes) if v.name == "w" else v for v in u.values))


def with_bias(u: Use, **changes: Any) -> Use:
    """The use with changes in its bias."""
    return replace(u, values=tuple(replace(v, **changes) if v.name == "b" else v for v in u.values))


def per_channel(precision: str) -> bool:
    """Whether weights have a scale per output."""
    return precision.endswith("_per_channel")


def weighted(at: Callable[[], Use], precision: str, limits: Limits) -> Iterator[Draft]:
    """Weights and biases: constants of the right type; activations fused behind them; numbers."""
    u = spelled(at(), precision)
    computed = "u85" not in limits.where
    for code in ("weight_dtype", "bias_dtype"):
        limits.value(code, ())
    names = ("weight", "w"), ("bias", "b")
    yield limit("static_weights", "constants", model(u))
    for name, ref in names if computed else names[1:]:
        if ref == "b" or not per_channel(precision):
            computed_one = tuple(_computed(v) if v.name == ref else v for v in u.values)
            yield outside("static_weights", f"computed_{name}", model(replace(u, values=computed_one)))
    yield limit("weight_dtype", "int8", model(u))
    w = next(v for v in u.values if v.name == "w").quant
    assert w is not None
    yield outside("weight_dtype", "int16", model(with_weight(u, quant=replace(w, dtype="int16", qmin=-300, qmax=300))))
    yield limit("bias_dtype", "int32", model(u))
    b = next(v for v in u.values if v.name == "b").quant
    assert b is not None
    yield outside("bias_dtype", "int16", model(with_bias(u, quant=replace(b, dtype="int16", qmin=-2000, qmax=2000))))
    if per_channel(precision):
        yield limit("weight_zero_point", "zero", model(u))
        inputs = weight_quant(spread(0.01, u.values[1].shape[1]), 1)
        yield limit("weight_axis", "outputs", model(u))
        yield outside("weight_axis", "inputs", model(with_weight(u, quant=inputs)))
        for zero in (1, -5):
            yield outside(
                "weight_zero_point",
                str(zero).replace("-", "minus_"),
                model(with_weight(u, quant=replace(w, zero_point=zero))),
            )
    yield from activated(u, precision, limits)
    for name in ("min", "max", "alternating", "ramp"):
        yield valued(f"weights_{name}", model(with_weight(u, fill=Fill(name))))
    yield valued("ties", model(tied(u)))
    if not is_wide(precision):
        for zero in (-100, 100):
            yield valued(f"result_zero_point_{zero}", model(replace(u, y=quant(0.05, zero))))


def tied(u: Use) -> Use:
    """Powers of two for scales, and sums of two steps to a code: every other one lies between two codes."""
    fills = {
        "x": Fill("list", values=(1, 0, 0, 1, 0, -1, 0, 0, 0, 0, 0)),
        "w": Fill("list", values=(3, -2, 5, 1, -7, 4, 0, 2, -1, 6, -4, 9, -5)),
        "b": Fill("list", values=(0, 1, -3, 2)),
    }
    scales = {"x": 2.0**-2, "w": 2.0**-3, "b": 2.0**-5}
    values = (replace(v, quant=in_steps(v.quant, scales[v.name]), fill=fills[v.name]) for v in u.values)
    return replace(u, values=tuple(values), y=in_steps(u.y, 2.0**-4))


def in_steps(q: Quant | None, scale: float) -> Quant:
    """The quantisation with this scale, for all channels, and zero point 0."""
    assert q is not None
    return replace(q, scale=(scale,) * len(q.scale) if isinstance(q.scale, tuple) else scale, zero_point=0)


def _computed(value: Value) -> Value:
    """The value as a model input."""
    q = value.quant
    assert q is not None
    single = q if isinstance(q.scale, float) else replace(q, scale=q.scale[0], axis=None)
    return replace(value, constant=False, quant=single)


def activated(u: Use, precision: str, limits: Limits) -> Iterator[Draft]:
    """With an activation behind it, with or without codes between them."""
    relu, relu6 = fused("aten.relu.default"), fused("aten.hardtanh.default", 0.0, 6.0)
    positive = replace(u, y=codes_quant(precision, POSITIVE))
    yield limit(UNFUSED, "quantised", model(u))
    yield fused_in(limits, "then_relu", with_activation(positive, relu))
    yield fused_in(limits, "then_relu_of_signed_codes", with_activation(u, relu))
    if not is_wide(precision):
        yield fused_in(limits, "then_relu6", with_activation(replace(u, y=quant(6 / 255, -128)), relu6))
    for name, op, args in (("relu", "aten.relu.default", ()), ("hardtanh", "aten.hardtanh.default", (-1.0, 1.0))):
        behind = contexts.after(u, op, args)
        yield placed(f"then_quantised_{name}", behind)


def ratios(precision: str, at: Callable[[float], Use]) -> Iterator[Draft]:
    """Scales with which the largest sum just fits 32 bits behind RESCALE, and the next power of two.

    One weight of 127 and no bias, so sums are up to 127 * 2**7; of int16 127 * 2**15, of which results have 32 bits.
    """
    past = 2.0**16 / 127 if is_wide(precision) else 2.0**16
    for name, side, ratio in (("largest", limit, past * (1 - 2.0**-20)), ("too_large", outside, past * (1 + 2.0**-20))):
        yield side("rescale", f"{name}_ratio", model(at(ratio)))


def single(precision: str, op: str) -> Callable[[float], Use]:
    """One weight of 127, no bias: `ratio` is input times weight over output scale."""

    def at(ratio: float) -> Use:
        x = replace(
            activation("x", (1, 1, 2, 3) if op == CONVOLUTION else (2, 1)), quant=codes_quant(precision, quant(1.0))
        )
        shape = (1, 1, 1, 1) if op == CONVOLUTION else (1, 1)
        scale = weight_quant((ratio,), 0) if per_channel(precision) else weight_quant(ratio)
        w = constant("w", shape, scale, Fill("list", values=(127.0,)))
        rest = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1) if op == CONVOLUTION else ()
        args = (X, W, None, *rest) if op == CONVOLUTION else (X, W)
        return Use(op, (x, w), args, codes_quant(precision, quant(1.0)))

    return at
