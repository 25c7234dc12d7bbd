"""Linear layers, and products of two matrices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from npu_assay.conformance.cases.integer.common import Family, Subject, everywhere, scales_of
from npu_assay.conformance.cases.integer.spelling import LINEAR, codes_quant, is_wide, other_type, spelled
from npu_assay.conformance.cases.integer.weights import (
    B,
    W,
    in_steps,
    ratios,
    single,
    weighted,
    with_weight,
)
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    Draft,
    Q,
    Use,
    X,
    accepted,
    activation,
    bias_quant,
    constant,
    fitting_weight_scale,
    limit,
    model,
    outside,
    quant,
    valued,
    weight_quant,
)
from npu_assay.conformance.programs.graph import Fill, Ref


def _linear(shape: tuple[int, ...], outputs: int = 4, bias: bool = True) -> Use:
    inputs = shape[-1]
    scale = fitting_weight_scale(Q, Q, inputs)
    w, b = (
        constant("w", (outputs, inputs), weight_quant(scale)),
        constant("b", (outputs,), bias_quant(Q, weight_quant(scale))),
    )
    return Use(LINEAR, (activation("x", shape), w, *((b,) if bias else ())), (X, W, *((B,) if bias else ())), Q)


def linear_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.linear.default: any rank."""
    shapes = ((7,), (2, 3, 7), (1, 1), (2, 3, 4, 5))
    subject = Subject(_linear, (3, 7), shapes)
    drafts = everywhere(subject, precision, limits)
    drafts += weighted(lambda: _linear((3, 7)), precision, limits)
    for name, u in (
        ("no_bias", _linear((3, 7), bias=False)),
        ("one_output", _linear((3, 7), 1)),
        ("many", _linear((2, 65), 33)),
    ):
        drafts.append(accepted(name, model(spelled(u, precision))))
    if is_wide(precision):
        drafts += wide_sums(precision)
    if "weight_sum" in limits:
        drafts += weight_sums(precision, limits)
    return [*drafts, *ratios(precision, single(precision, LINEAR))]


def wide_sums(precision: str) -> Iterator[Draft]:
    """Sums past 32 bits, and one past 24 bits that a code less would round the other way."""
    for name in ("min", "max"):
        u = spelled(_linear((2, 640), 3), precision)
        x = replace(u.values[0], fill=Fill(name))
        yield valued(f"long_sums_{name}", model(with_weight(replace(u, values=(x, *u.values[1:])), fill=Fill("max"))))
    u = spelled(_linear((1, 8), 2), precision)
    scales, fills = (2.0**-8, 2.0**-7, 2.0**-15), (Fill("max"), Fill("max"), Fill("list", values=(503,)))
    values = (
        replace(v, quant=in_steps(v.quant, s), fill=fill) for v, s, fill in zip(u.values, scales, fills, strict=True)
    )
    # 8 * 32767 * 127 + 503 = 32511 * 1024 + 511
    yield valued("just_below_a_tie", model(replace(u, values=tuple(values), y=in_steps(u.y, 2.0**-5))))


def weight_sums(precision: str, limits: Limits) -> Iterator[Draft]:
    """Ethos-U55's accumulators: the largest weights, as many as fit."""
    most = limits.number("weight_sum", 127 * 65536, 127 * 1024, 127 * 65536)
    for count, side in ((most // 127, limit), (most // 127 + 1, outside)):
        u = spelled(_linear((1, count), 1), precision)
        yield side("weight_sum", f"{count}_weights_of_127", model(with_weight(u, fill=Fill("max"))))
    code = next(code for code in range(127, 0, -1) if (most + 1) % code == 0)
    u = spelled(_linear((1, (most + 1) // code), 1), precision)
    name = f"{(most + 1) // code}_weights_of_{code}"
    yield outside("weight_sum", name, model(with_weight(u, fill=Fill("list", values=(code,)))))


# ------------------------------------------------------------------------------------ two matrices


def matrix_cases(op: str, precision: str, limits: Limits) -> list[Draft]:
    """aten.mm.default and aten.bmm.default: both matrices may be computed."""
    batch = (2,) if op.startswith("aten.bmm") else ()

    def at(shape: tuple[int, ...], columns: int = 3) -> Use:
        other = activation("y", (*batch, shape[-1], columns), quant(0.03125, -7))
        return Use(op, (activation("x", shape), other), (X, Ref("y")), quant(0.3, 1))

    subject = Subject(at, (*batch, 4, 5), ((*batch, 1, 1), (*batch, 1, 7), (*batch, 8, 16)), None, deep=False)
    u = subject.use(precision)
    x, y = u.values
    drafts = everywhere(subject, precision, limits)
    assert y.quant is not None
    scales = scales_of(y.quant, len(y.shape) - 1, y.shape[-1])
    drafts += [
        accepted("constant", model(replace(u, values=(x, replace(y, constant=True))))),
        outside(
            "per_tensor",
            "a_scale_for_each_column",
            model(replace(u, values=(x, replace(y, quant=scales, constant=True)))),
        ),
        accepted("one_column", model(spelled(at((*batch, 4, 5), 1), precision))),
        outside("mixed_dtype", "second_matrix", model(replace(u, values=(x, replace(y, quant=other_type(precision)))))),
        outside("static_shape", "open_rows", model(replace(u, values=(replace(x, dynamic=(len(batch),)), y)))),
    ]
    for name, fill in (("both_min", Fill("min")), ("both_max", Fill("max"))):
        drafts.append(valued(name, model(replace(u, values=tuple(replace(v, fill=fill) for v in u.values)))))
    if "code_dtype" in limits:
        limits.value("code_dtype", ())
        drafts.append(limit("code_dtype", "int8", model(u)))
        drafts.append(outside("code_dtype", "int16", model(spelled(at((*batch, 4, 5)), "int16"))))
    if "max_size" in limits:
        most = limits.number("max_size", 65536, 1024, 65536)
        for size, side in ((most, limit), (most + 1, outside)):
            drafts.append(side("max_size", f"{size}_columns", model(spelled(at((*batch, 1, 1), size), precision))))
    # 5 products of codes: below 2**17 (2**33, of which results have 32 bits).
    bits = -2 if is_wide(precision) else 13
    for name, side, ratio in (
        ("largest", limit, 2.0**bits * (1 - 2.0**-20)),
        ("too_large", outside, 2.0 ** (bits + is_wide(precision))),
    ):
        finer = 256 if is_wide(precision) else 1
        values = (
            replace(x, quant=codes_quant(precision, quant(1.0))),
            replace(y, quant=codes_quant(precision, quant(ratio * finer))),
        )
        drafts.append(
            side("rescale", f"{name}_ratio", model(replace(u, values=values, y=codes_quant(precision, quant(1.0)))))
        )
    return drafts


FAMILIES: Mapping[str, Family] = {
    LINEAR: linear_cases,
    "aten.bmm.default": partial(matrix_cases, "aten.bmm.default"),
    "aten.mm.default": partial(matrix_cases, "aten.mm.default"),
}
