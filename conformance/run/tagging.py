"""What a partitioner did with the operator under test: its tags, mapped back to the case's step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch.export import ExportedProgram

from npu_assay.conformance.programs.graph import Case, LayerInParts
from npu_assay.conformance.record.results import Reason
from npu_assay.conformance.run.outline import NO_WORK, Node, Tags, outline
from npu_assay.conformance.run.partitioning import Recorder, Rejected, prepared
from npu_assay.conformance.table import Row, Table
from npu_assay.partitioners.exir import Backend

PRODUCTS = {"aten.addmm.default", "aten.mm.default"}
"""What decides over a linear layer in parts."""


@dataclass(frozen=True)
class Tagging:
    """One answer of a partitioner. `reasons` is None when it does not report any."""

    verdict: str
    reasons: tuple[Reason, ...] | None
    tags: Tags


def prepare(case: Case, backend: Backend, table: Table) -> ExportedProgram:
    """The case's edge program after the vendor's passes; operators that the table names are not decomposed."""
    return prepared(case.graph, backend, table.preserve, table.mark)


def tag(case: Case, backend: Backend, row: Row, program: ExportedProgram) -> Tagging:
    """Ask a fresh partitioner about a prepared program, which it may write its tags on."""
    recorder = Recorder(backend.partitioner(**dict(case.options)))
    recorder(program)
    return tagging_of(case, row, outline(program.graph), recorder.tags, recorder.rejections)


def tagging_of(
    case: Case, row: Row, nodes: Sequence[Node], tags: Tags, rejections: Sequence[Rejected] | None
) -> Tagging:
    """What an answer about a program of these nodes means for the case's subject."""
    subject = subject_nodes(case, row, nodes)
    found, reasons = verdict(subject, tags), _reasons(rejections, subject)
    # What was taken in the end was not left out, whatever was said of it on the way.
    return Tagging(found, () if found == "accept" and reasons else reasons, tags)


def subject_nodes(case: Case, row: Row, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes that decide the verdict.

    Of the nodes that the subject became, those of the row's own operator, in any of its spellings;
    when no node has one of these names, all that compute something.
    """
    came = [node for node in nodes if node.step == case.subject]
    steps = [step for step in case.graph.steps if step.name == case.subject]
    names = {row.name, row.operator, row.rewritten_to, *(step.op for step in steps)}
    if any(isinstance(step, LayerInParts) for step in steps):
        names |= PRODUCTS
    named = tuple(node for node in came if node.target in names)
    return named or tuple(node for node in came if node.target not in NO_WORK)


def verdict(subject: Sequence[Node], tags: Tags) -> str:
    """accept: every node of the subject is tagged; reject: none; partial: some; absent: there is no node."""
    if not subject:
        return "absent"
    tagged = sum(node.name in tags for node in subject)
    return "accept" if tagged == len(subject) else "partial" if tagged else "reject"


def _reasons(rejections: Sequence[Rejected] | None, subject: Sequence[Node]) -> tuple[Reason, ...] | None:
    if rejections is None:
        return None
    names = {node.name for node in subject}
    return tuple(dict.fromkeys(Reason(*texts) for node, *texts in rejections if node in names))
