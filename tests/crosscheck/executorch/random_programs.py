"""Random programs over the operators that XNNPACK knows: one to nine steps with chains, forks and shared operands.

`random_program(seed)` is always the same one: float32 or float16, codes with scales in the program, floats that
products quantize at run time, or all of these; most operators may be delegated, some are outside a rule or a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from random_draw import LARGEST, Draw, Node, Shape
from random_graphs import returned
from torch.export import ExportedProgram

from npu_assay.conformance.cases.make import quant, spread, weight_quant
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Value
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir.ops import (
    CHOOSE_QPARAMS,
    DEQUANTIZE,
    DEQUANTIZE_DYNAMIC,
    GETITEM,
    QUANTIZE_DYNAMIC,
    target_name,
)
from npu_assay.partitioners.exir.program import copy_program

PRESERVE = load_table("xnnpack@1.5").preserve
FLOAT, STATIC, DYNAMIC, MIXED = "float", "static", "dynamic", "mixed"
KINDS = (FLOAT, STATIC, STATIC, DYNAMIC, MIXED)
UNARY = (
    "abs", "ceil", "cos", "exp", "floor", "gelu", "hardswish", "leaky_relu", "log", "neg", "relu", "rsqrt", "sigmoid",
    "sin", "sqrt", "tanh",
)  # fmt: skip
FOREIGN = ("erf", "reciprocal", "round", "sign")
SHARED = frozenset({GETITEM}) | CHOOSE_QPARAMS | QUANTIZE_DYNAMIC | DEQUANTIZE_DYNAMIC | DEQUANTIZE
OPTIONS: tuple[dict[str, Any], ...] = (
    {"per_op_mode": True},
    {"config_precisions": ("FP32",)},
    {"config_precisions": ("STATIC_QUANT",)},
    {"config_precisions": ("DYNAMIC_QUANT",)},
    {"config_precisions": ("STATIC_QUANT", "FP32"), "per_op_mode": True},
    {"configs": ("LinearConfig", "ConvolutionConfig", "ReLUConfig", "AddConfig", "QuantizedPerTensorConfig")},
    {"force_non_static_weights_for_f32_linear": True},
)


@dataclass
class Sketch(Draw):
    """A model being drawn, of one kind."""

    kind: str = FLOAT

    def some_quant(self) -> Quant | None:  # type: ignore[override]  # real numbers are the usual case here
        if self.kind in (FLOAT, DYNAMIC) or (self.kind == MIXED and self.chance(0.5)):
            return None
        if self.chance(0.02):
            return self.random.choice((Quant(0.03125, 128, 0, 255, dtype="uint8"), Quant(0.0625, 5, -127, 127)))
        return self.random.choice(self.quants) if self.chance(0.8) else quant(2.0 ** self.random.uniform(-8, 0), 7)

    def some_shape(self, rank: int) -> Shape:
        return tuple(self.pick(1, 1, 2, 3, 4, 8) for _ in range(rank))

    def free(self, x: Node) -> Quant | None:
        """Any quantization of the result; now and then none, so that the next operator takes it as it is."""
        return None if self.kind == FLOAT or self.chance(0.2) else self.some_quant()

    def same(self, x: Node) -> Quant | None:
        """Mostly the operand's quantization."""
        return x.quant if self.chance(0.8) else self.free(x)

    def constant(self, shape: Shape, q: Quant | None = None) -> Ref:
        """A constant; now and then one that is there already, or an input in its place."""
        there = [v for v in self.values if v.constant and v.shape == shape and v.quant == q]
        if there and self.chance(0.3):
            return Ref(self.random.choice(there).name)
        constant = (q is not None and q.axis is not None) or self.chance(0.96)
        return self.add_value(shape, q, constant, Fill("random", self.random.randrange(10**6))).ref


Family = Callable[[Sketch], object]


def unary(d: Sketch) -> None:
    x = d.operand(1, 2, 3, 4)
    name = d.pick(*UNARY, "relu", "relu") if d.chance(0.95) else d.pick(*FOREIGN)
    d.apply(f"aten.{name}.default", (x.ref,), d.pick(d.same, d.free)(x))


def clamp(d: Sketch) -> None:
    x = d.operand(1, 2, 3, 4)
    name, bounds = d.pick(
        ("hardtanh", (0.0, 6.0)), ("hardtanh", (-1.0, 1.0)), ("clamp", (-0.5, 2.0)), ("clamp", (0.0,))
    )
    d.apply(f"aten.{name}.default", (x.ref, *bounds), d.pick(d.same, d.free)(x))


def binary(d: Sketch) -> None:
    op = d.pick("add.Tensor", "add.Tensor", "add.Tensor", "mul.Tensor", "sub.Tensor", "div.Tensor", "maximum.default",
                "minimum.default")  # fmt: skip
    x = d.operand(1, 2, 3, 4)
    other = d.like(x)
    if d.chance(0.15):
        other = Node(d.constant(x.shape, x.quant), x.shape, x.quant)
    keywords = {"alpha": d.pick(1, 2)} if op in ("add.Tensor", "sub.Tensor") and d.chance(0.1) else {}
    y = d.apply(f"aten.{op}", (x.ref, other.ref), None if d.chance(0.25) else d.free(x), **keywords)
    if y.quant is None and d.chance(0.4):
        d.apply("aten.relu.default", (y.ref,), d.free(x))


def power(d: Sketch) -> None:
    x = d.operand(1, 2, 3, 4)
    d.apply("aten.pow.Tensor_Scalar", (x.ref, d.pick(2, 2, 3)), d.free(x))


def concatenate(d: Sketch) -> None:
    x = d.operand(2, 3, 4)
    others = [d.like(x) for _ in range(d.random.randint(0, 4))]
    d.apply("aten.cat.default", ((x.ref, *(o.ref for o in others)), d.pick(0, 1, -1)), d.same(x))


def permute(d: Sketch) -> None:
    x = d.operand(2, 3, 4)
    order = list(range(len(x.shape)))
    d.random.shuffle(order)
    d.apply("aten.permute_copy.default", (x.ref, tuple(order)), d.same(x))


def view(d: Sketch) -> None:
    x = d.operand(1, 2, 3, 4)
    d.apply("aten.view_copy.default", (x.ref, d.pick((1, -1), (math.prod(x.shape),), (-1, 1))), d.same(x))


def unsqueeze(d: Sketch) -> None:
    x = d.operand(1, 2, 3)
    d.apply("aten.unsqueeze_copy.default", (x.ref, d.pick(-1, len(x.shape), 0)), d.same(x))


def slices(d: Sketch) -> None:
    x = d.operand(2, 3, 4, fits=lambda shape: shape[1] > 1)
    d.apply("aten.slice_copy.Tensor", (x.ref, 1, d.pick(0, 1), x.shape[1], d.pick(1, 1, 1, 2)), d.same(x))


def pad(d: Sketch) -> None:
    x = d.operand(2, 3, 4, fits=lambda shape: min(shape) > 1)
    d.apply("aten.constant_pad_nd.default", (x.ref, d.pick((1, 0), (0, 2, 1, 1), (-1, 1)), 0.0), d.same(x))


def copy(d: Sketch) -> None:
    x = d.operand(4)
    order = d.pick((0, 1, 2, 3), (0, 2, 3, 1))
    op = d.pick("_clone_dim_order", "_to_dim_order_copy")
    d.apply(f"dim_order_ops.{op}.default", (x.ref,), d.same(x), dim_order=order)


def softmax(d: Sketch) -> None:
    x = d.operand(1, 2, 3, 4)
    d.apply("aten._softmax.default", (x.ref, d.pick(-1, -1, len(x.shape) - 1, 0), False), d.free(x))


def pool(d: Sketch) -> None:
    x = d.operand(4, fits=lambda shape: min(shape[2:]) > 1)
    name, stride, padding = d.pick("avg", "max"), d.pick((2, 2), (1, 1), (1, 3)), d.pick((0, 0), (0, 0), (1, 1))
    last = (False, d.chance(0.5)) if name == "avg" else ((1, 1), d.chance(0.2))
    d.apply(f"aten.{name}_pool2d.default", (x.ref, (2, 2), stride, padding, *last), d.same(x))


def mean(d: Sketch) -> None:
    x = d.operand(4, 4, 3)
    d.apply("aten.mean.dim", (x.ref, d.pick((-1, -2), (-2, -1), (-1,)), d.chance(0.9)), d.same(x))


def upsample(d: Sketch) -> None:
    x = d.operand(4, fits=lambda shape: math.prod(shape) <= LARGEST // 4)
    d.apply("aten.upsample_bilinear2d.vec", (x.ref, None, d.chance(0.5), (2.0, 2.0)), d.free(x))


def prelu(d: Sketch) -> None:
    x = d.operand(4, 3)
    d.apply("aten.prelu.default", (x.ref, d.constant((x.shape[1],))), d.free(x))


def matmul(d: Sketch) -> None:
    x = d.operand(3)
    other = d.operand(3, fits=lambda shape: shape[:2] == (x.shape[0], x.shape[2]))
    if other.shape[:2] == (x.shape[0], x.shape[2]):
        d.apply("aten.bmm.default", (x.ref, other.ref), d.free(x))


# ------------------------------------------------------------------------------------ products


def weights(d: Sketch, shape: Shape, axis: int, coded: bool, dynamic: bool) -> Ref:
    if not coded:
        return d.constant(shape)
    if d.chance(0.1 if dynamic else 0.4):
        return d.constant(shape, replace(weight_quant(0.01), zero_point=d.pick(0, 0, 0, 0, 0, 0, 3)))
    if len(shape) == 2 and shape[1] % 32 == 0 and d.chance(0.5):
        scales = spread(0.01, shape[0] * (shape[1] // 32))
        return d.constant(shape, Quant(tuple(scales), 0, -8, 7, axis=0, group=32))
    return d.constant(shape, weight_quant(spread(0.01, shape[axis]), axis))


def product(d: Sketch, op: str, x: Node, arguments: Callable[[Ref, Ref | None], Sequence[Any]], w: Shape, out: int,
            axis: int) -> None:  # fmt: skip
    """A product, with bias or without, mostly with a quantized result where its operands are, or a clamp behind."""
    dynamic = d.pick("per_tensor", "per_token") if x.quant is None and d.kind != FLOAT and d.chance(0.8) else None
    coded = dynamic is not None or x.quant is not None
    second = weights(d, w, axis, coded and d.chance(0.95), dynamic is not None)
    bias = d.constant((out,)) if d.chance(0.6) else None
    y = None if dynamic is not None or d.chance(0.3) else d.free(x)
    found = d.apply(op, arguments(second, bias), y)
    d.steps[-1] = replace(d.steps[-1], dynamic=dynamic)
    if found.quant is None and d.chance(0.4):
        d.apply(d.pick("aten.relu.default", "aten.sigmoid.default"), (found.ref,), d.free(x))
    elif found.quant is None and d.chance(0.3):
        d.apply("aten.hardtanh.default", (found.ref, 0.0, 6.0), d.free(x))


def linear(d: Sketch) -> None:
    x = d.operand(2, 2, 3, 4)
    if d.chance(0.3):
        x = d.add_value((d.pick(1, 3), 64), d.some_quant())
        d.nodes.append(x)
    out = d.pick(1, 4, 8)
    shape = (out, x.shape[-1])
    product(d, "aten.linear.default", x, lambda w, b: (x.ref, w) if b is None else (x.ref, w, b), shape, out, 0)


def convolution(d: Sketch) -> None:
    x = d.operand(4, 4, 3)
    spatial, inputs = len(x.shape) - 2, x.shape[1]
    transposed, groups = d.chance(0.2), inputs if d.chance(0.25) else 1
    out = inputs * d.pick(1, 2) if groups > 1 else d.pick(1, 3, 8)
    kernel = tuple(d.random.randint(1, min(3, size)) for size in x.shape[2:])
    shape = (inputs, out // groups, *kernel) if transposed else (out, inputs // groups, *kernel)
    ones, zeros = (1,) * spatial, (0,) * spatial

    def arguments(w: Ref, b: Ref | None) -> Sequence[Any]:
        return (x.ref, w, b, d.pick(ones, (2,) * spatial), zeros, ones, transposed, zeros, groups)

    if x.quant is not None and not transposed and d.chance(0.15):
        padded = d.apply("aten.constant_pad_nd.default", (x.ref, d.pick((1, 1), (0, 1)), d.pick(0.0, 0.0, 1.0)), None)
        x = replace(padded, quant=x.quant)
        d.nodes.remove(padded)
    product(d, "aten.convolution.default", x, arguments, shape, out, 1 if transposed else 0)


FAMILIES: tuple[tuple[Family, int], ...] = (
    (unary, 6), (clamp, 3), (binary, 8), (power, 1), (concatenate, 3), (permute, 2), (view, 2), (unsqueeze, 1),
    (slices, 2), (pad, 1), (copy, 2), (softmax, 1), (pool, 2), (mean, 2), (upsample, 1), (prelu, 1), (matmul, 1),
    (linear, 6), (convolution, 5),
)  # fmt: skip


def random_graph(seed: int) -> Graph:
    """The model of a seed; every fourth one has a single step (and an activation, if that draws one)."""
    random = Random(seed)
    quants = (quant(2.0 ** random.uniform(-6, -3), random.choice((0, 3, -128))), quant(0.05, 3))
    d = Sketch(random, quants, kind=random.choice(KINDS))
    families, counts = zip(*FAMILIES, strict=True)
    for family in random.choices(families, counts, k=1 if seed % 4 == 0 else random.randint(2, 8)):
        family(d)
        d.nodes = [node for node in d.nodes if math.prod(node.shape) <= LARGEST]
    if not d.steps:
        unary(d)
    graph = Graph(tuple(d.values), tuple(d.steps), returned(d))
    half = d.kind == FLOAT and random.random() < 0.3
    return replace(graph, values=tuple(map(_halved, graph.values))) if half else graph


def _halved(value: Value) -> Value:
    return replace(value, dtype="float16") if value.quant is None else value


def random_program(seed: int) -> tuple[ExportedProgram, dict[str, Any]]:
    """The program of a seed, and options for the partitioner; some programs share equal conversions."""
    random = Random(f"options {seed}")
    program = build(random_graph(seed), PRESERVE)
    if random.random() < 0.5:
        program = with_shared_conversions(program)
    return program, (random.choice(OPTIONS) if random.random() < 0.3 else {})


def with_shared_conversions(program: ExportedProgram) -> ExportedProgram:
    """The program with one node where several quantize or dequantize the same value in the same way."""
    twin = copy_program(program, verify=False)
    first: dict[str, Any] = {}
    for node in list(twin.graph.nodes):
        if node.op == "call_function" and target_name(node.target) in SHARED:
            kept = first.setdefault(f"{target_name(node.target)} {node.args} {node.kwargs}", node)
            if kept is not node:
                node.replace_all_uses_with(kept)
                twin.graph_signature.replace_all_uses(node.name, kept.name)
                twin.graph.erase_node(node)
    return twin
