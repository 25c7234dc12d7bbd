"""What linear layers and convolutions are both asked: constants, activations after them, scales, sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from npu_assay.conformance.cases.drafts import UNFUSED, CaseDraft, fused_in, limit, outside, placed, valued
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    RELU,
    SUBJECT,
    Call,
    X,
    activation,
    constant,
    f32,
    model,
    quant,
    spread,
    weight_quant,
)
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.neighbors import after, fused, then_hardtanh, then_relu, with_activation
from npu_assay.conformance.cases.pieces.quantization import POSITIVE, scales_of
from npu_assay.conformance.cases.pieces.spelling import (
    CONVOLUTION,
    DYNAMIC,
    FLOATS,
    codes_quant,
    is_static,
    is_wide,
    per_channel,
)
from npu_assay.conformance.cases.pieces.subject import Subject
from npu_assay.conformance.cases.pieces.values import TELLING, ZERO_POINTS, one_hots
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value

# ------------------------------------------------------------------------------------ floats


def float_weighted(subject: Subject, precision: str, limits: Limits) -> list[CaseDraft]:
    """Cases of every product: constants, quantization of weights and results, activations, numbers."""
    u = subject.call(precision)
    drafts = [
        *everywhere(subject, precision, limits),
        *constants(u, precision),
        *float_activated(u, precision),
        *float_numbers(u, precision),
    ]
    if precision not in FLOATS:
        drafts += weight_zero_points(u)
    if is_static(precision):
        drafts += [*quantized_results(u), *scales(u, limits)]
    if precision in DYNAMIC:
        drafts += run_time_rows(u)
    return drafts


def constants(u: Call, precision: str) -> Iterator[CaseDraft]:
    """Weights and bias are constants; as model inputs they are outside."""
    yield limit("static_weights", "constants", u)
    if precision in FLOATS:
        open_weights = u.with_value("w", constant=False)
    else:
        per_tensor = weight_quant(0.01) if precision != "static_int8" else u.value("w").quant
        open_weights = u.with_value("w", constant=False, quant=per_tensor)
    yield outside("static_weights", "weights_are_an_input", open_weights)
    if any(value.name == "b" for value in u.values):
        bias = tuple(replace(v, constant=False) if v.name == "b" else v for v in u.values)
        yield outside("static_weights", "bias_is_an_input", replace(u, values=bias))


def float_activated(u: Call, precision: str) -> Iterator[CaseDraft]:
    """With an activation after it, which may be fused."""
    if precision == "fp16":
        return
    yield placed("then_relu", with_activation(u, then_relu))
    yield placed("then_hardtanh", with_activation(u, then_hardtanh))
    if not is_static(precision):
        yield placed("then_sigmoid", with_activation(u, fused("aten.sigmoid.default")))
        yield placed("then_clamp", with_activation(u, fused("aten.clamp.default", -0.5, 0.5)))
        yield placed("then_relu_and_two_consumers", _two_consumers(u))


def _two_consumers(u: Call) -> Graph:
    """A relu and an abs take the unquantized result."""
    steps = (
        Step("relu", RELU, (Ref(SUBJECT),), (), u.y),
        Step("abs", "aten.abs.default", (Ref(SUBJECT),), (), u.y),
    )
    graph = model(replace(u, y=None))
    return Graph(graph.values, (*graph.steps, *steps), (Ref("relu"), Ref("abs")))


def quantized_results(u: Call) -> Iterator[CaseDraft]:
    """One quantize node takes the result, with at most a relu or a hardtanh between."""
    yield limit("quantized", "quantised", u)
    yield limit("quantized", "relu_between", with_activation(u, then_relu))
    yield limit("quantized", "hardtanh_between", with_activation(u, then_hardtanh))
    yield outside("quantized", "sigmoid_between", with_activation(u, fused("aten.sigmoid.default")))
    yield outside("quantized", "clamp_between", with_activation(u, fused("aten.clamp.default", -0.5, 0.5)))
    yield outside("quantized", "two_consumers_before_quantize", _two_consumers(u))


def weight_zero_points(u: Call) -> Iterator[CaseDraft]:
    """Weights are symmetric."""
    q = u.quant("w")
    yield limit("weight_zero_point", "0", u)
    for zero in (1, -3):
        yield outside(
            "weight_zero_point", str(zero).replace("-", "minus_"), u.with_value("w", quant=replace(q, zero_point=zero))
        )


def scales(u: Call, limits: Limits) -> Iterator[CaseDraft]:
    """Input scale * weight scale / output scale: just below the limit, and at it (in one channel only)."""
    bound = float(limits.number("requant_scale", 256, 2, 2**20))
    q = u.quant("w")
    below = bound * (1 - 2.0**-23)

    def scaled(weight_scale: float) -> Call:
        if isinstance(q.scale, tuple):
            wide: tuple[float, ...] | float = (f32(weight_scale), *(f32(1.0) for _ in q.scale[1:]))
        else:
            wide = f32(weight_scale)
        x = replace(u.x, quant=quant(1.0, 0), fill=Fill("list", values=(1, -1, 2, 0, -2)))
        return replace(u, values=(x, *u.values[1:]), y=quant(1.0)).with_value("w", quant=replace(q, scale=wide))

    yield limit("requant_scale", "just_below", scaled(below))
    yield limit("requant_scale", "tiny", _rescaled(u, 2.0**-10, 2.0**8))
    yield outside("requant_scale", "equal", scaled(bound))
    yield outside("requant_scale", "twice", scaled(2 * bound))


def _rescaled(u: Call, x: float, y: float) -> Call:
    return replace(u.with_x(quant=quant(x)), y=quant(y))


def float_numbers(u: Call, precision: str) -> Iterator[CaseDraft]:
    """Extremes, single numbers, and quantizations that tell roundings apart."""
    if is_static(precision):
        yield valued("ties", _float_tied(u))
    elif precision in FLOATS:
        yield valued("large_then_small", _stagnating(u))
    yield from one_hots(u, spots=2)
    if is_static(precision):
        for name in ("min", "max", "alternating"):
            yield valued(f"all_{name}", u.with_x(fill=Fill(name)))
        for zero in ZERO_POINTS:
            x = replace(u.x, quant=quant(0.05, zero))
            yield valued(f"zero_point_{zero}", replace(u, values=(x, *u.values[1:]), y=quant(0.11, -zero // 2)))
        yield valued("saturates", replace(u, y=quant(0.003, 11)))
        yield valued("coarse", replace(u, y=quant(3.0, -5)))
    elif precision in FLOATS:
        yield valued("telling", u.with_x(fill=Fill("list", values=TELLING)))


def _float_tied(u: Call) -> Call:
    """Powers of two for scales, and accumulators of two steps to a code: every other one lies between two codes."""
    q = u.quant("w")
    scale: tuple[float, ...] | float = (2.0**-3,) * len(q.scale) if isinstance(q.scale, tuple) else 2.0**-3
    few = Fill("list", values=(1, 0, 0, 1, 0, -1, 0, 0, 0, 0, 0))
    x = replace(u.x, quant=quant(2.0**-2, 0), fill=few)
    tied = replace(u, values=(x, *u.values[1:]), y=quant(2.0**-4, 1))
    small = Fill("list", values=(3, -2, 5, 1, -7, 4, 0, 2, -1, 6, -4, 9, -5))
    return tied.with_value("w", quant=replace(q, scale=scale, zero_point=0), fill=small)


def _stagnating(u: Call) -> Call:
    """A large number, then small ones: a sum in few bits stays where it is."""
    small = u.with_x(fill=Fill("list", values=(256.0, *([1.0] * 35))))
    return small.with_value("w", fill=Fill("list", values=(1.0,)))


def run_time_rows(u: Call) -> Iterator[CaseDraft]:
    """Rows whose quantization at run time is an edge case; the smallest scale of the program is ignored."""
    rows = {
        "all_zero": (0.0,),
        "all_equal": (1.5,),
        "all_equal_negative": (-2.25,),
        "positive": (0.5, 3.0, 1.25, 2.0, 7.5),
        "negative": (-0.5, -3.0, -1.25, -2.0, -7.5),
        "one_outlier": (*([0.01] * 12), 100.0),
        "ties": (-128.0, 127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.5),
        "small": (1e-3, -2e-3, 5e-4, 1.5e-3),
        "large": (3e4, -1e4, 2e4, 5.0),
        "half_zero_half_large": (*([0.0] * 64), *([1000.0, -500.0] * 32)),
    }
    for name, listed in rows.items():
        yield valued(f"rows_{name}", u.with_x(fill=Fill("list", values=listed)))


# ------------------------------------------------------------------------------------ integers


W = Ref("w")
B = Ref("b")


def integer_weighted(u: Call, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Weights and biases: constants of the right type; activations fused after them; numbers."""
    computed = "u85" not in limits.where
    for code in ("weight_dtype", "bias_dtype"):
        limits.value(code, ())
    names = ("weight", "w"), ("bias", "b")
    yield limit("static_weights", "constants", u)
    for name, ref in names if computed else names[1:]:
        if ref == "b" or not per_channel(precision):
            computed_one = tuple(_computed(v) if v.name == ref else v for v in u.values)
            yield outside("static_weights", f"computed_{name}", replace(u, values=computed_one))
    yield limit("weight_dtype", "int8", u)
    w, b = u.quant("w"), u.quant("b")
    yield outside("weight_dtype", "int16", u.with_value("w", quant=replace(w, dtype="int16", qmin=-300, qmax=300)))
    yield limit("bias_dtype", "int32", u)
    yield outside("bias_dtype", "int16", u.with_value("b", quant=replace(b, dtype="int16", qmin=-2000, qmax=2000)))
    if per_channel(precision):
        yield limit("weight_zero_point", "zero", u)
        inputs = weight_quant(spread(0.01, u.values[1].shape[1]), 1)
        yield limit("weight_axis", "outputs", u)
        yield outside("weight_axis", "inputs", u.with_value("w", quant=inputs))
        for zero in (1, -5):
            yield outside(
                "weight_zero_point",
                str(zero).replace("-", "minus_"),
                u.with_value("w", quant=replace(w, zero_point=zero)),
            )
    if "per_tensor" in limits:
        yield outside("per_tensor", "a_result_scale_for_each_channel", _with_result_scales(u))
    yield from integer_activated(u, precision, limits)
    for name in ("min", "max", "alternating", "ramp"):
        yield valued(f"weights_{name}", u.with_value("w", fill=Fill(name)))
    yield valued("ties", integer_tied(u))
    if not is_wide(precision):
        for zero in (-100, 100):
            yield valued(f"result_zero_point_{zero}", replace(u, y=quant(0.05, zero)))


def _with_result_scales(u: Call) -> Call:
    """The call with a scale for each channel of the result."""
    assert u.y is not None
    axis, outputs = (1 if u.op == CONVOLUTION else len(u.x.shape) - 1), u.value("b").shape[0]
    return replace(u, y=scales_of(u.y, axis, outputs))


def integer_tied(u: Call) -> Call:
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
    """The quantization with this scale, for all channels, and zero point 0."""
    assert q is not None
    return replace(q, scale=(scale,) * len(q.scale) if isinstance(q.scale, tuple) else scale, zero_point=0)


def _computed(value: Value) -> Value:
    """The value as a model input."""
    q = value.quant
    assert q is not None
    single = q if isinstance(q.scale, float) else replace(q, scale=q.scale[0], axis=None)
    return replace(value, constant=False, quant=single)


def integer_activated(u: Call, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """With an activation after it, with or without codes between them."""
    relu, relu6 = fused(RELU), fused("aten.hardtanh.default", 0.0, 6.0)
    positive = replace(u, y=codes_quant(precision, POSITIVE))
    yield limit(UNFUSED, "quantised", u)
    yield fused_in(limits, "then_relu", with_activation(positive, relu))
    yield fused_in(limits, "then_relu_of_signed_codes", with_activation(u, relu))
    if not is_wide(precision):
        yield fused_in(limits, "then_relu6", with_activation(replace(u, y=quant(6 / 255, -128)), relu6))
    for name, op, args in (("relu", RELU, ()), ("hardtanh", "aten.hardtanh.default", (-1.0, 1.0))):
        behind = after(u, op, args)
        yield placed(f"then_quantised_{name}", behind)


def ratios(precision: str, at: Callable[[float], Call]) -> Iterator[CaseDraft]:
    """Scales with which the largest sum just fits 32 bits after RESCALE, and the next power of two.

    One weight of 127 and no bias, so sums are up to 127 * 2**7; of int16 127 * 2**15, of which results have 32 bits.
    """
    past = 2.0**16 / 127 if is_wide(precision) else 2.0**16
    for name, side, ratio in (("largest", limit, past * (1 - 2.0**-20)), ("too_large", outside, past * (1 + 2.0**-20))):
        yield side("rescale", f"{name}_ratio", at(ratio))


def single(precision: str, op: str) -> Callable[[float], Call]:
    """One weight of 127, no bias: `ratio` is input times weight over output scale."""

    def at(ratio: float) -> Call:
        x = replace(
            activation("x", (1, 1, 2, 3) if op == CONVOLUTION else (2, 1)), quant=codes_quant(precision, quant(1.0))
        )
        shape = (1, 1, 1, 1) if op == CONVOLUTION else (1, 1)
        scale = weight_quant((ratio,), 0) if per_channel(precision) else weight_quant(ratio)
        w = constant("w", shape, scale, Fill("list", values=(127.0,)))
        rest = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1) if op == CONVOLUTION else ()
        args = (X, W, None, *rest) if op == CONVOLUTION else (X, W)
        return Call(op, (x, w), args, codes_quant(precision, quant(1.0)))

    return at
