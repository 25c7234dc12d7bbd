"""What a partitioner did with the operator under test: its tags, mapped back to the case's step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import fx
from torch.export import ExportedProgram

from npu_assay.conformance import checks
from npu_assay.conformance.graph import Case
from npu_assay.conformance.programs import build
from npu_assay.conformance.results import Reason
from npu_assay.conformance.table import Row, Table
from npu_assay.partitioners.exir import Backend, Partitioner, PartitionResult, Rejection, apply_passes
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG
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

Tags = Mapping[str, str]  # node name -> delegation tag


@dataclass(frozen=True)
class Tagging:
    """One answer of a partitioner. `reasons` is None when it does not report any."""

    verdict: str
    reasons: tuple[Reason, ...] | None
    tags: Tags


def prepare(case: Case, backend: Backend, table: Table) -> ExportedProgram:
    """The case's edge program after the vendor's passes; what the table names stays whole."""
    program = build(case.graph, table.preserve, table.mark)
    return apply_passes(program, backend.passes) if backend.passes else program


def tag(case: Case, backend: Backend, row: Row, program: ExportedProgram) -> Tagging:
    """Ask a fresh partitioner about a prepared program, which it may write its tags on."""
    recorder = Recorder(backend.partitioner(**dict(case.options)))
    recorder(program)
    return tagging_of(case, row, recorder, program)


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


def tagging_of(case: Case, row: Row, recorder: Recorder, program: ExportedProgram) -> Tagging:
    """What a recorded answer about `program` means for the case's subject."""
    subject = subject_nodes(case, row, program.graph)
    found, reasons = verdict(subject, recorder.tags), _reasons(recorder.inner, subject)
    # What was taken in the end was not left out, whatever was said of it on the way.
    return Tagging(found, () if found == "accept" and reasons else reasons, recorder.tags)


def tags_of(graph: fx.Graph) -> dict[str, str]:
    """The tagged nodes of a graph, by name."""
    return {node.name: str(node.meta[DELEGATION_TAG]) for node in graph.nodes if node.meta.get(DELEGATION_TAG)}


def subject_nodes(case: Case, row: Row, graph: fx.Graph) -> tuple[fx.Node, ...]:
    """The nodes that decide the verdict.

    Of the nodes that the subject became, those of the row's own operator, in any of its spellings;
    when no node has one of these names, all that compute something.
    """
    nodes = [n for n in graph.nodes if n.op == "call_function" and n.meta.get(STEP) == case.subject]
    names = {row.name, row.operator, row.rewritten_to, *(s.op for s in case.graph.steps if s.name == case.subject)}
    named = tuple(node for node in nodes if target_name(node.target) in names)
    return named or tuple(node for node in nodes if target_name(node.target) not in NO_WORK)


def verdict(subject: tuple[fx.Node, ...], tags: Tags) -> str:
    """accept: every node of the subject is tagged; reject: none; partial: some; absent: there is no node."""
    if not subject:
        return "absent"
    tagged = sum(node.name in tags for node in subject)
    return "accept" if tagged == len(subject) else "partial" if tagged else "reject"


def _reasons(partitioner: Partitioner, subject: tuple[fx.Node, ...]) -> tuple[Reason, ...] | None:
    rejections = getattr(partitioner, "rejections", None)
    if rejections is None:
        return None
    names = {node.name for node in subject}
    found = {_reason(rejection): None for rejection in rejections if rejection.node in names}
    return tuple(found)


def _reason(rejection: Rejection) -> Reason:
    """A rejection as it is recorded. Raises TypeError for one that says nothing where its texts should be."""
    for name in ("code", "sentence"):
        value = getattr(rejection, name)
        if not isinstance(value, str):
            raise TypeError(f"rejection of {rejection.node}: its {name} is a {type(value).__name__}, expected a str")
    return Reason(rejection.code, str(rejection.found), rejection.sentence)
