"""Asking a backend's partitioner about models of one operator."""

from __future__ import annotations

from dataclasses import dataclass, field

from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.explain.record import Reason
from npu_assay.conformance.graph import Graph
from npu_assay.conformance.outline import outline
from npu_assay.conformance.partitioning import Recorder, prepared
from npu_assay.conformance.table import Table
from npu_assay.partitioners.exir import Backend


@dataclass
class Asking:
    """Answers of one backend, each kept."""

    backend: Backend
    table: Table
    answers: dict[Graph, tuple[Reason, ...] | None] = field(default_factory=dict)

    def takes(self, graph: Graph) -> bool:
        """Whether every node that the operator becomes is tagged."""
        return self.reasons(graph) is None

    def reasons(self, graph: Graph) -> tuple[Reason, ...] | None:
        """Why the operator is left out; None where it is taken. A model that no program says is left out as well."""
        if graph not in self.answers:
            self.answers[graph] = self._asked(graph)
        return self.answers[graph]

    def _asked(self, graph: Graph) -> tuple[Reason, ...] | None:
        try:
            program = prepared(graph, self.backend, self.table.preserve, self.table.mark)
            recorder = Recorder(self.backend.partitioner())
            recorder(program)
        except Exception as error:  # noqa: BLE001  (a partitioner may raise anything, torch for what is no program)
            return (Reason("error", type(error).__name__, " ".join(str(error).split())[:200]),)
        subject = [node for node in outline(program.graph) if node.step == SUBJECT and node.computes]
        names = {node.name for node in subject}
        if subject and names <= set(recorder.tags):
            return None
        found = [Reason(*rest) for node, *rest in recorder.rejections or () if node in names]
        return tuple(dict.fromkeys(found))
