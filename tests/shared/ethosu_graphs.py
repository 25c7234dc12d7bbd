"""Small quantized edge programs, marked as the Ethos-U quantizer marks them, and what the partitioner makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from neutron_graphs import Builder as PlainBuilder
from torch import fx
from torch.export import ExportedProgram

from npu_assay.partitioners.ethosu.compile_spec import EthosUCompileSpec
from npu_assay.partitioners.ethosu.partitioner import EthosUPartitioner
from npu_assay.partitioners.ethosu.support.common import MARK, is_qdq
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG
from npu_assay.partitioners.exir.ops import edge_op, target_name
from npu_assay.partitioners.exir.values import fill_values

U55, U85 = "ethos-u55-128", "ethos-u85-256"
WIDE = (0.001, 0, -32767, 32767, torch.int16)


def mark(node: fx.Node) -> fx.Node:
    """Say that the quantizer quantized the node."""
    if node.op == "call_function" and not is_qdq(node):
        node.meta.setdefault("custom", {})[MARK] = {"quantized": True}
    return node


@dataclass
class Builder(PlainBuilder):
    """An edge program under construction whose operators are marked as quantized."""

    def call(self, op: str, *args: Any, **kwargs: Any) -> fx.Node:
        """One operator, unquantized."""
        return mark(super().call(op, *args, **kwargs))

    def item(self, node: fx.Node, index: int) -> fx.Node:
        """One result of an operator with several, unquantized."""
        return mark(super().item(node, index))

    def integers(self, *shape: int, dtype: torch.dtype = torch.int32) -> fx.Node:
        """A model input of integers or booleans."""
        node = self.graph.placeholder(f"x{sum(n.op == 'placeholder' for n in self.graph.nodes)}")
        fill_values(self.graph, {node.name: torch.empty(shape, dtype=dtype)})
        return node


@dataclass(frozen=True)
class Verdict:
    """What became of a program: the tags, and the operators' codes."""

    tags: dict[str, str]
    codes: dict[str, list[str]]
    partitioner: EthosUPartitioner
    program: ExportedProgram

    def of(self, op: str) -> list[str]:
        """The codes for the operators of that name; [] when all of them are delegated."""
        return self.codes.get(op, [])


def partitioned(program: ExportedProgram, partitioner: EthosUPartitioner) -> Verdict:
    """Run the partitioner, and check what must hold of every answer."""
    result = partitioner.partition(program)
    tags = {n.name: n.meta[DELEGATION_TAG] for n in program.graph.nodes if n.meta.get(DELEGATION_TAG)}
    assert set(tags.values()) == set(result.partition_tags)
    codes: dict[str, list[str]] = {}
    for found in partitioner.rejections:
        codes.setdefault(found.target, []).append(found.code)
    reasons = {found.node for found in partitioner.rejections}
    left = [n for n in program.graph.nodes if n.op == "call_function" and not is_qdq(n) and n.name not in tags]
    assert all(node.name in reasons for node in left), [n.name for n in left if n.name not in reasons]
    assert not reasons & tags.keys()
    return Verdict(tags, codes, partitioner, program)


def judge(write: Callable[[Builder], fx.Node | Sequence[fx.Node]], target: str = U55) -> Verdict:
    """The verdict on the program that `write` makes."""
    builder = Builder()
    result = write(builder)
    program = builder.program(*([result] if isinstance(result, fx.Node) else result))
    return partitioned(program, EthosUPartitioner(EthosUCompileSpec(target)))


def operators(program: ExportedProgram) -> list[str]:
    """The operators that compute something."""
    return [target_name(n.target) for n in program.graph.nodes if n.op == "call_function" and not is_qdq(n)]


def application(builder: Builder, name: str, args: tuple[Any, ...], **options: Any) -> fx.Node | None:
    """The operator on these arguments; None where torch does not take them, or edge programs are not written so."""
    try:
        made = builder.call(name, *args, **options)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return None
    return made if is_written_so(made) else None


def is_written_so(node: fx.Node) -> bool:
    """Whether the arguments are those of an edge program: a node for each tensor, numbers and lists for the rest."""
    schema = edge_op(target_name(node.target)).schema
    assert schema is not None
    pairs = ((str(argument.type), given) for argument, given in zip(schema.arguments, node.args, strict=False))
    return all(isinstance(given, fx.Node) if kind == "Tensor" else _is_no_tensor(kind, given) for kind, given in pairs)


def _is_no_tensor(kind: str, given: object) -> bool:
    return "Tensor" not in kind or not isinstance(given, fx.Node)
