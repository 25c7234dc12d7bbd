"""Random models of several operators: what no single case shows.

`random_graph(seed)` draws 1 to 8 steps over every operator of the Neutron table, some of them refused
by one of its rules. Shapes fit by construction: an operator takes a value that is there, or a new
input, and torch's shape functions say what comes out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from random_draw import BOUNDS, CLAMPS, LARGEST, Draw, Node, Q, Shape
from random_operators import (
    again,
    binary,
    clamp,
    clone,
    concatenate,
    divide,
    pad,
    permute,
    prelu,
    slices,
    softmax,
    split,
    squeeze,
    table,
    unary,
    unsqueeze,
    view,
)

from npu_assay.conformance.cases.make import bias_quant, fitting_weight_scale, quant, spread, weight_quant
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Value

# ------------------------------------------------------------------------------------ element by element


# ------------------------------------------------------------------------------------ products


def _steps_of(q: Quant | None) -> Quant:
    return Q if q is None else q


def _weights(draw: Draw, shape: Shape, x: Node, y: Quant, terms: int, axis: int | None) -> Value:
    """New weights, or those of an earlier step with the same shape."""
    earlier = [v for v in draw.values if v.constant and v.shape == shape and v.quant and v.quant.qmin == -127]
    if earlier and draw.chance(0.5):
        return draw.random.choice(earlier)
    scale = 2 * fitting_weight_scale(_steps_of(x.quant), y, terms)
    channels = 1 if axis is None else shape[axis]
    q = weight_quant(spread(scale, channels), axis) if axis is not None and draw.chance(0.6) else weight_quant(scale)
    draw.add_value(shape, q, constant=True, fill=Fill(seed=draw.random.randrange(10**6)))
    return draw.values[-1]


def _bias(draw: Draw, count: int, x: Node, w: Value, optional: bool) -> Ref | None:
    if optional and draw.chance(0.3):
        return None
    channels = w.quant is not None and isinstance(w.quant.scale, tuple) and len(w.quant.scale)
    if x.quant is None or w.quant is None or channels not in (False, count):
        return draw.add_value((count,), None, constant=True).ref
    q = bias_quant(x.quant, w.quant)
    earlier = [v for v in draw.values if v.constant and v.shape == (count,) and v.quant == q]
    if earlier and draw.chance(0.5):
        return Ref(draw.random.choice(earlier).name)
    return draw.add_value((count,), q, constant=True).ref


def _product(draw: Draw, op: str, args: Sequence[Any], y: Quant) -> None:
    """A product with its own quantization, without one, or without one and with a clamp behind it."""
    if draw.chance(0.65):
        draw.apply(op, args, y)
        return
    product = draw.apply(op, args, None)
    if draw.chance(0.85):
        draw.nodes.remove(product)  # nothing else takes it
        if draw.chance(0.85):
            name, bounds = draw.random.choice(CLAMPS), draw.random.choice(BOUNDS[:3])
            draw.apply(name, (product.ref, *(() if "relu" in name else bounds)), y)
        else:
            draw.apply("aten.view_copy.default", (product.ref, (1, -1)), y)


def convolution(draw: Draw) -> None:
    x = draw.operand(4, 4, 4, 3)
    spatial, channels = x.shape[2:], x.shape[1]
    y = draw.some_quant()
    depthwise = draw.chance(0.3) and channels > 1
    out = channels if depthwise else draw.pick(8, 16) if draw.tame else draw.pick(8, 8, 16, 4, 1, 3)
    kernel = tuple(draw.random.randint(1, min(3, size)) for size in spatial)
    inner = 1 if depthwise else channels
    w = _weights(draw, (out, inner, *kernel), x, y, inner * math.prod(kernel), 0)
    bias = _bias(draw, out, x, w, optional=True)
    stride = tuple(draw.pick(1, 1, 2, 2 if draw.tame else 3) for _ in spatial)
    padding = tuple(draw.pick(0, 0, k // 2, 1) for k in kernel)
    dilation = tuple(draw.pick(1, 1, 2) if (k - 1) * 2 < n else 1 for k, n in zip(kernel, spatial, strict=True))
    none = (0,) * len(spatial)
    args = (x.ref, Ref(w.name), bias, stride, padding, dilation, False, none, channels if depthwise else 1)
    _product(draw, "aten.convolution.default", args, y)


def transposed(draw: Draw) -> None:
    x = draw.operand(4, fits=lambda shape: shape[1] % 8 == 0)
    y, width = draw.some_quant(), draw.pick(2, 2, 4)
    out = draw.pick(8, 16, 8, 5)
    w = _weights(draw, (x.shape[1], out, 1, width), x, y, x.shape[1], 1)
    bias = _bias(draw, out, x, w, optional=True)
    stride = draw.pick(width, width, width // 2)
    args = (x.ref, Ref(w.name), bias, (1, stride), (0, 0), (1, 1), True, (0, 0), 1)
    _product(draw, "aten.convolution.default", args, y)


def linear(draw: Draw) -> None:
    """mm and addmm, with weights as they are or transposed in front, as torch's linear is lowered."""
    x = draw.operand(2)
    y, inner, out = draw.some_quant(), x.shape[1], draw.pick(8, 16, 4, 5, 1)
    turned = draw.chance(0.5)
    shape = (out, inner) if turned else (inner, out)
    w = _weights(draw, shape, x, y, inner, 0 if turned else 1)
    ref = Ref(w.name)
    bias = _bias(draw, out, x, w, optional=False)
    if turned:
        ref = draw.apply("aten.permute_copy.default", (ref, (1, 0)), None).ref
        draw.nodes.pop()
    if draw.chance(0.5):
        _product(draw, "aten.mm.default", (x.ref, ref), y)
    else:
        _product(draw, "aten.addmm.default", (bias, x.ref, ref), y)


def computed_product(draw: Draw) -> None:
    """Both operands are computed."""
    rank = draw.pick(2, 3)
    x = draw.operand(rank)
    shape = (*x.shape[:-2], x.shape[-1], draw.pick(8, 16, x.shape[-2], 8 if draw.tame else 3))
    found = [node for node in draw.nodes if len(node.shape) == rank and node.shape[:-1] == shape[:-1]]
    if found and draw.chance(0.7):
        other = draw.random.choice(found)
    else:
        other = draw.add_value(shape, draw.some_quant(), constant=draw.chance(0.2))
        if not draw.values[-1].constant:
            draw.nodes.append(other)
    draw.apply("aten.mm.default" if rank == 2 else "aten.bmm.default", (x.ref, other.ref), draw.free(x))


# ------------------------------------------------------------------------------------ windows


def pool(draw: Draw) -> None:
    rank = draw.pick(4, 4, 4, 3)
    x = draw.operand(rank)
    spatial = x.shape[2:]
    kernel = tuple(draw.random.randint(1, min(3, size)) for size in spatial)
    stride = tuple(draw.pick(1, 2, 2, 2) if draw.tame else draw.pick(1, 2, k, 3) for k in kernel)
    padding = tuple(draw.pick(0, 0, 0, k // 2) for k in kernel)
    args: tuple[Any, ...] = draw.pick((kernel,), (kernel, stride), (kernel, stride, padding))
    name = draw.pick("avg_pool", "max_pool")
    ceil = draw.chance(0.1)
    if name == "avg_pool" and len(args) == 3 and draw.chance(0.4):
        args += (ceil, draw.chance(0.5))
    elif name == "max_pool" and len(args) == 3 and draw.chance(0.4):
        args += ((1,) * len(spatial), ceil)
    if name == "max_pool" and rank == 4 and draw.chance(0.5):
        outputs = draw.pick(1, 1, 2)
        draw.apply("aten.max_pool2d_with_indices.default", (x.ref, *args), draw.same(x), outputs)
        return
    draw.apply(f"aten.{name}{rank - 2}d.default", (x.ref, *args), draw.same(x))


def adaptive(draw: Draw) -> None:
    x = draw.operand(4)
    size = tuple(
        draw.random.choice([d for d in range(1, n + 1) if n % d == 0 or draw.chance(0.2)]) for n in x.shape[2:]
    )
    draw.apply("aten._adaptive_avg_pool2d.default", (x.ref, size), draw.same(x))


def mean(draw: Draw) -> None:
    x = draw.operand(4, 4, 3, 2)
    if draw.tame:
        x = draw.operand(4)
    dims = (
        draw.pick((-1, -2), (-2, -1), (-1,))
        if draw.tame or len(x.shape) < 4
        else draw.pick((-1, -2), (2, 3), (3, 2), (1, 2))
    )
    draw.apply("aten.mean.dim", (x.ref, dims, not draw.odd(0.15)), draw.same(x))


def upsample(draw: Draw) -> None:
    x = draw.operand(4, fits=lambda shape: math.prod(shape) <= LARGEST // 4)
    factor = draw.pick(2.0, 2.0, 4.0, 3.0)
    if draw.chance(0.5):
        draw.apply("aten.upsample_nearest2d.vec", (x.ref, None, (factor, factor)), draw.same(x))
    else:
        args = (x.ref, None, draw.chance(0.5), (factor, factor))
        draw.apply("aten.upsample_bilinear2d.vec", args, draw.same(x))


FAMILIES: Sequence[tuple[Callable[[Draw], object], int]] = (
    (unary, 3),
    (clamp, 3),
    (table, 2),
    (softmax, 1),
    (prelu, 1),
    (binary, 5),
    (divide, 2),
    (concatenate, 4),
    (slices, 2),
    (split, 2),
    (view, 4),
    (squeeze, 2),
    (unsqueeze, 2),
    (permute, 2),
    (clone, 2),
    (pad, 2),
    (convolution, 7),
    (transposed, 1),
    (linear, 4),
    (computed_product, 2),
    (pool, 5),
    (adaptive, 1),
    (mean, 2),
    (upsample, 1),
    (again, 1),
)


def random_graph(seed: int) -> Graph:
    """The model of a seed: always the same one."""
    random = Random(seed)
    scales = [2.0 ** random.uniform(-7, -1) for _ in range(2)]
    quants = tuple(quant(scale, random.choice((0, 3, -128, random.randint(-128, 127)))) for scale in scales)
    draw = Draw(random, (quants[0], quants[0], quants[1]), random.random() < 0.5)
    families, weights = zip(*FAMILIES, strict=True)
    for family in random.choices(families, weights, k=random.randint(1, 8)):
        family(draw)
        draw.nodes = [node for node in draw.nodes if math.prod(node.shape) <= LARGEST]
    return Graph(tuple(draw.values), tuple(draw.steps), returned(draw))


def returned(draw: Draw) -> tuple[Ref, ...]:
    """Every result that nothing takes (its first, where none of several is taken), and some that something does."""
    taken = {ref for step in draw.steps for ref in _references(step.args)}
    names = {ref.name for ref in taken}
    returned = []
    for step in draw.steps:
        for index in range(step.outputs):
            ref = Ref(step.name, index)
            free = ref not in taken and (step.name not in names or draw.chance(0.5))
            wanted = draw.chance(0.6) if index else step.name not in names
            if (free and wanted) or draw.chance(0.08):
                returned.append(ref)
    if draw.odd(0.05):
        value = draw.random.choice(draw.values)
        returned.append(draw.random.choice(returned) if value.constant else Ref(value.name))
    if draw.chance(0.15):
        draw.random.shuffle(returned)
    return tuple(returned)


def _references(argument: Any) -> list[Ref]:
    if isinstance(argument, Ref):
        return [argument]
    return [ref for item in argument for ref in _references(item)] if isinstance(argument, tuple) else []
