"""What a prepared program is made of, and what of it a backend takes, as plain data that crosses between processes.

Everything that the judge must know of a partition follows from this: which nodes the operator under test became,
whether they are delegated, whether torch rounds between delegates, and whether a partition computes anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from npu_assay.conformance.programs import checks
from npu_assay.partitioners.exir.ops import (
    CHOOSE_QPARAMS,
    DEQUANTIZE,
    DEQUANTIZE_DYNAMIC,
    DEQUANTIZE_PER_GROUP,
    GETITEM,
    QUANTIZE,
    QUANTIZE_DYNAMIC,
    target_name,
)

STEP = checks.STEP
NO_WORK = (
    QUANTIZE | DEQUANTIZE | CHOOSE_QPARAMS | QUANTIZE_DYNAMIC | DEQUANTIZE_DYNAMIC | {DEQUANTIZE_PER_GROUP, GETITEM}
)
COPIES = frozenset({"aten.clone.default", "dim_order_ops._clone_dim_order.default"})

Tags = Mapping[str, str]  # node name -> delegation tag


@dataclass(frozen=True)
class Node:
    """One operator of a prepared program. step: of the case's graph, which it came of, "" for none.

    inputs: names of the nodes that it takes. grid: the scale and zero point of a quantize or dequantize node, each a
    number or the name of a node.
    """

    name: str
    target: str
    step: str
    inputs: tuple[str, ...]
    grid: tuple[float | str, ...] = ()

    @property
    def computes(self) -> bool:
        """Whether it does more than to convert and copy."""
        return self.target not in NO_WORK | COPIES


def outline(graph: fx.Graph) -> tuple[Node, ...]:
    """The operators of a graph, in order."""
    return tuple(_node(node) for node in graph.nodes if node.op == "call_function")


def _node(node: fx.Node) -> Node:
    target = target_name(node.target)
    inputs = tuple(source.name for source in node.all_input_nodes)
    grid = tuple(map(_number, node.args[1:3])) if target in QUANTIZE | DEQUANTIZE else ()
    return Node(node.name, target, str(node.meta.get(STEP, "")), inputs, grid)


def _number(argument: Any) -> float | str:
    return argument.name if isinstance(argument, fx.Node) else float(argument)


def empty_partitions(nodes: Sequence[Node], tags: Tags, working: Collection[str]) -> int:
    """How many partitions hold nothing but conversions and copies; `working` are conversions that are work there."""
    busy = {tags[node.name] for node in nodes if node.name in tags and (node.computes or node.target in working)}
    return len(set(tags.values()) - busy)


def on_integers(nodes: Sequence[Node], tags: Tags) -> bool:
    """Whether every step is computed on codes, in delegates."""
    known = {node.name: node for node in nodes}
    return not any(_falls_back(node, known, tags) or _splits(node, known, tags) for node in nodes)


def _falls_back(node: Node, known: Mapping[str, Node], tags: Tags) -> bool:
    """Whether torch, not a delegate, rounds codes here: computes a step, or gives a copy other parameters."""
    if node.name in tags:
        return False
    if node.target not in QUANTIZE:
        return bool(node.step) and node.computes
    *_, source = _through_copies(node, known, tags)
    return source.target in DEQUANTIZE and source.grid != node.grid


def _through_copies(node: Node, known: Mapping[str, Node], tags: Tags) -> Iterator[Node]:
    """A node, the copies that torch makes before it, and what they are copies of."""
    yield node
    while node.inputs and node.inputs[0] in known and node.inputs[0] not in tags:
        node = known[node.inputs[0]]
        yield node
        if node.target not in COPIES:
            return


def _splits(node: Node, known: Mapping[str, Node], tags: Tags) -> bool:
    """Whether a delegate computes in floats here, between a dequantize and a quantize node that torch runs."""
    if node.name in tags:
        outside = [known[name] for name in node.inputs if name in known and name not in tags]
        return any(source.target in DEQUANTIZE | DEQUANTIZE_DYNAMIC for source in outside)
    return node.target in QUANTIZE and bool(node.inputs) and node.inputs[0] in tags
