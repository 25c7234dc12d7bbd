"""Asking a partitioner: the program that it gets, and what it answers, as text."""

from __future__ import annotations

from collections.abc import Callable, Collection

from torch import fx
from torch.export import ExportedProgram

# Others load these two late; here they are loaded before workers are forked, not once in each.
import npu_assay.conformance.programs.edge_writer
import npu_assay.partitioners.exir.tracing  # noqa: F401
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.run.outline import Tags
from npu_assay.partitioners.exir import Backend, Partitioner, PartitionResult, Rejection, apply_passes
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG

Rejected = tuple[str, str, str, str]
"""A rejection as text: the node, the code, what was found, the rule in words."""


def prepared(graph: Graph, backend: Backend, preserve: Collection[str], mark: str) -> ExportedProgram:
    """A graph's edge program (`programs.build`) after the vendor's passes."""
    return after_passes(build(graph, preserve, mark), backend)


def after_passes(program: ExportedProgram, backend: Backend) -> ExportedProgram:
    """A program after the vendor's passes, if it has any."""
    return apply_passes(program, backend.passes) if backend.passes else program


class Recorder(Partitioner):
    """Passes everything on to a partitioner, keeps the tags of its last answer and calls `answered`."""

    def __init__(self, inner: Partitioner, answered: Callable[[], None] = lambda: None) -> None:
        super().__init__(inner.spec)
        self.inner = inner
        self.answered = answered
        self.tags: Tags = {}

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """The inner partitioner's answer."""
        result = self.inner(exported_program)
        self.tags = tags_of(result.tagged_exported_program.graph)
        self.answered()
        return result

    @property
    def rejections(self) -> tuple[Rejected, ...] | None:
        """Why nodes were left out at the last answer; None when the partitioner never says."""
        found = getattr(self.inner, "rejections", None)
        return None if found is None else tuple(map(_rejected, found))


def _rejected(rejection: Rejection) -> Rejected:
    """Raises TypeError for one that says nothing where its texts should be."""
    for name in ("code", "sentence"):
        value = getattr(rejection, name)
        if not isinstance(value, str):
            raise TypeError(f"rejection of {rejection.node}: its {name} is a {type(value).__name__}, expected a str")
    return str(rejection.node), rejection.code, str(rejection.found), rejection.sentence


def tags_of(graph: fx.Graph) -> dict[str, str]:
    """The tagged nodes of a graph, by name."""
    return {node.name: str(node.meta[DELEGATION_TAG]) for node in graph.nodes if node.meta.get(DELEGATION_TAG)}
