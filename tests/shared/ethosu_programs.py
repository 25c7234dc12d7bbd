"""Random programs over the operators that Ethos-U knows, marked as its quantizer marks them: one to nine operators.

`random_program(seed)` is always the same one. Most operators may be delegated, some are outside a rule or a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from ethosu_graphs import U55, U85, WIDE, Builder
from neutron_graphs import Params
from torch import fx
from torch.export import ExportedProgram

from npu_assay.partitioners.exir.nodes import rank, shape

LARGEST = 4000
NARROW = (
    (0.05, 3, -128, 127, torch.int8),
    (0.05, 3, -128, 127, torch.int8),
    (0.1, -128, -128, 127, torch.int8),
    (0.02, 0, -128, 127, torch.int8),
)
UNUSUAL = (
    (0.05, 128, 0, 255, torch.uint8),
    (0.001, 5, -32767, 32767, torch.int16),
    (1e-42, 0, -128, 127, torch.int8),
    (1e9, 0, -128, 127, torch.int8),
    (0.05, 0, -(2**31), 2**31 - 1, torch.int32),
)
TABLES = (
    "acos", "atan", "ceil", "cos", "erf", "exp", "expm1", "floor", "gelu", "hardsigmoid", "hardswish", "leaky_relu",
    "log", "reciprocal", "round", "rsqrt", "sigmoid", "silu", "sin", "sinh", "tan", "tanh", "elu", "sign", "celu",
    "selu",
)  # fmt: skip
FOREIGN = ("sqrt", "isnan", "frac", "trunc")


@dataclass
class Sketch:
    """A program being drawn: the real numbers and the integers that operators may take."""

    random: Random
    b: Builder = field(default_factory=Builder)
    wide: bool = False
    values: list[fx.Node] = field(default_factory=list)
    integers: list[fx.Node] = field(default_factory=list)
    several: list[fx.Node] = field(default_factory=list)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def params(self) -> Params:
        if self.chance(0.02):
            return self.random.choice(UNUSUAL)
        return WIDE if self.wide != self.chance(0.02) else self.random.choice(NARROW)

    def sizes(self, dims: int) -> tuple[int, ...]:
        first = [self.pick(1, 1, 1, 2)] if dims > 1 else []
        return (*first, *(self.pick(1, 2, 3, 4, 6, 8) for _ in range(dims - len(first))))

    def real(self, *ranks: int) -> fx.Node:
        """A dequantized value of one of these ranks, late ones preferred, or a new input."""
        found = [node for node in self.values if rank(node) in ranks]
        if found and self.chance(0.85):
            return found[-1] if self.chance(0.7) else self.random.choice(found)
        sizes = self.sizes(self.random.choice(ranks))
        node = self.b.raw_input(*sizes) if self.chance(0.03) else self.b.input(*sizes, q=self.params())
        self.values.append(node)
        return node

    def like(self, x: fx.Node) -> fx.Node:
        found = [node for node in self.values if shape(node) == shape(x)]
        if self.chance(0.7):
            return self.random.choice(found)
        return self.b.input(*shape(x), q=self.params())

    def whole(self, *ranks: int, dtype: torch.dtype = torch.int32) -> fx.Node:
        """Integers of one of these ranks."""
        fits = [n for n in self.integers if rank(n) in ranks and n.meta["val"].dtype == dtype]
        if fits and self.chance(0.8):
            return self.random.choice(fits)
        node = self.b.integers(*self.sizes(self.random.choice(ranks)), dtype=dtype)
        self.integers.append(node)
        return node

    def done(self, node: fx.Node) -> None:
        """Quantize a result, or leave it as it is."""
        if self.chance(0.02):
            node.meta.pop("custom", None)
        if not node.meta["val"].is_floating_point():
            self.integers.append(node)
            return
        if self.chance(0.04):
            self.values.append(node)
            return
        params = self.params()
        if self.chance(0.03):
            self.values.append(self.b.quantised(node, self.params()))
        self.values.append(self.b.quantised(node, params))

    def op(self, name: str, *args: Any, **kwargs: Any) -> None:
        self.done(self.b.call(name, *args, **kwargs))


# ------------------------------------------------------------------------------------ families


def unary(s: Sketch) -> None:
    name = s.pick(*TABLES, *TABLES, *FOREIGN)
    s.op(f"aten.{name}.default", s.real(1, 2, 3, 4))


def plain(s: Sketch) -> None:
    x = s.real(1, 2, 3, 4)
    name, args = s.pick(
        ("aten.abs.default", ()), ("aten.neg.default", ()), ("aten.relu.default", ()),
        ("aten.hardtanh.default", (0.0, 6.0)), ("aten.hardtanh.default", (-1.0, 1.0)),
        ("aten.clamp.default", (-1.0, 2.0)), ("aten.pow.Tensor_Scalar", (2,)), ("aten.remainder.Scalar", (2,)),
    )  # fmt: skip
    s.op(name, x, *args)


def binary(s: Sketch) -> None:
    x = s.real(1, 2, 3, 4)
    name = s.pick(
        "add.Tensor", "add.Tensor", "sub.Tensor", "mul.Tensor", "mul.Tensor", "maximum.default", "minimum.default",
        "div.Tensor", "pow.Tensor_Tensor", "remainder.Tensor",
    )  # fmt: skip
    kwargs = {"alpha": 2} if name == "add.Tensor" and s.chance(0.05) else {}
    s.op(f"aten.{name}", x, s.like(x), **kwargs)


def divided(s: Sketch) -> None:
    x = s.real(2, 3, 4)
    number = s.b.weight(1, q=s.pick((0.01, 0, -128, 127, torch.int8), (0.1, 3, -128, 127, torch.int8)))
    s.op("aten.div.Tensor_mode", x, number if s.chance(0.6) else s.like(x), rounding_mode=s.pick("floor", "trunc"))


def weight(s: Sketch, *sizes: int, axis: int = 0) -> fx.Node:
    if s.chance(0.3):
        return s.b.channel_weight(*sizes, axis=axis)
    return s.b.weight(
        *sizes, q=(0.01, 1, -128, 127, torch.int8) if s.chance(0.05) else (0.01, 0, -127, 127, torch.int8)
    )


def convolution(s: Sketch) -> None:
    x = s.real(4, 4, 3) if s.chance(0.9) else s.b.input(1, 4, s.pick(80, 8), s.pick(80, 8), q=s.params())
    channels, spatial = shape(x)[1], rank(x) - 2
    depthwise = s.chance(0.3)
    groups = channels if depthwise else 1
    kernel = [s.pick(1, 2, 3) for _ in range(spatial)]
    if max(shape(x)[2:]) >= 70 and spatial == 2:
        kernel = [s.pick(65, 64, 3) if size >= 70 else 1 for size in shape(x)[2:]]
    padding = [s.pick(0, 0, 1) for _ in range(spatial)]
    kernel = [min(k, size + 2 * p) for k, size, p in zip(kernel, shape(x)[2:], padding, strict=True)]
    stride, dilation = [s.pick(1, 1, 2, 3, 4) for _ in range(spatial)], [1] * spatial
    if s.chance(0.1) and all(2 * k - 1 <= size for k, size in zip(kernel, shape(x)[2:], strict=True)):
        dilation = [2] * spatial
    outputs = channels * s.pick(1, 2) if depthwise else s.pick(1, 4, 8)
    filters = weight(s, outputs, channels // groups, *kernel)
    bias = s.b.bias(outputs) if s.chance(0.6) else None
    q = None if s.chance(0.3) else s.params()
    node = s.b.conv(x, filters, bias, q, stride=stride, padding=padding, dilation=dilation, groups=groups)
    if q is None:
        activated(s, node)
    else:
        s.values.append(node)


def activated(s: Sketch, node: fx.Node) -> None:
    name, args = s.pick(("aten.relu.default", ()), ("aten.hardtanh.default", (0.0, 6.0)), ("aten.sigmoid.default", ()))
    q = (6 / 255, -128, -128, 127, torch.int8) if s.chance(0.6) else s.params()
    s.values.append(s.b.op(name, node, *args, q=q))


def transposed(s: Sketch) -> None:
    x = s.real(4)
    channels = shape(x)[1]
    kernel, stride = [s.pick(1, 2, 3), s.pick(1, 2, 3)], s.pick([1, 1], [2, 2], [1, 2], [2, 1], [3, 3])
    groups = channels if s.chance(0.2) else 1
    filters = weight(s, channels, 4 // groups or 1, *kernel, axis=1)
    extra = [s.pick(0, 0, step - 1) for step in stride]
    padding = [min(s.pick(0, 0, 1), k - 1) for k in kernel]
    out = [
        (n - 1) * st - 2 * p + k + e
        for n, st, p, k, e in zip(shape(x)[2:], stride, padding, kernel, extra, strict=True)
    ]
    if min(out) < 1:
        return
    node = s.b.conv(
        x, filters, None, s.params(), stride=stride, padding=padding, transposed=True, output_padding=extra,
        groups=groups,
    )  # fmt: skip
    s.values.append(node)


def linear(s: Sketch) -> None:
    x = s.real(1, 2, 3)
    outputs = s.pick(1, 4, 8)
    node = s.b.call("aten.linear.default", x, weight(s, outputs, shape(x)[-1]), *([s.b.bias(outputs)] * s.pick(0, 1)))
    if s.chance(0.3):
        activated(s, node)
    else:
        s.done(node)


def product(s: Sketch) -> None:
    x = s.real(2, 3)
    other = s.b.input(*shape(x)[:-2], shape(x)[-1], s.pick(1, 3, 4), q=s.params())
    s.op("aten.mm.default" if rank(x) == 2 else "aten.bmm.default", x, other)


def average(s: Sketch) -> None:
    x = s.real(4)
    kernel = [min(s.pick(1, 2, 3), size) for size in shape(x)[2:]]
    stride = s.pick([], [1, 1], [2, 2], [3, 3], [4, 4])
    padding = [s.pick(0, k // 2) for k in kernel]
    rest = s.pick((), (False,), (True,), (False, False), (False, True), (False, False, 3))
    s.op("aten.avg_pool2d.default", x, kernel, stride, padding, *rest)


def maximum(s: Sketch) -> None:
    x = s.real(4, 4, 3)
    kernel = [min(s.pick(1, 2, 3), size) for size in shape(x)[-2:]]
    stride = s.pick([], [1, 1], [2, 2], [4, 4], kernel)
    padding = [s.pick(0, 0, k // 2) for k in kernel]
    dilation = (
        [2, 2] if s.chance(0.1) and all(2 * k - 1 <= n for k, n in zip(kernel, shape(x)[-2:], strict=True)) else [1, 1]
    )
    if s.chance(0.5):
        s.op("aten.max_pool2d.default", x, kernel, stride, padding, dilation)
        return
    pooled = s.b.call("aten.max_pool2d_with_indices.default", x, kernel, stride, padding, dilation)
    if s.chance(0.05):
        s.several.append(s.b.item(pooled, 1))
    s.done(s.b.item(pooled, 0))


def adaptive(s: Sketch) -> None:
    x = s.real(4)
    s.op("aten._adaptive_avg_pool2d.default", x, [s.pick(1, 1, 2, 3), s.pick(1, 1, 2)])


def reduction(s: Sketch) -> None:
    x = s.real(1, 2, 3, 4)
    dims = [s.random.randrange(-rank(x), rank(x))]
    name = s.pick("amax.default", "amin.default", "sum.dim_IntList", "mean.dim")
    s.op(f"aten.{name}", x, dims, s.chance(0.5))


def running(s: Sketch) -> None:
    x = s.real(1, 2, 3, 4) if s.chance(0.8) else s.b.input(1, 70, 2, q=s.params())
    s.op("aten.cumsum.default", x, s.random.randrange(-rank(x), rank(x)))


def joined(s: Sketch) -> None:
    x = s.real(1, 2, 3, 4)
    parts = [x, *(s.like(x) for _ in range(s.pick(1, 2)))]
    s.op("aten.cat.default", parts, s.random.randrange(-rank(x), rank(x)))


def part(s: Sketch) -> None:
    x = s.real(1, 2, 3, 4)
    dim = s.random.randrange(-rank(x), rank(x))
    size = shape(x)[dim]
    if s.chance(0.4):
        s.op("aten.select_copy.int", x, dim, s.random.randrange(size))
        return
    start = s.random.randrange(size)
    end = s.pick(size, s.random.randint(start + 1, size), 2**63 - 1)
    s.op("aten.slice_copy.Tensor", x, dim, start, end, *s.pick((), (), (2,)))


def split(s: Sketch) -> None:
    x = s.real(1, 2, 3, 4)
    dim = s.random.randrange(rank(x))
    size = shape(x)[dim]
    if size < 2:
        return
    first = s.random.randint(1, size - 1)
    pieces = s.b.call("aten.split_with_sizes_copy.default", x, [first, size - first], dim)
    for index in s.pick((0, 1), (0,), (1, 0)):
        s.done(s.b.item(pieces, index))


def moved(s: Sketch) -> None:
    x = s.real(1, 2, 3, 4)
    order = list(range(rank(x)))
    if s.chance(0.8):
        s.random.shuffle(order)
    s.op("aten.permute_copy.default", x, [dim - rank(x) if s.chance(0.2) else dim for dim in order])


def reshaped(s: Sketch) -> None:
    x = s.real(1, 2, 3, 4)
    count = math.prod(shape(x))
    name, args = s.pick(
        ("aten.view_copy.default", ([count],)), ("aten.view_copy.default", ([1, count],)),
        ("aten.view_copy.default", ([*shape(x), 1],)), ("aten.unsqueeze_copy.default", (0,)),
        ("aten.unsqueeze_copy.default", (-1,)), ("aten.squeeze_copy.dims", ([0],)),
        ("dim_order_ops._clone_dim_order.default", ()), ("aten.alias_copy.default", ()),
        ("aten.detach_copy.default", ()), ("aten.expand_copy.default", (list(shape(x)),)),
        ("aten.expand_copy.default", ([2, *shape(x)],)), ("aten.repeat.default", ([2] * rank(x),)),
        ("aten.flip.default", ([s.random.randrange(rank(x))],)), ("aten.flip.default", ([],)),
        ("aten.constant_pad_nd.default", ([1, 0], 0.0)), ("aten.pad.default", ([1, 1], "constant", 0.0)),
        ("aten.unfold_copy.default", (0, 1, 1)),
    )  # fmt: skip
    s.op(name, x, *args)


def resized(s: Sketch) -> None:
    x = s.real(4)
    scale = s.pick(2.0, 2.0, 3.0, 4.0, 1.5, 0.5)
    sizes = [int(size * scale) for size in shape(x)[2:]]
    if min(sizes) < 1:
        return
    given = ([*sizes], None) if s.chance(0.4) else (None, [scale, scale])
    if s.chance(0.5):
        s.op("aten.upsample_nearest2d.vec", x, *given)
    else:
        s.op("aten.upsample_bilinear2d.vec", x, given[0], s.chance(0.4), given[1])


def compared(s: Sketch) -> None:
    x = s.real(1, 2, 3, 4)
    name = s.pick("eq", "ge", "gt", "le", "lt", "ne")
    if s.chance(0.5):
        s.op(f"aten.{name}.Scalar", x, 0.5)
    else:
        s.op(f"aten.{name}.Tensor", x, s.like(x))
    condition = s.integers[-1]
    if s.chance(0.6):
        s.op("aten.where.self", condition, x, s.like(x))
    elif s.chance(0.5):
        s.op("aten.masked_fill.Scalar", x, condition, 0.5)


def logic(s: Sketch) -> None:
    x = s.whole(1, 2, 3, dtype=torch.bool)
    name, args = s.pick(
        ("aten.logical_not.default", ()), ("aten.logical_and.default", (x,)), ("aten.bitwise_not.default", ()),
        ("aten.bitwise_or.Tensor", (x,)), ("aten.any.default", ()), ("aten.any.dim", (0,)),
    )  # fmt: skip
    s.op(name, x, *args)


def integers(s: Sketch) -> None:
    x = s.whole(1, 2, 3, 4, dtype=s.pick(torch.int32, torch.int32, torch.int8, torch.int16))
    name, args = s.pick(
        ("aten.add.Tensor", (x,)), ("aten.sub.Tensor", (x,)), ("aten.mul.Tensor", (x,)), ("aten.abs.default", ()),
        ("aten.neg.default", ()), ("aten.maximum.default", (x,)), ("aten.bitwise_left_shift.Tensor", (x,)),
        ("aten.bitwise_right_shift.Tensor", (x,)), ("aten.bitwise_and.Tensor", (x,)), ("aten.eq.Tensor", (x,)),
        ("aten.permute_copy.default", (list(range(rank(x)))[::-1],)), ("aten.cat.default", None),
        ("aten.view_copy.default", ([-1],)), ("aten.eq.Scalar", (1,)), ("aten.amax.default", ([0],)),
    )  # fmt: skip
    if args is None:
        s.op(name, [x, x], 0)
    else:
        s.op(name, x, *args)


def converted(s: Sketch) -> None:
    x = s.whole(1, 2, 3, dtype=s.pick(torch.int32, torch.int8, torch.int16, torch.bool))
    dtype = s.pick(torch.int32, torch.int8, torch.int16, torch.bool)
    s.op("dim_order_ops._to_dim_order_copy.default", x, dtype=dtype)


def one_to_one(s: Sketch) -> None:
    x = s.whole(2, 3, dtype=torch.int8)
    node = s.b.call("dim_order_ops._to_dim_order_copy.default", x, dtype=torch.float32)
    s.values.append(s.b.quantised(node, (s.pick(1.0, 1.0, 0.5), 0, -128, 127, torch.int8)))


def largest(s: Sketch) -> None:
    x = s.whole(1, 2, 3, 4, dtype=torch.int8)
    node = s.b.call("aten.argmax.default", x, s.pick(-1, -1, 0), *s.pick((), (), (True,)))
    if s.chance(0.85):
        s.op("dim_order_ops._to_dim_order_copy.default", node, dtype=torch.int32)
    else:
        s.several.append(node)


def indexed(s: Sketch) -> None:
    x = s.real(2, 3)
    index = s.b.integers(3, dtype=s.pick(torch.int32, torch.int32, torch.int64))
    if s.chance(0.5):
        s.op("aten.index_select.default", x, s.random.randrange(rank(x)), index)
    else:
        s.op("aten.index.Tensor", x, s.pick([index], [None, index]))


def gathered(s: Sketch) -> None:
    x = s.real(2, 3)
    index = s.b.integers(shape(x)[0], min(2, shape(x)[1]), *shape(x)[2:], dtype=torch.int32)
    s.op("aten.gather.default", x, s.pick(1, 1, -rank(x) + 1) if shape(x)[0] == shape(x)[1] else 1, index)


def looked_up(s: Sketch) -> None:
    table = s.b.weight(8, 4)
    s.op("aten.embedding.default", table, s.b.integers(2, 3))


def constant(s: Sketch) -> None:
    x = s.real(2, 3)
    name, args = s.pick(("aten.full.default", (list(shape(x)), 1.0)), ("aten.full_like.default", (x, 1.0)))
    node = s.b.call(name, *args)
    s.op("aten.add.Tensor", x, s.b.quantised(node, s.params()) if s.chance(0.9) else node)


def unsigned(s: Sketch) -> None:
    x = s.whole(1, 2, dtype=torch.uint8)
    s.op("aten.view_copy.default", x, [-1])


def again(s: Sketch) -> None:
    """A dequantize straight into another quantize."""
    s.values.append(s.b.quantised(s.real(1, 2, 3, 4), s.params()))


FAMILIES: tuple[tuple[Callable[[Sketch], None], int], ...] = (
    (unary, 6), (plain, 4), (binary, 8), (divided, 1), (convolution, 7), (transposed, 2), (linear, 4), (product, 2),
    (average, 3), (maximum, 3), (adaptive, 1), (reduction, 3), (running, 1), (joined, 3), (part, 3), (split, 2),
    (moved, 3), (reshaped, 6), (resized, 2), (compared, 2), (logic, 1), (integers, 3), (converted, 1),
    (one_to_one, 1), (largest, 1), (indexed, 1), (gathered, 1), (looked_up, 1), (constant, 1), (unsigned, 1),
    (again, 1),
)  # fmt: skip


def random_program(seed: int) -> tuple[ExportedProgram, str]:
    """The program of a seed, and the target to partition it for."""
    random = Random(seed)
    s = Sketch(random, wide=random.random() < 0.2)
    families, weights = zip(*FAMILIES, strict=True)
    for family in random.choices(families, weights, k=random.randint(1, 9)):
        family(s)
        s.values = [node for node in s.values if math.prod(shape(node)) <= LARGEST and 0 < rank(node) <= 5]
        s.integers = [node for node in s.integers if math.prod(shape(node)) <= LARGEST and rank(node) > 0]
    # ExecuTorch's partitioner cannot read the type of an output node, which it does behind int64.
    calls = [n for n in s.b.graph.nodes if n.op == "call_function"]
    whole = [n for n in calls if isinstance(n.meta["val"], torch.Tensor) and n.meta["val"].dtype != torch.int64]
    results = [n for n in whole if not n.users or s.chance(0.03)]
    return s.b.program(*results), random.choice((U55, U85))
