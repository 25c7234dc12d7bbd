"""Asking a backend's partitioner about models of one operator."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.common.describing import message, type_name
from npu_assay.conformance.explain.record import Reason
from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.run.outline import outline
from npu_assay.conformance.run.partitioning import Recorder, prepared
from npu_assay.conformance.table import Table
from npu_assay.partitioners.exir import Backend

NO_PROGRAM = "no_program"
AN_OPERAND = "an operand"


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

    def refused(self, graph: Graph) -> bool:
        """Whether there is no such program."""
        return [reason.code for reason in self.reasons(graph) or ()] == [NO_PROGRAM]

    def numbers(self, op: str) -> tuple[int, ...]:
        """The whole numbers of the table's limits for an operator, near which a change may be wanted."""
        rows = (row for row in self.table.rows if op in (row.name, row.operator, row.rewritten_to))
        found = {number for row in rows for c in row.constraints for number in whole_numbers(c.value)}
        return tuple(sorted(found))

    def _asked(self, graph: Graph) -> tuple[Reason, ...] | None:
        try:
            program = prepared(graph, self.backend, self.table.preserve, self.table.mark)
        except Exception as error:  # noqa: BLE001  (torch raises anything for what is no program)
            return (_raised(NO_PROGRAM, error),)
        recorder = Recorder(self.backend.partitioner())
        try:
            recorder(program)
        except Exception as error:  # noqa: BLE001  (a partitioner may raise anything)
            return (_raised("error", error),)
        subject = [node for node in outline(program.graph) if node.step == SUBJECT and node.computes]
        names = {node.name for node in subject}
        if subject and names <= set(recorder.tags):
            return None
        own = {node.name: AN_OPERAND for node in program.graph.nodes if node.op != "output"}
        found = [_spoken(Reason(*rest), own) for node, *rest in recorder.rejections or () if node in names]
        return tuple(dict.fromkeys(found))


def _spoken(reason: Reason, names: Mapping[str, str]) -> Reason:
    """The reason without the names of nodes of the model that was asked about, which the user has not."""
    return replace(reason, found=spelled(reason.found, names))


def spelled(text: str, names: Mapping[str, str]) -> str:
    """The text with other words for these, where they are no part of a name with dots."""
    return re.sub(r"(?<![\w.])\w+(?!\.?\w)", lambda word: names.get(word[0], word[0]), text)


def _raised(code: str, error: Exception) -> Reason:
    return Reason(code, type_name(error), " ".join(message(error).split())[:200])


def whole_numbers(value: Any) -> Iterator[int]:
    """The whole numbers among an argument, or arguments, in their order."""
    if isinstance(value, tuple):
        for each in value:
            yield from whole_numbers(each)
    elif type(value) is int:
        yield value
