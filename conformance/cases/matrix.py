"""Matrix products: addmm, mm, bmm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from npu_assay.conformance.cases import fusion
from npu_assay.conformance.cases.baseline import addmm, matrix_weights
from npu_assay.conformance.cases.limits import Limits, around
from npu_assay.conformance.cases.make import (
    SUBJECT,
    Draft,
    Q,
    Use,
    X,
    accepted,
    activation,
    behind_abs,
    behind_conv,
    bias_quant,
    constant,
    filled,
    fitting_weight_scale,
    inside,
    limit,
    model,
    outside,
    placed,
    quant,
    silent,
    step,
    use,
    valued,
    weight_quant,
)
from npu_assay.conformance.cases.shared import BELOW, contexts, fills, named, one_hots, rescale_limit
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value

SIZES = ((1, 1, 1), (1, 7, 1), (3, 1, 5), (4, 16, 8), (1, 33, 9), (5, 64, 3), (2, 130, 2))


def mm(m: int, k: int, n: int, y: Quant = Q) -> Use:
    """x[m, k] @ w[k, n] with constant weights."""
    return use("aten.mm.default", (m, k), Ref("w"), y=y, more=(matrix_weights(k, n, y=y),))


def _weights(u: Use, w: Value) -> Use:
    """The same product with other weights."""
    return replace(u, values=tuple(w if value.name == "w" else value for value in u.values))


def weight_zero_points(u: Use) -> list[Draft]:
    """Constant weights are symmetric; computed ones may have any zero point."""
    w = next(value for value in u.values if value.name == "w")
    assert w.quant is not None and isinstance(w.quant.scale, float)
    scale = w.quant.scale
    computed = activation("w", w.shape, quant(scale, 0))
    return [
        limit("weight_zero_point", "constant_0", model(u)),
        *(
            outside("weight_zero_point", f"constant_{zero}".replace("-", "minus_"), model(_weights(u, moved)))
            for zero in (1, -1, -128, 127)
            for moved in [replace(w, quant=Quant(scale, zero))]
        ),
        inside("weight_zero_point", "computed_0", model(_weights(u, computed))),
        inside("weight_zero_point", "computed_5", model(_weights(u, replace(computed, quant=quant(scale, 5))))),
    ]


def linear_form(u: Use) -> Graph:
    """The weights are stored [n, k] and transposed in front of the product, as torch's linear is lowered."""
    w = next(value for value in u.values if value.name == "w")
    stored = replace(w, shape=(w.shape[1], w.shape[0]))
    turn = Step("turn", "aten.permute_copy.default", (Ref("w"), (1, 0)), (), None)
    product = replace(step(u), args=tuple(Ref("turn") if a == Ref("w") else a for a in u.args))
    return Graph(_weights(u, stored).values, (turn, product), (Ref(SUBJECT),))


def shared_weights(u: Use) -> Graph:
    """Two products in a row with the same square weights (and bias)."""
    graph = model(u)
    return Graph(graph.values, (*graph.steps, step(u, Ref(SUBJECT), "again")), (Ref("again"),))


def product_numbers(u: Use) -> list[Draft]:
    """Extremes, ramps, single elements; weights of extremes, single elements; several output quantisations."""
    w = next(value for value in u.values if value.name == "w")
    weights = {name: _weights(u, replace(w, fill=Fill(name))) for name in ("min", "max", "zero", "ramp", "alternating")}
    hot = {f"one_hot_at_{i}": _weights(u, replace(w, fill=Fill("one_hot", index=i))) for i in (0, 1, 7, 34)}
    outputs = [quant(0.05, zero) for zero in (-128, 0, 127)] + [quant(0.005, 3), quant(0.5, 3), Quant(2.0**-4, 0)]
    return [
        *fills(u),
        *one_hots(u),
        *(valued(f"weights_{name}", model(variant)) for name, variant in (weights | hot).items()),
        *(valued(f"to_{named(y)}", model(replace(u, y=y))) for y in outputs),
        valued("ramp_with_one_hot_weights", model(filled(hot["one_hot_at_7"], Fill("ramp")))),
    ]


def product_rescale(make: Callable[[Quant, float], Use]) -> list[Draft]:
    """Sums of 8 products, up to 2**17, shifted left by 14 bits, leave 32 bits."""
    past, kept = (make(quant(2.0**-13), scale) for scale in (1.0, BELOW))
    return rescale_limit(("ratio_2_to_the_13", past), ("ratio_below_2_to_the_13", kept))


def mm_cases(limits: Limits) -> list[Draft]:
    """aten.mm.default: matrices, two different inputs, symmetric constant weights."""
    limits.fixed("rank", 2)
    u = mm(3, 7, 5)
    square = use("aten.mm.default", (8, 8), X, y=quant(1.5, 2))
    return [
        limit("rank", "matrices", model(u)),
        limit("distinct_inputs", "two_inputs", model(u)),
        outside("distinct_inputs", "same_input_twice", model(square)),
        outside("distinct_inputs", "same_input_twice_behind_abs", model(square, behind_abs)),
        *weight_zero_points(u),
        *product_rescale(_mm_rescale),
        *(accepted(f"sizes_{m}_{k}_{n}", model(mm(m, k, n))) for m, k, n in SIZES),
        *fusion.products(u, (3, 5)),
        *_product_contexts(u, mm(3, 6, 6)),
        *product_numbers(u),
        *contexts(u),
    ]


def _mm_rescale(y: Quant, scale: float) -> Use:
    w = constant("w", (8, 5), weight_quant(scale))
    return use("aten.mm.default", (3, 8), Ref("w"), x=quant(1.0), y=y, more=(w,))


def _product_contexts(u: Use, square: Use) -> list[Draft]:
    return [
        placed("behind_abs", model(u, behind_abs)),
        placed("linear_form", linear_form(u)),
        placed("shared_weights", shared_weights(square)),
    ]


# ------------------------------------------------------------------------------------ addmm


def addmm_cases(limits: Limits) -> list[Draft]:
    """aten.addmm.default: as mm, alpha = beta = 1, int32 bias."""
    limits.fixed("rank", 2)
    limits.fixed("alpha", 1)
    limits.fixed("beta", 1)
    u = addmm(3, 7, 5)
    return [
        limit("rank", "matrices", model(u)),
        *_addmm_distinct(u),
        *_factors(u),
        *weight_zero_points(u),
        *_biases(u),
        *product_rescale(_addmm_rescale),
        *(accepted(f"sizes_{m}_{k}_{n}", model(addmm(m, k, n))) for m, k, n in SIZES),
        *fusion.products(u, (3, 5)),
        *_product_contexts(u, addmm(3, 6, 6)),
        *product_numbers(u),
        *contexts(u),
    ]


def _addmm_rescale(y: Quant, scale: float) -> Use:
    product = _mm_rescale(y, scale)
    bias = constant("bias", (5,), bias_quant(quant(1.0), weight_quant(scale)))
    return Use("aten.addmm.default", (*product.values, bias), (Ref("bias"), X, Ref("w")), y)


def _addmm_distinct(u: Use) -> list[Draft]:
    bias = constant("bias", (8,), bias_quant(Q, Q))
    square = Use(u.op, (activation("x", (8, 8)), bias), (Ref("bias"), X, X), quant(1.5, 2))
    return [
        limit("distinct_inputs", "three_inputs", model(u)),
        outside("distinct_inputs", "same_matrix_twice", model(square)),
        outside("distinct_inputs", "same_matrix_twice_behind_abs", model(square, behind_abs)),
    ]


def _factors(u: Use) -> list[Draft]:
    """alpha and beta, each spelled as whole and as fractional number."""
    drafts = [limit("alpha", "default", model(u)), limit("beta", "default", model(u))]
    for name in ("alpha", "beta"):
        for value in (1, 1.0):
            drafts.append(limit(name, f"{value}", model(replace(u, kwargs=((name, value),)))))
        for value in (2, 0, 0.5, -1):
            text = str(value).replace("-", "minus_")
            drafts.append(outside(name, text, model(replace(u, kwargs=((name, value),)))))
    both = (("beta", 1), ("alpha", 1))
    return [*drafts, inside("alpha", "both_1", model(replace(u, kwargs=both)))]


def _biases(u: Use) -> list[Draft]:
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
    single = addmm(3, 7, 1)
    return [
        limit("static_bias", "one_element_per_output", model(u)),
        limit("static_bias", "one_output", model(single)),
        silent("static_bias", "as_a_row", model(replace(u, values=(x, w, replace(bias, shape=(1, 5)))))),
        *(outside("static_bias", name, model(replace(u, values=(x, w, other)))) for name, other in off.items()),
        *(
            valued(f"bias_{name}", model(replace(u, values=(x, w, replace(bias, fill=Fill(name))))))
            for name in ("min", "max", "zero", "alternating")
        ),
    ]


# ------------------------------------------------------------------------------------ bmm


def bmm(batch: int, m: int, k: int, n: int, x: Quant = Q, z: Quant = Q, y: Quant | None = None) -> Use:
    """x[batch, m, k] @ z[batch, k, n], both computed."""
    fit = quant(3 * 0.05 * 0.05 * 73.9**2 * k**0.5 / 127, 2) if y is None else y
    return use("aten.bmm.default", (batch, m, k), Ref("z"), x=x, y=fit, more=(activation("z", (batch, k, n), z),))


def bmm_cases(limits: Limits) -> list[Draft]:
    """aten.bmm.default: every matrix dimension of both operands a multiple of 8, any batch."""
    limits.fixed("rank", 3)
    m = limits.multiple("matrix_dims_multiple_of")
    u = bmm(2, m, 2 * m, m)
    weights = constant("z", (2, 2 * m, m), weight_quant(fitting_weight_scale(Q, Q, 2 * m)))
    fixed = replace(u, values=(u.values[0], weights))
    return [
        limit("rank", "matrices_in_batches", model(u)),
        *_bmm_dims(m),
        limit("distinct_inputs", "two_inputs", model(u)),
        *_bmm_distinct(m),
        *(accepted(f"batch_{size}", model(bmm(size, m, m, m))) for size in (1, 3, 8)),
        silent("distinct_inputs", "constant_operand", model(fixed)),
        placed("behind_abs", model(u, behind_abs)),
        limit("transposition", "formatless", model(bmm(1, m, m, m))),
        outside("transposition", "behind_conv", model(bmm(1, m, m, m), behind_conv)),
        *_bmm_rescale(m),
        *_bmm_numbers(u, m),
        *fills(u),
        *one_hots(u),
        *contexts(u),
    ]


def _bmm_dims(m: int) -> list[Draft]:
    code, less = "matrix_dims_multiple_of", m - 1
    fits = ((m, m, m), (3 * m, m, 2 * m), (m, 5 * m, m))
    return [
        *(limit(code, f"{a}_{b}_{c}", model(bmm(2, a, b, c))) for a, b, c in fits),
        *(outside(code, f"rows_{size}", model(bmm(2, size, m, m))) for size in around(m)),
        *(outside(code, f"inner_{size}", model(bmm(2, m, size, m))) for size in around(m)),
        *(outside(code, f"columns_{size}", model(bmm(2, m, m, size))) for size in around(m)),
        outside(code, f"all_but_batch_{less}", model(bmm(m, less, less, less))),
    ]


def _bmm_distinct(m: int) -> list[Draft]:
    square = use("aten.bmm.default", (2, m, m), X, y=quant(1.5, 2))
    return [
        outside("distinct_inputs", "same_input_twice", model(square)),
        outside("distinct_inputs", "same_input_twice_behind_abs", model(square, behind_abs)),
    ]


def _bmm_rescale(m: int) -> list[Draft]:
    """Sums of m products, each up to 2**14: `shift` is the last left shift that keeps them below 2**31."""
    shift = ((2**17 - 1) // m).bit_length() - 1
    beyond, kept = (bmm(2, m, m, m, quant(1.0), quant(scale), quant(2.0**-shift)) for scale in (1.0, BELOW))
    return rescale_limit((f"ratio_2_to_the_{shift}", beyond), (f"ratio_below_2_to_the_{shift}", kept))


def _bmm_numbers(u: Use, m: int) -> list[Draft]:
    """Zero points of all three tensors, and one element of the second operand at a time."""
    # Zero points of x, z and y, and the output's largest magnitude over its 255 steps.
    zeros = ((-128, -128, -128, 6.0), (127, 127, -128, 6.0), (0, 0, 0, 0.6), (-128, 127, 127, 6.0), (127, -3, 9, 3.0))
    quants = [(quant(0.05, a), quant(0.05, b), quant(scale, y)) for a, b, y, scale in zeros]
    ramp, second = filled(u, Fill("ramp")).values
    spots = sorted({0, 1, m, 100 % prod(second.shape), prod(second.shape) - 1})
    hot = {i: replace(u, values=(ramp, replace(second, fill=Fill("one_hot", index=i)))) for i in spots}
    return [
        *(valued(f"zero_points_{i}", model(bmm(2, m, 2 * m, m, *triple))) for i, triple in enumerate(quants)),
        *(valued(f"second_one_hot_at_{i}", model(variant)) for i, variant in hot.items()),
    ]
