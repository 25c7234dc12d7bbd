"""Small quantized edge programs, written by hand, and what the Neutron partitioner makes of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG
from npu_assay.partitioners.exir.ops import (
    DEQUANTIZE_PER_CHANNEL,
    DEQUANTIZE_PER_TENSOR,
    QUANTIZE_PER_TENSOR,
    edge_op,
    node_name,
    target_name,
)
from npu_assay.partitioners.exir.program import edge_program
from npu_assay.partitioners.exir.transform import transform_program
from npu_assay.partitioners.exir.values import fill_values
from npu_assay.partitioners.neutron.partitioner import NeutronPartitioner
from npu_assay.partitioners.neutron.passes import PASSES

ACTIVATION = (0.05, 3, -128, 127, torch.int8)
UNIT = (1 / 256, -128, -128, 127, torch.int8)
WEIGHT = (0.01, 0, -127, 127, torch.int8)
Params = tuple[Any, ...]


@dataclass
class Builder:
    """An edge program under construction; every method returns the float node of a value."""

    graph: fx.Graph = field(default_factory=fx.Graph)
    constants: dict[str, torch.Tensor] = field(default_factory=dict)

    def call(self, op: str, *args: Any, **kwargs: Any) -> fx.Node:
        """One operator, unquantized."""
        node = self.graph.create_node("call_function", edge_op(op), args, kwargs, name=node_name(op))
        fill_values(self.graph)
        return node

    def quantised(self, node: fx.Node, params: Params = ACTIVATION) -> fx.Node:
        """quantize and dequantize behind a float node."""
        return self.call(DEQUANTIZE_PER_TENSOR, self.call(QUANTIZE_PER_TENSOR, node, *params), *params)

    def op(self, name: str, *args: Any, q: Params = ACTIVATION, **kwargs: Any) -> fx.Node:
        """One operator with a quantized result."""
        return self.quantised(self.call(name, *args, **kwargs), q)

    def raw_input(self, *shape: int) -> fx.Node:
        """A float32 model input."""
        node = self.graph.placeholder(f"x{sum(n.op == 'placeholder' for n in self.graph.nodes)}")
        fill_values(self.graph, {node.name: torch.empty(shape)})
        return node

    def input(self, *shape: int, q: Params = ACTIVATION) -> fx.Node:
        """A quantized model input."""
        return self.quantised(self.raw_input(*shape), q)

    def raw_constant(self, data: torch.Tensor) -> fx.Node:
        """A constant as it is."""
        name = f"c{len(self.constants)}"
        node = self.graph.placeholder(name)
        self.constants[name] = data
        fill_values(self.graph, {name: data})
        return node

    def weight(self, *shape: int, q: Params = WEIGHT) -> fx.Node:
        """A constant of random codes, dequantized per tensor."""
        generator = torch.Generator().manual_seed(len(self.constants))
        codes = torch.randint(-100, 101, shape, generator=generator).to(q[4])
        return self.call(DEQUANTIZE_PER_TENSOR, self.raw_constant(codes), *q)

    def bias(self, count: int, scale: float = 0.05 * 0.01) -> fx.Node:
        """An int32 bias of zeros."""
        codes = self.raw_constant(torch.zeros(count, dtype=torch.int32))
        return self.call(DEQUANTIZE_PER_TENSOR, codes, scale, 0, -(2**31), 2**31 - 1, torch.int32)

    def channel_weight(self, *shape: int, axis: int = 0, scale: float = 0.01, zero_point: int = 0) -> fx.Node:
        """A constant dequantized per channel."""
        codes = self.raw_constant(torch.ones(shape, dtype=torch.int8))
        scales = self.raw_constant(torch.full((shape[axis],), scale))
        zero_points = self.raw_constant(torch.full((shape[axis],), zero_point))
        return self.call(DEQUANTIZE_PER_CHANNEL, codes, scales, zero_points, axis, -127, 127, torch.int8)

    def conv(
        self, x: fx.Node, weight: fx.Node, bias: fx.Node | None = None, q: Params | None = ACTIVATION, **kwargs: Any
    ) -> fx.Node:
        """A convolution; keywords replace its arguments. `q` None leaves the result unquantized."""
        spatial = len(weight.meta["val"].shape) - 2
        options = {
            "stride": [1] * spatial,
            "padding": [0] * spatial,
            "dilation": [1] * spatial,
            "transposed": False,
            "output_padding": [0] * spatial,
            "groups": 1,
        }
        node = self.call("aten.convolution.default", x, weight, bias, *{**options, **kwargs}.values())
        return node if q is None else self.quantised(node, q)

    def item(self, node: fx.Node, index: int) -> fx.Node:
        """One result of an operator with several, unquantized."""
        item = self.graph.call_function(operator.getitem, (node, index))
        fill_values(self.graph)
        return item

    def max_pool(self, x: fx.Node, *args: Any, q: Params = ACTIVATION) -> fx.Node:
        """A max pool with its indices left alone."""
        pooled = self.call("aten.max_pool2d_with_indices.default", x, *args)
        return self.quantised(self.item(pooled, 0), q)

    def program(self, *outputs: fx.Node) -> ExportedProgram:
        """Close the graph."""
        self.graph.output(outputs)
        return edge_program(self.graph, self.constants)


@dataclass(frozen=True)
class Verdict:
    """What became of a program: operators inside and outside partitions, in graph order, and the reasons."""

    tagged: tuple[str, ...]
    untagged: tuple[str, ...]
    reasons: tuple[tuple[str, str], ...]
    partitions: int
    program: ExportedProgram

    def codes(self, op: str) -> list[str]:
        """The codes for one operator."""
        return [code for target, code in self.reasons if target == op]


def partitioned(
    program: ExportedProgram, partitioner: NeutronPartitioner | None = None, passes: bool = True
) -> Verdict:
    """Run the passes and the partitioner."""
    chosen = NeutronPartitioner() if partitioner is None else partitioner
    program = transform_program(program, PASSES if passes else ())
    result = chosen(program)
    operators = [n for n in program.graph.nodes if n.op == "call_function" and "quantize" not in target_name(n.target)]
    tags = {n.meta[DELEGATION_TAG] for n in program.graph.nodes if n.meta.get(DELEGATION_TAG)}
    assert tags == set(result.partition_tags)
    return Verdict(
        tuple(target_name(n.target) for n in operators if n.meta.get(DELEGATION_TAG)),
        tuple(target_name(n.target) for n in operators if not n.meta.get(DELEGATION_TAG)),
        tuple((r.target, r.code) for r in chosen.rejections),
        len(tags),
        program,
    )


def judge(
    write: Callable[[Builder], fx.Node | Sequence[fx.Node]], partitioner: NeutronPartitioner | None = None
) -> Verdict:
    """The verdict on the program that `write` makes."""
    builder = Builder()
    result = write(builder)
    return partitioned(builder.program(*([result] if isinstance(result, fx.Node) else result)), partitioner)
