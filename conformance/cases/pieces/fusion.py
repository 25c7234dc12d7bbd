"""sigmoid and tanh after convolutions and matrix products, which need the product's own quantization in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from npu_assay.conformance.cases.around import behind_conv
from npu_assay.conformance.cases.drafts import CaseDraft, limit, outside
from npu_assay.conformance.cases.make import RELU, SUBJECT, Call, Q, X, activation, bias_quant, constant, model
from npu_assay.conformance.cases.pieces.neighbors import matrix_weights
from npu_assay.conformance.cases.pieces.quantization import PROBABILITY, TANH, UP_TO_6
from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step, Value

VIEW = "aten.view_copy.default"
FUSED = "fused_activation"
SIGMOID = "aten.sigmoid.default"
TANGENT = "aten.tanh.default"
UNFUSABLE: Sequence[tuple[str, str, Quant]] = (("sigmoid", SIGMOID, PROBABILITY), ("tanh", TANGENT, TANH))


def followed(u: Call, op: str, y: Quant, through: tuple[int, ...] | None = None) -> Graph:
    """An activation after `u`, whose quantization is the only one after it unless `u` has its own.

    through: the shape of a reshape in between.
    """
    graph = model(u)
    view = Step("view", VIEW, (Ref(SUBJECT), through), (), u.y)
    between = () if through is None else (view,)
    last = Step("activation", op, (Ref("view" if between else SUBJECT),), (), y)
    return Graph(graph.values, (*graph.steps, *between, last), (Ref("activation"),))


def before_activations(u: Call, shape: tuple[int, ...], kind: str = "") -> list[CaseDraft]:
    """A product whose result has this shape, before activations. `kind` ends the cases' names."""
    bare, flat = replace(u, y=None), (prod(shape),)
    return [
        limit(FUSED, f"before_relu{kind}", followed(bare, RELU, UP_TO_6)),
        *(limit(FUSED, f"quantised_before_{name}{kind}", followed(u, op, y)) for name, op, y in UNFUSABLE),
        *(outside(FUSED, f"before_{name}{kind}", followed(bare, op, y)) for name, op, y in UNFUSABLE),
        *(outside(FUSED, f"before_view_and_{name}{kind}", followed(bare, op, y, flat)) for name, op, y in UNFUSABLE),
    ]


def after_products(u: Call) -> list[CaseDraft]:
    """An activation of an image or a matrix, after products with and without quantization of their own."""
    image = u.with_x(shape=(1, 5, 4, 6))
    matrix = u.with_x(shape=(3, 5))
    flat = u.with_x(shape=(120,))
    return [
        limit(FUSED, "behind_quantised_conv", image, behind_conv),
        limit(FUSED, "behind_quantised_mm", matrix, _behind_mm),
        limit(FUSED, "behind_quantised_addmm", matrix, _behind_addmm),
        outside(FUSED, "behind_conv", without_quant(model(image, behind_conv))),
        outside(FUSED, "behind_mm", without_quant(model(matrix, _behind_mm))),
        outside(FUSED, "behind_addmm", without_quant(model(matrix, _behind_addmm))),
        outside(FUSED, "behind_conv_and_view", without_quant(model(flat, _behind_conv_and_view))),
    ]


Before = tuple[tuple[Value, ...], tuple[Step, ...], Ref]


def without_quant(graph: Graph) -> Graph:
    """The same model without quantization before the subject."""
    steps = tuple(step if step.name == SUBJECT else replace(step, quant=None) for step in graph.steps)
    return replace(graph, steps=steps)


def _behind_mm(u: Call) -> Before:
    """Behind a product with constant weights that makes a matrix of `x`'s shape."""
    x = u.x
    rows, columns = x.shape
    values = (activation("x", (rows, 7), x.quant), matrix_weights(7, columns, y=x.quant or Q))
    return values, (Step("before", "aten.mm.default", (X, Ref("w")), (), x.quant),), Ref("before")


def _behind_addmm(u: Call) -> Before:
    """The same with a bias."""
    values, (product,), operand = _behind_mm(u)
    x, weights = values
    assert x.quant is not None and weights.quant is not None
    bias = constant("bias", u.x.shape[-1:], bias_quant(x.quant, weights.quant))
    added = replace(product, op="aten.addmm.default", args=(Ref("bias"), *product.args))
    return (*values, bias), (added,), operand


def _behind_conv_and_view(u: Call) -> Before:
    """Behind a convolution that makes an image of 5 x 4 x 6, which a reshape flattens."""
    image = u.with_x(shape=(1, 5, 4, 6))
    values, steps, operand = behind_conv(image)
    view = Step("view", VIEW, (operand, u.x.shape), (), u.x.quant)
    return values, (*steps, view), Ref("view")
