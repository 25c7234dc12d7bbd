"""A model being drawn: its values, and an operator more at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch

from npu_assay.conformance.cases.make import quant
from npu_assay.conformance.programs.edge_form import typed
from npu_assay.conformance.programs.graph import Fill, Quant, Ref, Step, Value
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
