"""What was exported in train mode: it drops at random, or takes the batch's statistics."""

from __future__ import annotations

from collections.abc import Iterator

from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from npu_assay.conformance.explain.lowered import operators_in
from npu_assay.conformance.explain.origins import place_of
from npu_assay.partitioners.exir.compiling import bind

SWITCHES = ("train", "training")
SHARES = ("p", "dropout")
CURE = "export model.eval(); functions take training=self.training"


def trained(program: ExportedProgram) -> tuple[fx.Node, ...]:
    """The operators that do as in training."""
    return tuple(node for node in operators_in(program.graph) if _is_trained(node))


def _is_trained(node: fx.Node) -> bool:
    if not isinstance(node.target, OpOverload):
        return False
    given = bind(node)
    drops = [given[name] for name in SHARES if isinstance(given.get(name), (int, float))]
    return any(given.get(name) is True for name in SWITCHES) and drops != [0.0]


def warnings_of(nodes: tuple[fx.Node, ...]) -> Iterator[str]:
    """A line for each."""
    for node in nodes:
        yield f"{place_of(node)}, was exported in train mode: {CURE}"
