"""Random models of several operators: what no single case shows.

`random_graph(seed)` draws 1 to 8 steps over every operator of the Neutron table, some of them refused
by one of its rules. Shapes fit by construction: an operator takes a value that is there, or a new
input, and torch's shape functions say what comes out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch

from npu_assay.conformance.cases.make import bias_quant, fitting_weight_scale, quant, spread, weight_quant
from npu_assay.conformance.programs.edge_form import typed
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value
from npu_assay.partitioners.exir.ops import edge_op

PROBABILITY = Quant(1 / 256, -128)
TANH = Quant(1 / 128, 0)
Q = quant(0.05, 3)
BOUNDS = ((-1, 1), (0, 1), (0, 6), (0, None), (0, math.inf), (-2, 2))
CLAMPS = ("aten.relu.default", "aten.hardtanh.default", "aten.clamp.default")
LARGEST = 3000  # elements of a value
STRANGE = (  # types and ranges that are refused
    Quant(0.03125, 128, 0, 255, dtype="uint8"),
    Quant(2.0**-12, 0, -32768, 32767, dtype="int16"),
    Quant(0.0625, 5, -127, 127),
)

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Node:
    """A value that operators may take: a model input or a step's output."""

    ref: Ref
    shape: Shape
    quant: Quant | None


@dataclass
class Draw:
    """A model being drawn. Where it is `tame`, its sizes and quantizations are mostly as the table's rules want."""

    random: Random
    quants: tuple[Quant, ...]
    tame: bool = False
    values: list[Value] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def odd(self, probability: float) -> bool:
        """A chance that a tame model does not take."""
        return not self.tame and self.chance(probability)

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    # ---------------------------------------------------------------------------- values

    def add_value(self, shape: Shape, q: Quant | None, constant: bool = False, fill: Fill | None = None) -> Node:
        """A new input or constant, filled at random unless told otherwise."""
        name = f"{'c' if constant else 'x'}{len(self.values)}"
        kind = self.pick("random", "random", "random", "random", "ramp", "alternating", "min", "max", "zero")
        fill = Fill(kind, seed=self.random.randrange(10**6)) if fill is None else fill
        self.values.append(Value(name, shape, q, fill, constant))
        self.shapes[name] = shape
        return Node(Ref(name), shape, q)

    def new_input(self, rank: int) -> Node:
        q = None if self.odd(0.04) else self.some_quant()
        node = self.add_value(self.some_shape(rank), q)
        self.nodes.append(node)
        return node

    def some_shape(self, rank: int) -> Shape:
        """Batch mostly 1, channels mostly multiples of 8 in both readings."""
        if self.tame and self.chance(0.9):
            return tuple([1, self.pick(8, 16), *(self.pick(8, 8, 4, 2) for _ in range(rank - 3)), 8][-rank:])
        batch, channels = self.pick(1, 1, 1, 1, 2), self.pick(8, 8, 8, 16, 1, 3, 7)
        sizes = [self.pick(8, 8, 4, 16, 1, 2, 3, 5, 6) for _ in range(rank)]
        if rank >= 3:
            sizes[:2] = [batch, channels]
        elif rank == 2:
            sizes = [self.pick(1, 2, 3, 8), self.pick(8, 16, 7, 1, 24)]
        return tuple(sizes)

    def some_quant(self) -> Quant:
        if self.chance(0.97 if self.tame else 0.85):
            return self.random.choice(self.quants)
        zero_point = self.pick(-128, 127, 0, self.random.randint(-128, 127))
        if self.odd(0.15):
            return self.random.choice((*STRANGE, quant(2.0 ** self.random.uniform(-20, 10), zero_point)))
        return quant(2.0 ** self.random.uniform(-9, 1), zero_point)

    def operand(self, *ranks: int, fits: Callable[[Shape], bool] = lambda shape: True) -> Node:
        """A value of one of these ranks, late ones preferred, or a new input."""
        found = [node for node in self.nodes if len(node.shape) in ranks and fits(node.shape)]
        if found and self.chance(0.9):
            return found[-1] if self.chance(0.7) else self.random.choice(found)
        for _ in range(20):
            node = self.new_input(self.random.choice(ranks))
            if fits(node.shape):
                return node
        return self.new_input(ranks[-1])

    def like(self, x: Node) -> Node:
        """A second operand of the same shape: another value, the same one, or a new input."""
        found = [node for node in self.nodes if node.shape == x.shape]
        if self.chance(0.7):
            return self.random.choice(found)
        node = self.add_value(x.shape, self.some_quant())
        self.nodes.append(node)
        return node

    # ---------------------------------------------------------------------------- results

    def free(self, x: Node) -> Quant | None:
        """Any quantization of the result; mostly none behind a real number."""
        if self.chance(0.6) if x.quant is None else self.odd(0.05):
            return None
        return self.some_quant()

    def same(self, x: Node) -> Quant | None:
        """Mostly the operand's quantization, as its rules want."""
        return self.free(x) if self.odd(0.15) else x.quant

    def fixed(self, x: Node, y: Quant) -> Quant | None:
        return self.free(x) if self.odd(0.15) else y

    def apply(self, op: str, args: Sequence[Any], y: Quant | None, outputs: int = 1, **kwargs: Any) -> Node:
        """Append a step; its results become values. Returns the first."""
        name = f"s{len(self.steps)}"
        found = self._results(op, tuple(args), kwargs)
        self.steps.append(Step(name, op, tuple(args), tuple(kwargs.items()), y, outputs))
        new = [Node(Ref(name, index), shape, y) for index, shape in enumerate(found[:outputs])]
        indices = op == "aten.max_pool2d_with_indices.default"
        self.nodes += new[:1] if indices else new
        self.shapes[name] = new[0].shape
        return new[0]

    def _results(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Shape]:
        known = {node.ref: node.shape for node in self.nodes}
        result = edge_op(op)(
            *(self._meta(a, known) for a in args), **{key: typed(item) for key, item in kwargs.items()}
        )
        return [tuple(t.shape) for t in ([result] if isinstance(result, torch.Tensor) else result)]

    def _meta(self, argument: Any, known: dict[Ref, Shape]) -> Any:
        if isinstance(argument, Ref):
            return torch.empty(known.get(argument, self.shapes[argument.name]), device="meta")
        return [self._meta(item, known) for item in argument] if isinstance(argument, tuple) else argument


# ------------------------------------------------------------------------------------ element by element


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
