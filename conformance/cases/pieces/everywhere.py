"""What every row is asked, by the kind of its hardware: sizes, contexts, dtypes, quantization, options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from npu_assay.conformance.cases.drafts import CaseDraft, limit, outside, placed
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, f32
from npu_assay.conformance.cases.pieces.contexts import (
    CAST,
    between_codes,
    float_neighbors,
    floats_around,
    integers_around,
)
from npu_assay.conformance.cases.pieces.options import (
    additional_checks,
    config_precisions,
    configs,
    first_few,
    per_op_mode,
)
from npu_assay.conformance.cases.pieces.quantization import quantization
from npu_assay.conformance.cases.pieces.sizes import baseline, nonempty, open_sizes, ranks, shapes, static_shapes
from npu_assay.conformance.cases.pieces.spelling import FLOATS, INTEGERS, QUANTIZED, activations, is_static
from npu_assay.conformance.cases.pieces.subject import FLOAT, Subject
from npu_assay.conformance.cases.pieces.values import numbers, other_numbers
from npu_assay.conformance.programs.graph import Fill, Quant

BITS, ZEROS = (1.0, 0.0, 0.0, 1.0, 1.0), (0.0,)
NEGATING = ("aten.neg.default",)


def everywhere(subject: Subject, precision: str, limits: Limits) -> list[CaseDraft]:
    """What every row has: alone and among others."""
    asked = OF_INTEGERS if precision in (*QUANTIZED, INTEGERS) else (*ALONE, *OF_FLOATS)
    return [draft for ask in asked for draft in ask(subject, precision, limits)]


def alone(subject: Subject, precision: str, limits: Limits) -> list[CaseDraft]:
    """Baseline, options and sizes."""
    return [draft for ask in ALONE for draft in ask(subject, precision, limits)]


def dtypes(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """The precision's own type; float64 and bfloat16, or codes of uint8, are outside."""
    u = subject.call(precision)
    if is_static(precision):
        unsigned = Quant(f32(0.05), 131, 0, 255, dtype="uint8")
        yield limit("dtype", "int8", u.with_x(fill=Fill("ramp")))
        codes = activations(replace(u, y=unsigned), quant=unsigned)
        yield placed("uint8", codes) if subject.config.converts else outside("dtype", "uint8", codes)
    elif precision in FLOATS:
        yield limit("dtype", u.x.dtype, u.with_x(fill=other_numbers(u.x.fill)))
        for dtype in first_few(("bfloat16", "float64"), precision):
            yield outside("dtype", dtype, u.with_each(dtype=dtype))
        if subject.whole and precision == "fp32":
            yield outside("dtype", "int32", u.with_each(dtype="int32"))
    else:
        yield limit("dtype", "float32", u.with_x(fill=Fill("ramp")))
        yield outside("dtype", "bfloat16", u.with_x(dtype="bfloat16"))


def quantized_neighbors(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Dequantize and quantize nodes around an operator that computes in floats, and only on one side of another."""
    u = subject.call(precision)
    if precision == "fp32" and subject.config.supports == FLOAT:
        yield placed("between_dequantize_and_quantize", between_codes(u))
    if is_static(precision):
        for variant, graph in float_neighbors(u):
            yield outside("quantized", variant, graph) if subject.product else placed(variant, graph)


def on_integers(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Numbers of up to 32 bits, with a sign."""
    u = subject.call(INTEGERS)
    dtype = next(v for v in u.values if not v.constant).dtype
    yield limit("no_int64", dtype, u, subject.prefix)
    yield outside("no_int64", "int64", u.with_each(dtype="int64"), subject.prefix)
    code = "uint8" if "uint8" in limits else "code_dtype"
    if code in limits and u.op != CAST:
        limits.value(code, ())
        yield limit(code, f"plain_{dtype}", u, subject.prefix)
        yield outside(code, "plain_uint8", zeros_and_ones(u.with_each(dtype="uint8")), subject.prefix)


def zeros_and_ones(u: Call) -> Call:
    """The call on 0 and 1 alone, and 0 for anything that is taken from them: no result needs a sign."""
    listed = Fill("list", values=ZEROS if u.op in NEGATING else BITS)
    return u.with_each(fill=Fill("zero")).with_x(fill=listed)


def types(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Types of plain integers, or all that is about codes."""
    return (on_integers if precision == INTEGERS else quantization)(subject, precision, limits)


Ask = Callable[[Subject, str, Limits], Iterable[CaseDraft]]
ALONE: tuple[Ask, ...] = (baseline, config_precisions, configs, nonempty, ranks, open_sizes)
OF_FLOATS: tuple[Ask, ...] = (dtypes, floats_around, quantized_neighbors, per_op_mode)
OF_INTEGERS: tuple[Ask, ...] = (
    *(baseline, shapes, ranks, static_shapes, integers_around, additional_checks, types, numbers),
)
"""What each kind of hardware is asked, in the order of its cases."""
