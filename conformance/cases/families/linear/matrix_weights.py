"""Cases of matrix products with constant weights: their zero points and scales, how they are stored, their numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from npu_assay.conformance.cases.drafts import CaseDraft, inside, limit, outside, valued
from npu_assay.conformance.cases.make import SUBJECT, Call, Q, activation, bias_quant, model, quant, step
from npu_assay.conformance.cases.pieces.quantization import BELOW, rescale_limit, scales_of
from npu_assay.conformance.cases.pieces.values import fills, named, one_hots
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value


def with_weights(u: Call, w: Value) -> Call:
    """The same product with other weights."""
    return replace(u, values=tuple(w if value.name == "w" else value for value in u.values))


def weight_zero_points(u: Call) -> list[CaseDraft]:
    """Constant weights are symmetric; computed ones may have any zero point."""
    w = u.value("w")
    assert w.quant is not None and isinstance(w.quant.scale, float)
    scale = w.quant.scale
    computed = activation("w", w.shape, quant(scale, 0))
    return [
        limit("weight_zero_point", "constant_0", u),
        *(
            outside("weight_zero_point", f"constant_{zero}".replace("-", "minus_"), with_weights(u, moved))
            for zero in (1, -1, -128, 127)
            for moved in [replace(w, quant=Quant(scale, zero))]
        ),
        inside("weight_zero_point", "computed_0", with_weights(u, computed)),
        inside("weight_zero_point", "computed_5", with_weights(u, replace(computed, quant=quant(scale, 5)))),
    ]


def per_output(u: Call) -> Call:
    """The same product, with a scale per output of its weights [k, n], and of its bias."""
    w = u.value("w")
    assert w.quant is not None
    q = scales_of(replace(w.quant, qmin=-127), 1, w.shape[1])
    scaled = {"w": q, "bias": bias_quant(Q, q)}
    return replace(u, values=tuple(replace(each, quant=scaled.get(each.name, each.quant)) for each in u.values))


def per_output_cases(u: Call) -> list[CaseDraft]:
    """As torch's quantizers make the weights of a linear layer: one scale per output, all zero points 0."""
    scaled = per_output(u)
    w = scaled.value("w")
    assert w.quant is not None
    shifted = replace(w, quant=replace(w.quant, zero_point=1))
    return [
        limit("weight_zero_point", "per_output_0", scaled),
        outside("weight_zero_point", "per_output_1", with_weights(scaled, shifted)),
        limit("weight_zero_point", "linear_form_per_output", linear_form(scaled)),
    ]


def linear_form(u: Call) -> Graph:
    """The weights are stored [n, k] and transposed before the product, as torch's linear is lowered."""
    w = u.value("w")
    q = w.quant if w.quant is None or w.quant.axis is None else replace(w.quant, axis=1 - w.quant.axis)
    stored = replace(w, shape=(w.shape[1], w.shape[0]), quant=q)
    turn = Step("turn", "aten.permute_copy.default", (Ref("w"), (1, 0)), (), None)
    product = replace(step(u), args=tuple(Ref("turn") if a == Ref("w") else a for a in u.args))
    return Graph(with_weights(u, stored).values, (turn, product), (Ref(SUBJECT),))


def shared_weights(u: Call) -> Graph:
    """Two products in a row with the same square weights (and bias)."""
    graph = model(u)
    return Graph(graph.values, (*graph.steps, step(u, Ref(SUBJECT), "again")), (Ref("again"),))


def product_numbers(u: Call) -> list[CaseDraft]:
    """Extremes, ramps, single elements; weights of extremes, single elements; several output quantizations."""
    w = u.value("w")
    weights = {
        name: with_weights(u, replace(w, fill=Fill(name))) for name in ("min", "max", "zero", "ramp", "alternating")
    }
    hot = {f"one_hot_at_{i}": with_weights(u, replace(w, fill=Fill("one_hot", index=i))) for i in (0, 1, 7, 34)}
    outputs = [quant(0.05, zero) for zero in (-128, 0, 127)] + [quant(0.005, 3), quant(0.5, 3), Quant(2.0**-4, 0)]
    return [
        *fills(u),
        *one_hots(u),
        *(valued(f"weights_{name}", variant) for name, variant in (weights | hot).items()),
        *(valued(f"to_{named(y)}", replace(u, y=y)) for y in outputs),
        valued("ramp_with_one_hot_weights", hot["one_hot_at_7"].with_x(fill=Fill("ramp"))),
    ]


def product_rescale(make: Callable[[Quant, float], Call]) -> list[CaseDraft]:
    """Sums of 8 products, up to 2**17, shifted left by 14 bits, leave 32 bits."""
    past, kept = (make(quant(2.0**-13), scale) for scale in (1.0, BELOW))
    return rescale_limit(("ratio_2_to_the_13", past), ("ratio_below_2_to_the_13", kept))
