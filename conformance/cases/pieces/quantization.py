"""Scales and zero points: those that operators fix, share and permit, and how far apart they may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from npu_assay.conformance.cases.around import then_abs
from npu_assay.conformance.cases.drafts import CaseDraft, limit, outside, valued
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, Prefix, Q, bare, f32, quant
from npu_assay.conformance.cases.pieces.contexts import float_neighbors
from npu_assay.conformance.cases.pieces.spelling import INT16, codes_quant, is_wide, other_type
from npu_assay.conformance.cases.pieces.subject import Subject
from npu_assay.conformance.cases.pieces.values import ZERO_POINTS
from npu_assay.conformance.programs.graph import Fill, Quant, Value

UP_TO_6 = quant(6.2 / 255, -128)
PROBABILITY = Quant(1 / 256, -128)
TANH = Quant(1 / 128, 0)
HALF = Quant(1 / 256, 0)  # what the Neutron quantizer gives the operands of mul
POSITIVE = quant(0.0234375, -128)  # reals in [0, 5.98]
OTHER = quant(0.03125, -7)
RESCALED = (("halved", quant(0.025, 3)), ("doubled", quant(0.1, -20)), ("shifted", quant(0.05, -128)))
"""Quantizations of a result beside an operand's of scale 0.05 and zero point 3: finer, coarser, shifted."""


def same_qparams(u: Call, prefix: Prefix = bare) -> list[CaseDraft]:
    """Equal parameters at several zero points, then scale and zero point off by a little."""
    x = u.x.quant or Q
    assert isinstance(x.scale, float)
    equal = [
        limit("same_qparams", f"both_zero_point_{zero}", u.requantized(q, q), prefix)
        for zero in ZERO_POINTS
        for q in [quant(0.03, zero)]
    ]
    others = (
        ("scale_one_float32_step_up", Quant(f32(x.scale * (1 + 2**-23)), x.zero_point)),
        ("scale_doubled", quant(2 * x.scale, x.zero_point)),
        ("zero_point_one_up", Quant(x.scale, x.zero_point + 1)),
        ("scale_and_zero_point", quant(1.5 * x.scale, x.zero_point - 7)),
    )
    return equal + [outside("same_qparams", variant, replace(u, y=y), prefix) for variant, y in others]


def fixed_output(u: Call, y: Quant, prefix: Prefix = bare) -> list[CaseDraft]:
    """An output whose quantization the operator fixes to `y`."""
    assert isinstance(y.scale, float)
    others = (
        ("scale_doubled", Quant(2 * y.scale, y.zero_point)),
        ("scale_halved", Quant(y.scale / 2, y.zero_point)),
        ("scale_one_percent_up", quant(1.01 * y.scale, y.zero_point)),
        ("zero_point_one_up", Quant(y.scale, y.zero_point + (1 if y.zero_point < 127 else -1))),
        ("scale_of_1_over_255", quant(1 / 255, y.zero_point)),
    )
    kept = limit("output_qparams", "as_fixed", replace(u, y=y), prefix)
    past = [(variant, o) for variant, o in others if o != y]
    return [kept, *(outside("output_qparams", variant, replace(u, y=o), prefix) for variant, o in past)]


BELOW = 1 - 2.0**-20  # just below a power of two


def rescale_limit(past: tuple[str, Call], kept: tuple[str, Call]) -> list[CaseDraft]:
    """A scale ratio at which the largest accumulator just fits 32 bits, and the next power of two."""
    return [outside("rescale", past[0], past[1]), limit("rescale", kept[0], kept[1])]


def unary_rescale(u: Call) -> list[CaseDraft]:
    """Codes up to 128 from the zero point, shifted left by 24 bits, leave 32 bits; by 23 they do not."""
    y = quant(2.0**-23)
    past, kept = u.requantized(quant(1.0), y), u.requantized(quant(BELOW), y)
    return rescale_limit(("ratio_2_to_the_23", past), ("ratio_below_2_to_the_23", kept))


def float_same_qparams(u: Call) -> Iterator[CaseDraft]:
    """Equal parameters at several zero points, then scale and zero point off by a little."""
    for zero in ZERO_POINTS:
        q = quant(0.03, zero)
        yield limit("same_qparams", f"zero_point_{zero}", _requantized(u, q, q))
    others = (
        ("scale_one_float32_step_up", Quant(f32(0.05 * (1 + 2**-22)), 3)),
        ("scale_doubled", quant(0.1, 3)),
        ("zero_point_one_up", quant(0.05, 4)),
    )
    for name, y in others:
        yield outside("same_qparams", name, _requantized(u, Q, y))


def _requantized(u: Call, x: Quant, y: Quant) -> Call:
    return replace(u, values=tuple(v if v.constant else replace(v, quant=x) for v in u.values), y=y)


UNSIGNED = Quant(Q.scale, 131, 0, 255, dtype="uint8")
REALS = Fill("list", values=(0.25, 0.5, 0.125, 0.375, 0.75))


def quantization(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Codes on both sides, of one type, with usable parameters; real numbers anywhere are outside."""
    u, prefix = subject.call(precision), subject.prefix
    yield limit("quantized_inputs", "codes", subject.model(u))
    yield limit("dtype", "float32_between_codes", subject.model(u))
    near = dict(float_neighbors(with_reals(u)))
    floats = replace(u, values=tuple(_real(v) for v in u.values), y=None)
    yield outside("quantized_inputs", "float_input", near["float_input"])
    yield outside("dtype", "float64", _retyped(floats, "float64"))
    if not subject.reals:
        yield limit("quantized", "codes", u)
        yield limit("quantized_outputs", "a_truth", u)
    else:
        yield limit("quantized", "marked", u, prefix, then_abs)
        yield outside("quantized", "float_model", floats)
        yield limit("quantized_outputs", "codes", u, prefix, then_abs)
        yield outside("quantized_outputs", "float_output", replace(u, y=None), prefix)
    yield limit("io_dtype", INT16 if is_wide(precision) else "int8", subject.model(u))
    unsigned = with_codes(u, UNSIGNED)
    yield outside("io_dtype", "uint8", subject.model(replace(unsigned, y=UNSIGNED) if subject.reals else unsigned))
    yield from parameters(subject, precision)
    if "per_tensor" in limits:
        yield limit("per_tensor", "one_scale", subject.model(u))
        if not u.x.constant:
            yield outside("per_tensor", "a_scale_for_each_index", with_scales(u))
    if "mixed_dtype" in limits and subject.reals:
        yield limit("mixed_dtype", "all_the_same", subject.model(u))
        yield outside("mixed_dtype", "output_of_another", subject.model(replace(u, y=other_type(precision))))


def _real(value: Value) -> Value:
    if value.quant is None:
        return value
    return replace(value, quant=None, fill=Fill("list", values=(2.0, 1.0, 3.0)) if value.constant else REALS)


def with_reals(u: Call) -> Call:
    """The call with small numbers in `x`, for when it is not quantized."""
    return u.with_x(fill=REALS)


def _retyped(u: Call, dtype: str) -> Call:
    return replace(u, values=tuple(replace(v, dtype=dtype) if v.dtype == "float32" else v for v in u.values))


def parameters(subject: Subject, precision: str) -> Iterator[CaseDraft]:
    """Zero points at the ends of int8, 0 for int16; positive scales."""
    u = subject.call(precision)
    kept = (0,) if is_wide(precision) else (-128, 127)
    past = (1, -1) if is_wide(precision) else (128, -129)
    for zero in kept:
        yield limit("scalar_qparams", f"zero_point_{zero}".replace("-", "minus_"), subject.model(_zero(u, zero)))
    for zero in past:
        yield outside("scalar_qparams", f"zero_point_{zero}".replace("-", "minus_"), _zero(u, zero))


def with_codes(u: Call, q: Quant) -> Call:
    """The call with this quantization of every operand that has one and is not a constant, and of the first."""
    first, *rest = u.values
    others = tuple(v if v.constant or v.quant is None else replace(v, quant=q) for v in rest)
    return replace(u, values=(replace(first, quant=q), *others))


def with_scales(u: Call) -> Call:
    """The call with a scale for each index of the last dimension of `x`."""
    x = u.x
    assert x.quant is not None
    return replace(u, values=(replace(x, quant=scales_of(x.quant, len(x.shape) - 1, x.shape[-1])), *u.values[1:]))


def scales_of(q: Quant, axis: int, size: int) -> Quant:
    """The quantization with larger and larger scales along a dimension of that size."""
    assert isinstance(q.scale, float)
    return replace(q, scale=tuple(q.scale * (1 + index / 8) for index in range(size)), axis=axis)


def _zero(u: Call, zero_point: int) -> Call:
    x = u.x
    assert x.quant is not None
    return replace(u, values=(replace(x, quant=replace(x.quant, zero_point=zero_point)), *u.values[1:]))


def requantized_codes(u: Call, x: Quant, y: Quant, precision: str) -> Call:
    """The call with quantizations that are given for int8."""
    return replace(u.with_x(quant=codes_quant(precision, x)), y=codes_quant(precision, y))


def rescaled(subject: Subject, precision: str) -> Iterator[CaseDraft]:
    """Other parameters after the operator than before it: finer, coarser, shifted."""
    u = subject.call(precision)
    for name, y in RESCALED:
        yield valued(f"scale_{name}", subject.model(requantized_codes(u, Q, y, precision)))


def ratio_limits(at: Callable[[float], Call], bits: int, prefix: Prefix = bare) -> Iterator[CaseDraft]:
    """Ratios of scales just below 2 to the power of `bits`, which 32 bits hold, and that itself, which they do not."""
    yield limit("rescale", "largest_ratio", at(2.0**bits * (1 - 2.0**-20)), prefix)
    yield outside("rescale", "ratio_too_large", at(2.0**bits), prefix)


def moved_ratios(subject: Subject, precision: str) -> Iterator[CaseDraft]:
    """Codes of 8 (16) bits that are rescaled as they are."""
    u = subject.call(precision)

    def at(ratio: float) -> Call:
        x = codes_quant(precision, quant(ratio))
        return replace(with_codes(u, x), y=codes_quant(precision, quant(1.0)))

    return ratio_limits(at, 14 if is_wide(precision) else 22, subject.prefix)
