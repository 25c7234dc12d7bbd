"""What compilers refuse: programs that are damaged after they were made, and the refusals in the compilers' sources."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delegated import delegated
from torch import fx
from torch.export import ExportedProgram

from npu_assay import partitioners
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Graph
from npu_assay.partitioners.exir.ops import edge_op

ROOT = Path(partitioners.__file__).resolve().parent
Line = tuple[str, int]
Change = Callable[[ExportedProgram], None]


@dataclass(frozen=True)
class Damaged:
    """A program that is changed after it was made, into one that torch does not make."""

    graph: Graph
    change: Change

    def program(self) -> ExportedProgram:
        """The program of the delegate."""
        made = delegated(build(self.graph))
        self.change(made)
        return made


def node(program: ExportedProgram, part: str) -> fx.Node:
    """The first node whose name has that part."""
    found: fx.Node = next(each for each in program.graph.nodes if part in each.name)
    return found


def argument(part: str, position: int, value: Any) -> Change:
    """Give a node another argument; for text, the node of that name."""

    def change(program: ExportedProgram) -> None:
        node(program, part).update_arg(position, node(program, value) if isinstance(value, str) else value)

    return change


def valued(part: str, value: Any) -> Change:
    """Let a node's result be another value."""

    def change(program: ExportedProgram) -> None:
        node(program, part).meta["val"] = value

    return change


def forgotten(program: ExportedProgram) -> None:
    """Constants without data, as programs with fake tensors have them."""
    program.state_dict.clear()


def returned(*parts: str) -> Change:
    """Give back what nodes give, and compute nothing else."""

    def change(program: ExportedProgram) -> None:
        program.graph.output_node().args = (tuple(node(program, part) for part in parts),)
        program.graph.eliminate_dead_code()

    return change


def inserted(op: str, part: str) -> Change:
    """An operator before another one, without a quantize node after it."""

    def change(program: ExportedProgram) -> None:
        last = node(program, part)
        with program.graph.inserting_before(last):
            extra = program.graph.call_function(edge_op(op), last.args[:1])
        extra.meta = dict(last.all_input_nodes[0].meta)
        last.update_arg(0, extra)

    return change


def attached(program: ExportedProgram) -> None:
    """A node of a kind that is no function call."""
    first = next(each for each in program.graph.nodes if each.op == "call_function")
    with program.graph.inserting_before(first):
        program.graph.create_node("get_attr", "lost")


def refusals(*folders: str) -> Iterator[tuple[Line, ...]]:
    """The lines of each call that refuses; the method that only hands a refusal on is none."""
    for file in (each for folder in folders for each in sorted((ROOT / folder).glob("*.py"))):
        for call in (each for each in ast.walk(ast.parse(file.read_text())) if isinstance(each, ast.Call)):
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            handed_on = bool(call.args) and ast.unparse(call.args[0]) == "holds"
            if name in ("require", "refusal") and not handed_on:
                yield tuple((str(file), line) for line in range(call.lineno, (call.end_lineno or 0) + 1))
