"""Products of two matrices: mm, addmm, bmm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import prod

from npu_assay.conformance.cases.around import behind_abs, behind_conv
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, inside, limit, outside, placed, silent, valued
from npu_assay.conformance.cases.families.linear.matrix_weights import (
    linear_form,
    per_output,
    per_output_cases,
    product_numbers,
    product_rescale,
    shared_weights,
    weight_zero_points,
)
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits, around
from npu_assay.conformance.cases.make import (
    Call,
    Q,
    X,
    activation,
    bare,
    bias_quant,
    call,
    constant,
    fitting_weight_scale,
    label,
    quant,
    weight_quant,
)
from npu_assay.conformance.cases.pieces.contexts import contexts
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.fusion import before_activations
from npu_assay.conformance.cases.pieces.neighbors import matrix_weights
from npu_assay.conformance.cases.pieces.placed import Placed
from npu_assay.conformance.cases.pieces.quantization import BELOW, rescale_limit, scales_of
from npu_assay.conformance.cases.pieces.spelling import codes_quant, in_int8, is_wide, other_type, real, result, spelled
from npu_assay.conformance.cases.pieces.subject import Config, Subject
from npu_assay.conformance.cases.pieces.values import fills, float_layout_values, one_hots
from npu_assay.conformance.programs.graph import Fill, Quant, Ref, Step, Value

# ------------------------------------------------------------------------------------ static int8


def addmm(m: int, k: int, n: int) -> Call:
    """bias[n] + x[m, k] @ w[k, n]."""
    w = matrix_weights(k, n)
    assert w.quant is not None
    bias = constant("bias", (n,), bias_quant(Q, w.quant))
    return Call("aten.addmm.default", (activation("x", (m, k)), w, bias), (Ref("bias"), X, Ref("w")), Q)


def _plain_bmm(limits: Limits) -> Placed:
    m = limits.multiple("matrix_dims_multiple_of")
    z = activation("z", (2, 2 * m, m))
    return call("aten.bmm.default", (2, m, 2 * m), Ref("z"), more=(z,), y=quant(1.0, 2)), bare


SIZES = ((1, 1, 1), (1, 7, 1), (3, 1, 5), (4, 16, 8), (1, 33, 9), (5, 64, 3), (2, 130, 2))


def mm(m: int, k: int, n: int, y: Quant = Q) -> Call:
    """x[m, k] @ w[k, n] with constant weights."""
    return call("aten.mm.default", (m, k), Ref("w"), y=y, more=(matrix_weights(k, n, y=y),))


def static_mm_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.mm.default: matrices, two different inputs, symmetric constant weights."""
    limits.fixed("rank", 2)
    u = mm(3, 7, 5)
    square = call("aten.mm.default", (8, 8), X, y=quant(1.5, 2))
    return [
        limit("rank", "matrices", u),
        limit("distinct_inputs", "two_inputs", u),
        outside("distinct_inputs", "same_input_twice", square),
        outside("distinct_inputs", "same_input_twice_behind_abs", square, behind_abs),
        *weight_zero_points(u),
        *per_output_cases(u),
        *product_rescale(_mm_rescale),
        *(accepted(f"sizes_{m}_{k}_{n}", mm(m, k, n)) for m, k, n in SIZES),
        *before_activations(u, (3, 5)),
        *_product_contexts(u, mm(3, 6, 6), mm),
        *product_numbers(u),
        *contexts(u),
    ]


def _mm_rescale(y: Quant, scale: float) -> Call:
    w = constant("w", (8, 5), weight_quant(scale))
    return call("aten.mm.default", (3, 8), Ref("w"), x=quant(1.0), y=y, more=(w,))


def _behind_pool_and_view(u: Call) -> tuple[tuple[Value, ...], tuple[Step, ...], Ref]:
    """Behind a pool of two images, whose results of 3 x 2 x 2 a reshape makes `x` of."""
    values = (activation("image", (2, 3, 4, 4), u.x.quant or Q), *u.values[1:])
    pool = Step("pool", "aten.avg_pool2d.default", (Ref("image"), (2, 2), (2, 2)), (), u.x.quant)
    return values, (pool, Step("view", "aten.view_copy.default", (Ref("pool"), u.x.shape), (), u.x.quant)), Ref("view")


def _product_contexts(u: Call, square: Call, flattened: Callable[[int, int, int], Call]) -> list[CaseDraft]:
    """Two images are flattened to a row each, and to one row."""
    return [
        placed("behind_abs", u, behind_abs),
        *(
            placed(f"behind_pool_and_view_{m}x{k}", flattened(m, k, 5), _behind_pool_and_view)
            for m, k in ((2, 12), (1, 24))
        ),
        placed("linear_form", linear_form(u)),
        placed("shared_weights", shared_weights(square)),
    ]


# ------------------------------------------------------------------------------------ static int8: addmm


def static_addmm_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.addmm.default: as mm, alpha = beta = 1, int32 bias."""
    limits.fixed("rank", 2)
    limits.fixed("alpha", 1)
    limits.fixed("beta", 1)
    u = addmm(3, 7, 5)
    return [
        limit("rank", "matrices", u),
        *_addmm_distinct(u),
        *_factors(u),
        *weight_zero_points(u),
        *per_output_cases(u),
        *_biases(u),
        *product_rescale(_addmm_rescale),
        *(accepted(f"sizes_{m}_{k}_{n}", addmm(m, k, n)) for m, k, n in SIZES),
        *before_activations(u, (3, 5)),
        *_product_contexts(u, addmm(3, 6, 6), addmm),
        *product_numbers(u),
        *contexts(u),
    ]


def _addmm_rescale(y: Quant, scale: float) -> Call:
    product = _mm_rescale(y, scale)
    bias = constant("bias", (5,), bias_quant(quant(1.0), weight_quant(scale)))
    return Call("aten.addmm.default", (*product.values, bias), (Ref("bias"), X, Ref("w")), y)


def _addmm_distinct(u: Call) -> list[CaseDraft]:
    bias = constant("bias", (8,), bias_quant(Q, Q))
    square = Call(u.op, (activation("x", (8, 8)), bias), (Ref("bias"), X, X), quant(1.5, 2))
    return [
        limit("distinct_inputs", "three_inputs", u),
        outside("distinct_inputs", "same_matrix_twice", square),
        outside("distinct_inputs", "same_matrix_twice_behind_abs", square, behind_abs),
    ]


def _factors(u: Call) -> list[CaseDraft]:
    """alpha and beta, each spelled as whole and as fractional number."""
    drafts = [limit("alpha", "default", u), limit("beta", "default", u)]
    for name in ("alpha", "beta"):
        for value in (1, 1.0):
            drafts.append(limit(name, f"{value}", replace(u, kwargs=((name, value),))))
        for value in (2, 0, 0.5, -1):
            text = str(value).replace("-", "minus_")
            drafts.append(outside(name, text, replace(u, kwargs=((name, value),))))
    both = (("beta", 1), ("alpha", 1))
    return [*drafts, inside("alpha", "both_1", replace(u, kwargs=both))]


def _biases(u: Call) -> list[CaseDraft]:
    """The bias's shape, type and scale."""
    x, w, bias = u.values
    assert bias.quant is not None and isinstance(bias.quant.scale, float)
    off = {
        "scale_doubled": replace(bias, quant=replace(bias.quant, scale=2 * bias.quant.scale)),
        "scale_one_percent_up": replace(bias, quant=replace(bias.quant, scale=1.01 * bias.quant.scale)),
        "zero_point_1": replace(bias, quant=replace(bias.quant, zero_point=1)),
        "int8_constant": constant("bias", (5,), quant(0.01, 0)),
        "computed": activation("bias", (5,), quant(0.01, 0)),
        "one_element_for_all": replace(bias, shape=(1,)),
        "a_bias_per_element": replace(bias, shape=(3, 5)),
        "a_bias_per_row": replace(bias, shape=(3, 1)),
    }
    single, scaled = addmm(3, 7, 1), per_output(u)
    return [
        limit("static_bias", "one_element_per_output", u),
        limit("static_bias", "one_scale_per_output", scaled),
        outside("static_bias", "one_scale_for_all_outputs", replace(scaled, values=(*scaled.values[:2], bias))),
        limit("static_bias", "one_output", single),
        silent("static_bias", "as_a_row", replace(u, values=(x, w, replace(bias, shape=(1, 5))))),
        *(outside("static_bias", name, replace(u, values=(x, w, other))) for name, other in off.items()),
        *(
            valued(f"bias_{name}", replace(u, values=(x, w, replace(bias, fill=Fill(name)))))
            for name in ("min", "max", "zero", "alternating")
        ),
    ]


# ------------------------------------------------------------------------------------ static int8: bmm


def bmm(batch: int, m: int, k: int, n: int, x: Quant = Q, z: Quant = Q, y: Quant | None = None) -> Call:
    """x[batch, m, k] @ z[batch, k, n], both computed."""
    fit = quant(3 * 0.05 * 0.05 * 73.9**2 * k**0.5 / 127, 2) if y is None else y
    return call("aten.bmm.default", (batch, m, k), Ref("z"), x=x, y=fit, more=(activation("z", (batch, k, n), z),))


def static_bmm_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.bmm.default: every matrix dimension of both operands a multiple of 8, any batch."""
    limits.fixed("rank", 3)
    m = limits.multiple("matrix_dims_multiple_of")
    u = bmm(2, m, 2 * m, m)
    weights = constant("z", (2, 2 * m, m), weight_quant(fitting_weight_scale(Q, Q, 2 * m)))
    fixed = replace(u, values=(u.x, weights))
    return [
        limit("rank", "matrices_in_batches", u),
        *_bmm_dims(m),
        limit("distinct_inputs", "two_inputs", u),
        *_bmm_distinct(m),
        *(accepted(f"batch_{size}", bmm(size, m, m, m)) for size in (1, 3, 8)),
        silent("distinct_inputs", "constant_operand", fixed),
        placed("behind_abs", u, behind_abs),
        limit("transposition", "formatless", bmm(1, m, m, m)),
        outside("transposition", "behind_conv", bmm(1, m, m, m), behind_conv),
        *_bmm_rescale(m),
        *_bmm_zero_points(m),
        *_bmm_numbers(u, m, equal="equal_zero_points" in limits),
        *fills(u),
        *one_hots(u),
        *contexts(u),
    ]


def _bmm_dims(m: int) -> list[CaseDraft]:
    code, less = "matrix_dims_multiple_of", m - 1
    fits = ((m, m, m), (3 * m, m, 2 * m), (m, 5 * m, m))
    return [
        *(limit(code, f"{a}_{b}_{c}", bmm(2, a, b, c)) for a, b, c in fits),
        *(outside(code, f"rows_{size}", bmm(2, size, m, m)) for size in around(m)),
        *(outside(code, f"inner_{size}", bmm(2, m, size, m)) for size in around(m)),
        *(outside(code, f"columns_{size}", bmm(2, m, m, size)) for size in around(m)),
        outside(code, f"all_but_batch_{less}", bmm(m, less, less, less)),
    ]


def _bmm_distinct(m: int) -> list[CaseDraft]:
    square = call("aten.bmm.default", (2, m, m), X, y=quant(1.5, 2))
    return [
        outside("distinct_inputs", "same_input_twice", square),
        outside("distinct_inputs", "same_input_twice_behind_abs", square, behind_abs),
    ]


def _bmm_rescale(m: int) -> list[CaseDraft]:
    """Sums of m products, each up to 2**14: `shift` is the last left shift that keeps them below 2**31."""
    shift = ((2**17 - 1) // m).bit_length() - 1
    beyond, kept = (bmm(2, m, m, m, quant(1.0), quant(scale), quant(2.0**-shift)) for scale in (1.0, BELOW))
    return rescale_limit((f"ratio_2_to_the_{shift}", beyond), (f"ratio_below_2_to_the_{shift}", kept))


def _bmm_zero_points(m: int) -> list[CaseDraft]:
    """Both operands have the same zero point."""
    code, pairs = "equal_zero_points", ((3, 4), (4, 3), (0, 1), (-128, 127), (127, 0), (-1, 1))

    def at(a: int, b: int) -> Call:
        return bmm(2, m, m, m, quant(0.05, a), quant(0.03, b))

    return [
        *(limit(code, f"both_{label(zero)}", at(zero, zero)) for zero in (-128, -1, 0, 5, 127)),
        *(outside(code, f"{label(a)}_and_{label(b)}", at(a, b)) for a, b in pairs),
    ]


def _bmm_numbers(u: Call, m: int, equal: bool) -> list[CaseDraft]:
    """Zero points of all three tensors, and one element of the second operand at a time.

    equal: only those of one zero point for both operands.
    """
    # Zero points of x, z and y, and the output's largest magnitude over its 255 steps.
    zeros = ((-128, -128, -128, 6.0), (127, 127, -128, 6.0), (0, 0, 0, 0.6), (-128, 127, 127, 6.0), (127, -3, 9, 3.0))
    permitted = [each for each in zeros if each[0] == each[1] or not equal]
    quants = [(quant(0.05, a), quant(0.05, b), quant(scale, y)) for a, b, y, scale in permitted]
    ramp, second = u.with_x(fill=Fill("ramp")).values
    spots = sorted({0, 1, m, 100 % prod(second.shape), prod(second.shape) - 1})
    hot = {i: replace(u, values=(ramp, replace(second, fill=Fill("one_hot", index=i)))) for i in spots}
    return [
        *(valued(f"zero_points_{i}", bmm(2, m, 2 * m, m, *triple)) for i, triple in enumerate(quants)),
        *(valued(f"second_one_hot_at_{i}", variant) for i, variant in hot.items()),
    ]


# ------------------------------------------------------------------------------------ floats


BMM = "aten.bmm.default"


def float_bmm_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.bmm.default: any two batches that fit."""
    subject = Subject(
        _float_product,
        deep=False,
        config=Config("BMMConfig"),
        shape=(2, 3, 5),
        single=(1, 1, 1),
        empty=(0, 3, 5),
        open=((0,), (1,), (0, 1)),
    )
    drafts = everywhere(subject, precision, limits)
    for batch, rows, terms, columns in ((1, 1, 7, 1), (1, 4, 1, 3), (3, 1, 5, 6), (2, 9, 64, 3), (5, 2, 2, 17)):
        u = _float_bmm(precision, (batch, rows, terms), columns)
        drafts.append(accepted(f"sizes_{batch}_{rows}_{terms}_{columns}", u))
    square, u = _float_bmm(precision, (2, 3, 3), 3), subject.call(precision)
    x, y = u.values
    drafts += [
        accepted("same_tensor_twice", replace(square, values=square.values[:1], args=(X, X))),
        accepted("constant_operand", replace(u, values=(x, replace(y, constant=True)))),
        accepted("rows_without_elements_in_common", _float_bmm(precision, (2, 3, 1), 1)),
        outside("nonempty", "no_terms", _float_bmm(precision, (2, 3, 0), 4)),
        *float_layout_values(u),
    ]
    return drafts


def _float_product(precision: str, shape: tuple[int, ...]) -> Call:
    return _float_bmm(precision, shape, 4)


def _float_bmm(precision: str, shape: tuple[int, ...], columns: int) -> Call:
    batch, _, terms = shape
    values = (real("x", shape, precision), real("y", (batch, terms, columns), precision))
    return Call(BMM, values, (X, Ref("y")), result(precision))


# ------------------------------------------------------------------------------------ integers


def integer_matrix_cases(op: str, precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.mm.default and aten.bmm.default: both matrices may be computed."""
    batch = (2,) if op.startswith("aten.bmm") else ()

    def at(shape: tuple[int, ...], columns: int = 3) -> Call:
        other = activation("y", (*batch, shape[-1], columns), quant(0.03125, -7))
        return Call(op, (activation("x", shape), other), (X, Ref("y")), quant(0.3, 1))

    subject = Subject(
        in_int8(at), shape=(*batch, 4, 5), shapes=((*batch, 1, 1), (*batch, 1, 7), (*batch, 8, 16)), open=(), deep=False
    )
    u = subject.call(precision)
    x, y = u.values
    drafts = everywhere(subject, precision, limits)
    assert y.quant is not None
    scales = scales_of(y.quant, len(y.shape) - 1, y.shape[-1])
    drafts += [
        accepted("constant", replace(u, values=(x, replace(y, constant=True)))),
        outside(
            "per_tensor", "a_scale_for_each_column", replace(u, values=(x, replace(y, quant=scales, constant=True)))
        ),
        accepted("one_column", spelled(at((*batch, 4, 5), 1), precision)),
        outside("mixed_dtype", "second_matrix", replace(u, values=(x, replace(y, quant=other_type(precision))))),
        outside("static_shape", "open_rows", replace(u, values=(replace(x, dynamic=(len(batch),)), y))),
    ]
    for name, fill in (("both_min", Fill("min")), ("both_max", Fill("max"))):
        drafts.append(valued(name, replace(u, values=tuple(replace(v, fill=fill) for v in u.values))))
    if "code_dtype" in limits:
        limits.value("code_dtype", ())
        drafts += [limit("code_dtype", "int8", u), outside("code_dtype", "int16", spelled(at((*batch, 4, 5)), "int16"))]
    if "max_size" in limits:
        most = limits.number("max_size", 65536, 1024, 65536)
        for size, side in ((most, limit), (most + 1, outside)):
            drafts.append(side("max_size", f"{size}_columns", spelled(at((*batch, 1, 1), size), precision)))
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
        drafts.append(side("rescale", f"{name}_ratio", replace(u, values=values, y=codes_quant(precision, quant(1.0)))))
    return drafts


MM = "aten.mm.default"
ADDMM = "aten.addmm.default"
FAMILIES: Mapping[str, Family] = {
    ADDMM: Family(plain=lambda limits: (addmm(3, 7, 5), bare), static=static_addmm_cases),
    BMM: Family(
        plain=_plain_bmm, static=static_bmm_cases, floats=float_bmm_cases, integers=partial(integer_matrix_cases, BMM)
    ),
    MM: Family(
        plain=lambda limits: (mm(3, 7, 5), bare), static=static_mm_cases, integers=partial(integer_matrix_cases, MM)
    ),
}
