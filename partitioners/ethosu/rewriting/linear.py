"""Products of matrices."""

from __future__ import annotations

from math import prod

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from npu_assay.partitioners.ethosu.rewriting.writer import Writer, shape, tensor

aten = torch.ops.aten
VECTOR, MATRIX = 1, 2


def addmm(w: Writer, input: fx.Node, mat1: fx.Node, mat2: fx.Node, *, beta: float = 1, alpha: float = 1) -> fx.Node:
    """beta * input + alpha * (mat1 @ mat2)"""
    return _added(w, w.call(aten.mm.default, mat1, mat2), input, beta, alpha)


def _added(w: Writer, found: fx.Node, input: fx.Node, beta: float, alpha: float) -> fx.Node:
    if alpha != 1:
        found = w.call(aten.mul.Tensor, found, alpha)
    if beta != 1:
        input = w.call(aten.mul.Tensor, input, beta)
    return w.call(aten.add.Tensor, found, input)


def baddbmm(
    w: Writer, input: fx.Node, batch1: fx.Node, batch2: fx.Node, *, beta: float = 1, alpha: float = 1
) -> fx.Node:
    """beta * input + alpha * (batch1 @ batch2)"""
    return _added(w, w.call(aten.bmm.default, batch1, batch2), input, beta, alpha)


def matmul(w: Writer, input: fx.Node, other: fx.Node) -> fx.Node:
    """One product of matrices, or of batches of them; vectors are matrices with one row or column."""
    a, b, result = shape(input), shape(other), list(shape(w.node))
    if len(a) == MATRIX and len(b) == MATRIX:
        return w.call(aten.mm.default, input, other)
    if len(a) == VECTOR:
        input, a = w.call(aten.unsqueeze.default, input, 0), (1, *a)
    if len(b) == VECTOR:
        other, b = w.call(aten.unsqueeze.default, other, 1), (*b, 1)
    outer = result[: max(len(a), len(b)) - MATRIX]
    if not outer:
        return w.call(aten.view.default, w.call(aten.mm.default, input, other), result)
    batches = [_batch(w, each, outer) for each in (input, other)]
    return w.call(aten._unsafe_view.default, w.call(aten.bmm.default, *batches), result)


def _batch(w: Writer, matrices: fx.Node, outer: list[int]) -> fx.Node:
    """As many matrices as the result has, in one dimension."""
    last = list(shape(matrices)[-2:])
    whole = w.call(aten.expand.default, matrices, outer + last)
    return w.call(aten.reshape.default, whole, [prod(outer), *last])


def attention(
    w: Writer,
    query: fx.Node,
    key: fx.Node,
    value: fx.Node,
    attn_mask: fx.Node | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> fx.Node | None:
    """softmax(q @ k^T * scale + mask) @ v; both factors carry the root of the scale."""
    if dropout_p or enable_gqa:
        return None
    factor = (shape(query)[-1] ** -0.5 if scale is None else scale) ** 0.5
    rows = w.call(aten.mul.Tensor, query, w.filled(factor, query))
    turned = w.call(aten.transpose.int, key, -2, -1)
    columns = w.call(aten.mul.Tensor, turned, w.filled(factor, key))
    scores = w.call(aten.matmul.default, rows, columns)
    if is_causal:
        size = shape(scores)[-2:]
        attn_mask = w.stored(torch.full(size, float("-inf")).triu(1), "causal_mask")
    if attn_mask is not None:
        scores = _masked(w, scores, attn_mask)
    return w.call(aten.matmul.default, w.call(aten.softmax.int, scores, -1), value)


def _masked(w: Writer, scores: fx.Node, mask: fx.Node) -> fx.Node:
    """Booleans choose; numbers are added."""
    if tensor(mask).dtype == torch.bool:
        refused = w.call(aten.logical_not.default, mask)
        return w.call(aten.masked_fill.Scalar, scores, refused, float("-inf"))
    return w.call(aten.add.Tensor, scores, mask)


def einsum(w: Writer, equation: str, tensors: list[fx.Node], *, path: object = None) -> fx.Node:
    """What torch makes of it: permutations and a product."""
    traced = make_fx(lambda *xs: torch.einsum(equation, *xs))(*(torch.zeros(shape(x)) for x in tensors))
    twins: dict[fx.Node, fx.Node] = dict(
        zip((n for n in traced.graph.nodes if n.op == "placeholder"), tensors, strict=True)
    )
    for node in traced.graph.nodes:
        if node.op == "call_function":
            args, kwargs = fx.map_arg((node.args, node.kwargs), twins.__getitem__)
            twins[node] = w.call(node.target, *args, **kwargs)
    (result,) = traced.graph.output_node().all_input_nodes
    return twins[result]
