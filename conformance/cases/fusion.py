"""sigmoid and tanh behind convolutions and matrix products, which need the product's own quantisation in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from npu_assay.conformance.cases.baseline import POSITIVE, PROBABILITY, TANH, matrix_weights
from npu_assay.conformance.cases.make import SUBJECT, Draft, Q, Use, X, activation, behind_conv, limit, model, outside
from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step, Value

CODE = "fused_activation"
VIEW = "aten.view_copy.default"
RELU, SIGMOID, TANGENT = "aten.relu.default", "aten.sigmoid.default", "aten.tanh.default"
UNFUSABLE: Sequence[tuple[str, str, Quant]] = (("sigmoid", SIGMOID, PROBABILITY), ("tanh", TANGENT, TANH))


# ------------------------------------------------------------------------------------ the product is the subject


def followed(u: Use, op: str, y: Quant, through: tuple[int, ...] | None = None) -> Graph:
    """An activation behind `u`, whose quantisation is the only one behind it unless `u` has its own.

    through: the shape of a reshape in between.
    """
    graph = model(u)
    view = Step("view", VIEW, (Ref(SUBJECT), through), (), u.y)
    between = () if through is None else (view,)
    last = Step("activation", op, (Ref("view" if between else SUBJECT),), (), y)
    return Graph(graph.values, (*graph.steps, *between, last), (Ref("activation"),))


def products(u: Use, shape: tuple[int, ...], kind: str = "") -> list[Draft]:
    """A product whose result has this shape, in front of activations. `kind` ends the cases' names."""
    bare, flat = replace(u, y=None), (prod(shape),)
    return [
        limit(CODE, f"before_relu{kind}", followed(bare, RELU, POSITIVE)),
        *(limit(CODE, f"quantised_before_{name}{kind}", followed(u, op, y)) for name, op, y in UNFUSABLE),
        *(outside(CODE, f"before_{name}{kind}", followed(bare, op, y)) for name, op, y in UNFUSABLE),
        *(outside(CODE, f"before_view_and_{name}{kind}", followed(bare, op, y, flat)) for name, op, y in UNFUSABLE),
    ]


# ------------------------------------------------------------------------------------ the activation is the subject


def activations(u: Use) -> list[Draft]:
    """An activation of an image or a matrix, behind products with and without quantisation of their own."""
    image = replace(u, values=(replace(u.values[0], shape=(1, 5, 4, 6)),))
    matrix = replace(u, values=(replace(u.values[0], shape=(3, 5)),))
    flat = replace(u, values=(replace(u.values[0], shape=(120,)),))
    return [
        limit(CODE, "behind_quantised_conv", model(image, behind_conv)),
        limit(CODE, "behind_quantised_mm", model(matrix, _behind_mm)),
        outside(CODE, "behind_conv", unquantised(model(image, behind_conv))),
        outside(CODE, "behind_mm", unquantised(model(matrix, _behind_mm))),
        outside(CODE, "behind_conv_and_view", unquantised(model(flat, _behind_conv_and_view))),
    ]


Front = tuple[tuple[Value, ...], tuple[Step, ...], Ref]


def _behind_mm(u: Use) -> Front:
    """Behind a product with constant weights that makes a matrix of `x`'s shape."""
    x = u.values[0]
    rows, columns = x.shape
    values = (activation("x", (rows, 7), x.quant), matrix_weights(7, columns, y=x.quant or Q))
    return values, (Step("before", "aten.mm.default", (X, Ref("w")), (), x.quant),), Ref("before")


def _behind_conv_and_view(u: Use) -> Front:
    """Behind a convolution that makes an image of 5 x 4 x 6, which a reshape flattens."""
    image = replace(u, values=(replace(u.values[0], shape=(1, 5, 4, 6)),))
    values, steps, operand = behind_conv(image)
    view = Step("view", VIEW, (operand, u.values[0].shape), (), u.values[0].quant)
    return values, (*steps, view), Ref("view")


def unquantised(graph: Graph) -> Graph:
    """The same model without quantisation in front of the subject."""
    steps = tuple(step if step.name == SUBJECT else replace(step, quant=None) for step in graph.steps)
    return replace(graph, steps=steps)
