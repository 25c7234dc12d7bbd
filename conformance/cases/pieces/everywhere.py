"""What every row is asked: sizes, number types, neighbors, quantization, options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, CaseDraft, accepted, f32, limit, model, outside, placed
from npu_assay.conformance.cases.pieces.contexts import (
    CAST,
    between_codes,
    float_contexts,
    float_neighbors,
    integer_surroundings,
)
from npu_assay.conformance.cases.pieces.options import (
    additional_checks,
    config_precisions,
    configs,
    first_few,
    per_op_mode,
)
from npu_assay.conformance.cases.pieces.quantization import quantization
from npu_assay.conformance.cases.pieces.sizes import float_sizes, integer_sizes, open_sizes
from npu_assay.conformance.cases.pieces.spelling import (
    FLOATS,
    INTEGERS,
    activations,
    is_static,
)
from npu_assay.conformance.cases.pieces.subject import FLOAT, Subject
from npu_assay.conformance.cases.pieces.values import integer_fills, other_numbers
from npu_assay.conformance.programs.graph import Fill, Quant

# ------------------------------------------------------------------------------------ floats


def float_everywhere(subject: Subject, precision: str, limits: Limits) -> list[CaseDraft]:
    """What every row has: alone and among others."""
    u = subject.call(precision)
    return [
        *alone(subject, precision, limits),
        *number_types(subject, u, precision),
        *float_contexts(u, precision),
        *quantized_neighbors(subject, u, precision),
        *(() if is_static(precision) and subject.converts else per_op_mode(u, precision)),
    ]


def alone(subject: Subject, precision: str, limits: Limits) -> list[CaseDraft]:
    """Baseline, options and sizes."""
    u = subject.call(precision)
    return [
        accepted("baseline", u),
        *config_precisions(subject, precision),
        *configs(subject, u),
        *float_sizes(subject, precision, limits),
        *open_sizes(subject, precision, limits),
    ]


def number_types(subject: Subject, u: Call, precision: str) -> Iterator[CaseDraft]:
    """The precision's own type; float64 and bfloat16, or codes of uint8, are outside."""
    if is_static(precision):
        unsigned = Quant(f32(0.05), 131, 0, 255, dtype="uint8")
        yield limit("dtype", "int8", u.with_x(fill=Fill("ramp")))
        codes = model(activations(replace(u, y=unsigned), quant=unsigned))
        yield placed("uint8", codes) if subject.converts else outside("dtype", "uint8", codes)
    elif precision in FLOATS:
        yield limit("dtype", u.x.dtype, u.with_x(fill=other_numbers(u.x.fill)))
        for dtype in first_few(("bfloat16", "float64"), precision):
            yield outside("dtype", dtype, u.with_each(dtype=dtype))
        if subject.whole and precision == "fp32":
            yield outside("dtype", "int32", u.with_each(dtype="int32"))
    else:
        yield limit("dtype", "float32", u.with_x(fill=Fill("ramp")))
        yield outside("dtype", "bfloat16", u.with_x(dtype="bfloat16"))


def quantized_neighbors(subject: Subject, u: Call, precision: str) -> Iterator[CaseDraft]:
    """Dequantize and quantize nodes around an operator that computes in floats, and only on one side of another."""
    if precision == "fp32" and subject.config.supports == FLOAT:
        yield placed("between_dequantize_and_quantize", between_codes(u))
    if is_static(precision):
        for variant, graph in float_neighbors(u):
            yield outside("quantized", variant, graph) if subject.product else placed(variant, graph)


# ------------------------------------------------------------------------------------ integers


def integer_everywhere(subject: Subject, precision: str, limits: Limits) -> list[CaseDraft]:
    """What every row has."""
    return [
        *integer_sizes(subject, precision, limits),
        *integer_surroundings(subject, precision),
        *(additional_checks(subject.model(subject.call(precision))) if "additional_check" in limits else ()),
        *(on_integers(subject, limits) if precision == INTEGERS else quantization(subject, precision, limits)),
        *integer_fills(subject, precision),
    ]


BITS = (1.0, 0.0, 0.0, 1.0, 1.0)
ZEROS = (0.0,)
NEGATING = ("aten.neg.default",)


def on_integers(subject: Subject, limits: Limits) -> Iterator[CaseDraft]:
    """Numbers of up to 32 bits, with a sign."""
    u = subject.call(INTEGERS)
    limited = tuple(v for v in u.values if not v.constant)
    yield limit("no_int64", limited[0].dtype, subject.model(u))
    yield outside("no_int64", "int64", subject.model(u.with_each(dtype="int64")))
    code = "uint8" if "uint8" in limits else "code_dtype"
    if code in limits and u.op != CAST:
        limits.value(code, ())
        yield limit(code, f"plain_{limited[0].dtype}", subject.model(u))
        yield outside(code, "plain_uint8", subject.model(zeros_and_ones(u.with_each(dtype="uint8"))))


def zeros_and_ones(u: Call) -> Call:
    """The call on 0 and 1 alone, and 0 for anything that is taken from them: no result needs a sign."""
    x, *others = u.values
    nothing = (replace(v, fill=Fill("zero")) for v in others)
    return replace(u, values=(replace(x, fill=Fill("list", values=ZEROS if u.op in NEGATING else BITS)), *nothing))
