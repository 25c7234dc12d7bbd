"""quantize_per_tensor and dequantize_per_tensor as operators of their own: between numbers and codes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from npu_assay.conformance.cases.around import behind_abs, then_abs
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, limit, outside, placed, valued
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import SUBJECT, Call, X, bare, label, model
from npu_assay.conformance.cases.pieces.everywhere import alone
from npu_assay.conformance.cases.pieces.options import with_options
from npu_assay.conformance.cases.pieces.spelling import real
from npu_assay.conformance.cases.pieces.subject import Config, Subject
from npu_assay.conformance.cases.pieces.values import SCATTERED, TELLING
from npu_assay.conformance.programs.graph import Fill, Graph, Ref, Step, Value

QUANTIZE = "quantized_decomposed.quantize_per_tensor.default"
DEQUANTIZE = "quantized_decomposed.dequantize_per_tensor.default"
WHOLE = (-128, 127)
RANGES: Mapping[str, tuple[int, int]] = {
    "uint8": (0, 255),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
}
SMALLEST = 2.0**-126  # of the normal float32 numbers
# (name, scale, zero point): what both operators take, and what they do not.
USUAL = (
    ("scale_smallest", SMALLEST, 0),
    ("scale_large", 2.0**40, 0),
    ("zero_point_127", 0.05, 127),
    ("zero_point_minus_128", 0.05, -128),
)
STRANGE = (
    ("scale_subnormal", 2.0**-127, 0),
    ("scale_negative", -0.05, 3),
    ("zero_point_128", 0.05, 128),
    ("zero_point_minus_129", 0.05, -129),
)


def float_quantize_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """quantize_per_tensor.default: to int8, the whole range, a usable scale."""
    limits.fixed("code_range", WHOLE)
    subject = Subject(quantize, config=Config("QuantizedPerTensorConfig", ("STATIC_QUANT",)))
    u = subject.call(precision)

    def codes(*parameters: Any, fill: Fill | None = None) -> Graph:
        return model(_with(u, *parameters, fill=fill))

    drafts = [
        *alone(subject, precision, limits),
        limit("dtype", u.x.dtype, u.with_x(fill=Fill("ramp"))),
        outside("dtype", "bfloat16", u.with_x(dtype="bfloat16")),
        limit("code_dtype", "int8", u),
        *(outside("code_dtype", dtype, codes(0.05, 3, *low_high, dtype)) for dtype, low_high in RANGES.items()),
        limit("code_range", "minus_128_to_127", u),
        *(
            outside("code_range", label(ends), codes(0.05, 3, *ends, "int8"))
            for ends in ((-127, 127), (0, 127), (-128, 126), (-8, 7))
        ),
        *(limit("scalar_qparams", name, codes(scale, zero, *WHOLE, "int8")) for name, scale, zero in USUAL),
        *(outside("scalar_qparams", name, codes(scale, zero, *WHOLE, "int8")) for name, scale, zero in STRANGE),
        *apart(model(u, behind_abs)),
        placed("then_dequantize", _and_back(u)),
    ]
    halves = Fill("list", values=tuple((index + 0.5) / 16 for index in range(-20, 20)))
    drafts += [
        valued("ties", codes(0.0625, 0, *WHOLE, "int8", fill=halves)),
        valued("ties_odd_zero_point", codes(0.0625, 3, *WHOLE, "int8", fill=halves)),
        valued("saturates", codes(0.001, 7, *WHOLE, "int8")),
        valued("telling", u.with_x(fill=Fill("list", values=TELLING))),
    ]
    return drafts


def float_dequantize_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """dequantize_per_tensor.default: from int8, a usable scale."""
    subject = Subject(dequantize, config=Config("DeQuantizedPerTensorConfig", ("STATIC_QUANT",)))
    u = subject.call(precision)
    x = u.x

    def numbers(*parameters: Any, dtype: str = "int8") -> Graph:
        return model(replace(_with(u, *parameters), values=(replace(x, dtype=dtype),)))

    return [
        *alone(subject, precision, limits),
        limit("dtype", "float16" if precision == "fp16" else "float32", u.with_x(fill=Fill("list", values=(1, -5)))),
        outside("dtype", "bfloat16", replace(u, kwargs=(("out_dtype", "bfloat16"),))),
        limit("code_dtype", "int8", u),
        *(
            outside("code_dtype", dtype, numbers(0.05, 3, *low_high, dtype, dtype=dtype))
            for dtype, low_high in RANGES.items()
        ),
        *(
            limit("scalar_qparams", name, numbers(scale, zero, *WHOLE, "int8"))
            for name, scale, zero in _small(precision)
        ),
        *(outside("scalar_qparams", name, numbers(scale, zero, *WHOLE, "int8")) for name, scale, zero in STRANGE),
        *apart(model(u, bare, then_abs)),
        accepted("narrow_range", numbers(0.05, 3, -127, 127, "int8")),
        valued("every_code", replace(u, values=(replace(x, shape=(1, 8, 4, 8)),))),
    ]


def _small(precision: str) -> list[tuple[str, float, int]]:
    """Half precision ends at 65504, so its scales are not large."""
    return [case for case in USUAL if precision != "fp16" or case[0] != "scale_large"]


def quantize(precision: str, shape: tuple[int, ...]) -> Call:
    """Numbers to codes."""
    return Call(QUANTIZE, (real("x", shape, precision),), (X, 0.05, 3, *WHOLE, "int8"), None)


def dequantize(precision: str, shape: tuple[int, ...]) -> Call:
    """Codes to numbers."""
    kwargs = (("out_dtype", "float16"),) if precision == "fp16" else ()
    x = Value("x", shape, None, SCATTERED, dtype="int8")
    return Call(DEQUANTIZE, (x,), (X, 0.05, 3, *WHOLE, "int8"), None, kwargs)


def _with(u: Call, *parameters: Any, fill: Fill | None = None) -> Call:
    """Other parameters, and other numbers if there are any."""
    chosen = replace(u, args=(X, *parameters))
    return chosen if fill is None else chosen.with_x(fill=fill)


def apart(graph: Graph) -> Iterator[CaseDraft]:
    """Next to an abs: in one delegate, or each in its own."""
    yield replace(placed("all_in_one_delegate", graph), delegates=1)
    draft = replace(placed("one_delegate_per_operator", graph), delegates=2)
    yield with_options(draft, ("per_op_mode", True))


def _and_back(u: Call) -> Graph:
    graph = model(u)
    back = Step("back", DEQUANTIZE, (Ref(SUBJECT), *u.args[1:]))
    return Graph(graph.values, (*graph.steps, back), (Ref("back"),))


FAMILIES: Mapping[str, Family] = {
    QUANTIZE: Family(floats=float_quantize_cases),
    DEQUANTIZE: Family(floats=float_dequantize_cases),
}
