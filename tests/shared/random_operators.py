"""Operators to draw that compute element by element or move what there is."""

from __future__ import annotations

import math
from typing import Any

from random_draw import BOUNDS, CLAMPS, PROBABILITY, TANH, Draw, Node

from npu_assay.conformance.cases.make import weight_quant
from npu_assay.conformance.programs.graph import Fill, Ref


def again(draw: Draw) -> None:
    """A constant of some product as an ordinary operand."""
    found = [v for v in draw.values if v.constant and v.quant and v.quant.axis is None and v.quant.dtype == "int8"]
    if found:
        x = draw.random.choice(found)
        op = draw.pick("aten.abs.default", "aten.relu.default", "aten.tanh.default")
        draw.apply(op, (Ref(x.name),), draw.free(Node(Ref(x.name), x.shape, x.quant)))


def unary(draw: Draw) -> None:
    op = draw.pick("aten.abs.default", "aten.neg.default", "aten.leaky_relu.default")
    x = draw.operand(1, 2, 3, 4)
    slope = (draw.pick(0.1, 0.01, 0.5, -0.3, 1.5),) if "leaky" in op and draw.chance(0.7) else ()
    draw.apply(op, (x.ref, *slope), draw.pick(draw.same, draw.free)(x))


def clamp(draw: Draw) -> None:
    _clamp(draw, draw.operand(1, 2, 3, 4))


def _clamp(draw: Draw, x: Node) -> None:
    op, bounds = draw.random.choice(CLAMPS), draw.random.choice(BOUNDS)
    if op == "aten.hardtanh.default" and bounds[1] is None:
        bounds = (0, 6)
    draw.apply(op, (x.ref, *(() if "relu" in op else bounds)), draw.pick(draw.same, draw.free)(x))


def table(draw: Draw) -> None:
    x = draw.operand(1, 2, 3, 4)
    op, y = draw.pick(("aten.sigmoid.default", PROBABILITY), ("aten.tanh.default", TANH))
    draw.apply(op, (x.ref,), draw.fixed(x, y))


def softmax(draw: Draw) -> None:
    x = draw.operand(2, 3, 4, 1)
    dim = draw.pick(-1, -1, len(x.shape) - 1, 1 if len(x.shape) > 1 else 0, 0)
    draw.apply("aten._softmax.default", (x.ref, dim, False), draw.fixed(x, PROBABILITY))


def prelu(draw: Draw) -> None:
    x = draw.operand(4, 4, 2)
    slopes = draw.add_value((draw.pick(x.shape[1], x.shape[1], 1),), weight_quant(0.004), constant=True)
    draw.apply("aten.prelu.default", (x.ref, slopes.ref), draw.free(x))


def binary(draw: Draw) -> None:
    op = draw.pick("aten.add.Tensor", "aten.add.Tensor", "aten.mul.Tensor", "aten.mul.Tensor", "aten.sub.Tensor")
    x = draw.operand(1, 2, 3, 4)
    other = draw.like(x)
    if draw.chance(0.1):  # broadcast
        other = draw.add_value(tuple(1 if draw.chance(0.5) else size for size in x.shape), draw.some_quant())
        draw.nodes.append(other)
    elif draw.chance(0.15):
        other = draw.add_value(x.shape, weight_quant(draw.pick(1.0, 0.01)), constant=True)
    args = (x.ref, other.ref) if draw.chance(0.6) else (other.ref, x.ref)
    if draw.odd(0.1):
        args = (x.ref, draw.pick(0.5, 1.0, 2, 0))
    keywords = {"alpha": draw.pick(1, 2)} if op == "aten.add.Tensor" and draw.odd(0.1) else {}
    draw.apply(op, args, draw.free(x), **keywords)


def divide(draw: Draw) -> None:
    x = draw.operand(2, 3, 4, 1)
    divisor: Any = draw.pick(2.0, -0.5, 3, 10.0)
    if draw.chance(0.5):
        shape = x.shape if draw.chance(0.8) else x.shape[-1:]
        q = draw.pick(weight_quant(0.02), weight_quant(0.02), None)
        numbers = tuple(sign * code / (1 if q else 32) for code in range(25, 127, 7) for sign in (1, -1))
        divisor = draw.add_value(shape, q, True, Fill("list", values=numbers)).ref
    draw.apply("aten.div.Tensor", (x.ref, divisor), draw.free(x))


# ------------------------------------------------------------------------------------ moving


def concatenate(draw: Draw) -> None:
    x = draw.operand(1, 2, 3, 4)
    others = [draw.like(x) for _ in range(draw.pick(1, 1, 2))]
    if draw.tame:  # different values of one quantization
        others = [node for node in draw.nodes if node.shape == x.shape and node.quant == x.quant and node != x][-2:]
        others = others or [draw.add_value(x.shape, x.quant)]
    parts = [x, *others]
    if draw.chance(0.15):
        parts.append(draw.add_value(x.shape, x.quant, constant=True))
    draw.random.shuffle(parts)
    rank = len(x.shape)
    dim = draw.pick(1 if rank > 1 else 0, -1, draw.random.randrange(-rank, rank))
    q = x.quant if draw.chance(0.8) else draw.free(x)
    draw.apply("aten.cat.default", (tuple(part.ref for part in parts), dim), q)


def slices(draw: Draw) -> None:
    x = draw.operand(1, 2, 3, 4)
    dim = draw.random.randrange(-len(x.shape), len(x.shape))
    if draw.tame and len(x.shape) > 1:
        dim = draw.pick(1, -1)
    size = x.shape[dim]
    start = draw.random.randrange(size)
    end = draw.pick(draw.random.randint(start + 1, size), size, size + 5)
    step = (2,) if draw.odd(0.2) else draw.pick((), (1,))
    draw.apply("aten.slice_copy.Tensor", (x.ref, dim, start, end, *step), draw.same(x))


def split(draw: Draw) -> None:
    x = draw.operand(1, 2, 3, 4, fits=lambda shape: max(shape) > 1)
    dims = [i for i, size in enumerate(x.shape) if size > 1] or [0]
    dim = dims[-1] if draw.tame and draw.chance(0.5) else draw.random.choice(dims)
    size = x.shape[dim]
    op = draw.pick("aten.split.Tensor", "aten.split.sizes", "aten.split_with_sizes.default")
    if op == "aten.split.Tensor":
        chunk = draw.random.randint(max(1, size // 4), size)
        draw.apply(op, (x.ref, chunk, dim), draw.same(x), outputs=-(-size // chunk))
        return
    first = draw.random.randint(1, size)
    sizes = tuple(n for n in (first, size - first) if n)
    name = "aten.split.default" if op == "aten.split.sizes" else op
    draw.apply(name, (x.ref, sizes, dim), draw.same(x), outputs=len(sizes))


def view(draw: Draw) -> Node:
    x = draw.operand(1, 2, 3, 4)
    count = math.prod(x.shape)
    if draw.odd(0.05):
        return draw.apply("aten.view_copy.default", (x.ref, (1, *x.shape, 1, 1)), draw.same(x))
    shapes = [(count,), (1, count), (x.shape[0], -1), x.shape, tuple(reversed(x.shape)), (1, *x.shape), (*x.shape, 1)]
    for divisor in (2, 3, 4, 8):
        if count % divisor == 0:
            shapes += [(divisor, -1), (1, divisor, -1), (1, 1, divisor, -1), (1, divisor, -1, 1), (1, 1, -1, divisor)]
    return draw.apply("aten.view_copy.default", (x.ref, draw.random.choice(shapes)), draw.same(x))


def squeeze(draw: Draw) -> None:
    x = draw.operand(2, 3, 4, fits=lambda shape: 1 in shape)
    dims = tuple(i for i, size in enumerate(x.shape) if size == 1) or (0,)
    op, args = draw.pick(
        ("aten.squeeze.default", ()),
        ("aten.squeeze.dim", (draw.random.choice(dims),)),
        ("aten.squeeze.dims", (dims[:2],)),
    )
    draw.apply(op, (x.ref, *args), draw.same(x))


def unsqueeze(draw: Draw) -> None:
    x = draw.operand(1, 2, 3)
    draw.apply("aten.unsqueeze.default", (x.ref, draw.random.randint(-len(x.shape) - 1, len(x.shape))), draw.same(x))


def permute(draw: Draw) -> None:
    x = draw.operand(2, 3, 4)
    dims = list(range(len(x.shape)))
    draw.random.shuffle(dims)
    if len(dims) == 4 and draw.chance(0.6):
        dims = list(draw.pick((0, 2, 3, 1), (0, 3, 1, 2)))
    draw.apply("aten.permute_copy.default", (x.ref, tuple(dims)), draw.same(x))


def clone(draw: Draw) -> None:
    x = draw.operand(1, 2, 3, 4)
    if len(x.shape) == 4 and draw.chance(0.2):
        _there_and_back(draw, x)
    elif draw.chance(0.5):
        keywords = draw.pick({"memory_format": "contiguous_format"}, {"memory_format": "preserve_format"}, {})
        draw.apply("aten.clone.default", (x.ref,), draw.same(x), **keywords)
    else:
        order = tuple(range(len(x.shape)))
        draw.apply("dim_order_ops._clone_dim_order.default", (x.ref,), draw.same(x), dim_order=order)


def _there_and_back(draw: Draw, x: Node) -> None:
    """To channels-last, something there, and back: torch cannot view what is channels-last."""
    y = draw.apply("dim_order_ops._clone_dim_order.default", (x.ref,), draw.same(x), dim_order=(0, 2, 3, 1))
    if draw.chance(0.7):
        y = draw.apply(draw.pick("aten.abs.default", "aten.relu.default"), (y.ref,), draw.same(y))
    if draw.chance(0.7):
        draw.apply("aten.clone.default", (y.ref,), draw.same(y), memory_format="contiguous_format")
    draw.nodes = [node for node in draw.nodes if node.ref.name not in (y.ref.name, f"s{len(draw.steps) - 2}")]


def pad(draw: Draw) -> None:
    x = draw.operand(1, 2, 3, 4)
    axes = draw.random.randint(1, min(2, len(x.shape)))
    amounts = tuple(draw.pick(0, 1, 2) for _ in range(2 * axes))
    if draw.chance(0.1) and x.shape[-1] > 2:
        amounts = (-1, *amounts[1:])
    value = draw.pick((), (), (0.0,), (1.0,), (-0.3,))
    draw.apply("aten.constant_pad_nd.default", (x.ref, amounts, *value), draw.same(x))
