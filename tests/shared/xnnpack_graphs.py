"""Small edge programs in the form that XNNPACK wants, and what its partitioner makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.export import ExportedProgram

from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir.backend import Rejection
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG
from npu_assay.partitioners.xnnpack import XnnpackPartitioner

PRESERVE = load_table("xnnpack@1.5").preserve
Q, OTHER = Quant(0.05, 3), Quant(0.125, -7)
WEIGHT = Quant(0.01, 0, -127)
X = Ref("x")


def real(name: str, *shape: int, dtype: str = "float32", dynamic: Sequence[int] = (), constant: bool = False) -> Value:
    """Numbers: a model input, or a constant."""
    fill = Fill(seed=sum(map(ord, name)))
    return Value(name, shape, None, fill, constant, dtype=dtype, dynamic=tuple(dynamic))


def coded(name: str, *shape: int, quant: Quant = Q, constant: bool = False) -> Value:
    """Codes: a quantized model input, or a constant."""
    return Value(name, shape, quant, Fill(seed=sum(map(ord, name))), constant)


def step(name: str, op: str, *args: Any, quant: Quant | None = None, **kwargs: Any) -> Step:
    """An application of an aten operator; strings name what it takes."""
    spelled = tuple(_reference(argument) for argument in args)
    op = op if op.count(".") > 1 else f"aten.{op}" if "." in op else f"aten.{op}.default"
    dynamic = kwargs.pop("dynamic", None)
    return Step(name, op, spelled, tuple(kwargs.items()), quant, dynamic=dynamic)


def _reference(argument: Any) -> Any:
    if isinstance(argument, tuple | list):
        return tuple(_reference(item) for item in argument)
    return Ref(argument) if isinstance(argument, str) else argument


def graph(values: Sequence[Value], steps: Sequence[Step], *outputs: str) -> Graph:
    """A model that returns what it computes last, unless told otherwise."""
    return Graph(tuple(values), tuple(steps), tuple(map(Ref, outputs or (steps[-1].name,))))


def program(model: Graph) -> ExportedProgram:
    """The model's edge program."""
    return build(model, PRESERVE)


@dataclass(frozen=True)
class Verdict:
    """What became of a program: the tag of each step's operator, of each node, and the reasons."""

    steps: dict[str, str | None]
    nodes: dict[str, str]
    rejections: tuple[Rejection, ...]

    @property
    def codes(self) -> dict[str, list[str]]:
        """The codes of the reasons, by node."""
        found: dict[str, list[str]] = {}
        for reason in self.rejections:
            found.setdefault(reason.node, []).append(reason.code)
        return found


def partitioned(
    made: ExportedProgram | Graph, partitioner: XnnpackPartitioner | None = None, **options: Any
) -> Verdict:
    """Run the partitioner."""
    found = program(made) if isinstance(made, Graph) else made
    chosen = XnnpackPartitioner(**options) if partitioner is None else partitioner
    result = chosen(found)
    tags = {node.name: str(node.meta[DELEGATION_TAG]) for node in found.graph.nodes if node.meta.get(DELEGATION_TAG)}
    assert set(tags.values()) == set(result.partition_tags)
    steps = {
        str(node.meta["step"]): tags.get(node.name)
        for node in found.graph.nodes
        if node.op == "call_function" and "step" in node.meta and "getitem" not in node.name
    }
    return Verdict(steps, tags, tuple(chosen.rejections))
