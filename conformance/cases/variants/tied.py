"""Constants that operators of different kinds share: tied weights, one bias for a convolution and a linear layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from npu_assay.conformance.cases.drafts import OPERATOR, CaseDraft, placed
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.cases.variants.batch_norm import CONVOLUTIONS
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value

WIDTH = 4
"""Inputs of the linear layer."""


def tied_constants(precision: str, drafts: Sequence[CaseDraft]) -> Iterator[CaseDraft]:
    """A row's plain convolution, whose weights a transposed one has as well, or whose bias a linear layer."""
    wanted = (OPERATOR, "accept", "baseline")
    plain = next((d.graph for d in drafts if (d.constraint, d.side, d.variant) == wanted), None)
    if precision.endswith("_per_channel"):  # with one scale, they would be those of weights per tensor
        return
    if plain is None or len(plain.steps) != 1 or plain.steps[0].op not in CONVOLUTIONS or len(plain.steps[0].args) != 9:
        return
    one_scale = _with_one_scale(plain)
    if plain.steps[0].dynamic is None:
        yield placed("weights_shared_with_a_transposed_convolution", _tied_weights(one_scale))
    if plain.steps[0].args[2] is not None:
        yield placed("bias_shared_with_a_linear_layer", _tied_bias(one_scale, precision))


def _with_one_scale(graph: Graph) -> Graph:
    """The graph with one scale, the largest, for weights and integer biases that have one for each channel."""
    values = (replace(v, quant=_largest(v.quant)) if v.constant else v for v in graph.values)
    return replace(graph, values=tuple(values))


def _largest(q: Quant | None) -> Quant | None:
    return q if q is None or not isinstance(q.scale, tuple) else replace(q, scale=max(q.scale), axis=None)


def _named(graph: Graph, index: int) -> Value:
    """The value at a place of the convolution's arguments: its operand, weights or bias."""
    name = graph.steps[0].args[index].name
    return next(value for value in graph.values if value.name == name)


def _tied_weights(graph: Graph) -> Graph:
    """The weights [O, I, ...] also carry O channels of another image back to I."""
    x, weight = _named(graph, 0), _named(graph, 1)
    step = graph.steps[0]
    image = Value("image", (x.shape[0], weight.shape[0], *x.shape[2:]), x.quant, Fill(seed=11), dtype=x.dtype)
    ones, none = (1,) * (len(x.shape) - 2), (0,) * (len(x.shape) - 2)
    args = (Ref(image.name), Ref(weight.name), None, ones, none, ones, True, none, 1)
    back = Step("back", "aten.convolution.default", args, (), step.quant)
    return Graph((*graph.values, image), (step, back), (Ref(SUBJECT), Ref("back")))


def _tied_bias(graph: Graph, precision: str) -> Graph:
    """The bias is that of a layer on an input of its own, too, with the scales of the convolution."""
    x, weight, bias = (_named(graph, index) for index in range(3))
    step, count = graph.steps[0], bias.shape[0]
    given = Value("rows", (3, WIDTH), x.quant, Fill(seed=13), dtype=x.dtype)
    product = precision == ""  # of which rows know no linear
    sizes = (WIDTH, count) if product else (count, WIDTH)
    matrix = Value("matrix", sizes, weight.quant, Fill(seed=17), True, weight.dtype)
    args = (Ref(bias.name), Ref("rows"), Ref("matrix")) if product else (Ref("rows"), Ref("matrix"), Ref(bias.name))
    op = "aten.addmm.default" if product else "aten.linear.default"
    layer = Step("layer", op, args, (), step.quant, dynamic=step.dynamic)
    return Graph((*graph.values, given, matrix), (step, layer), (Ref(SUBJECT), Ref("layer")))
