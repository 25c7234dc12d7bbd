"""Answers questions about random programs in the process of the backend.

In addition to `run.answering`, it checks the tags against rules that hold for any program, and runs the program in
torch. Of a program that torch refuses, without the backend's passes, nothing is asked: whatever the backend did with
it does not count. What fails with the passes alone is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from npu_assay.conformance.programs.build import build, model_inputs
from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.programs.seeds import filled
from npu_assay.conformance.record.results import Failure
from npu_assay.conformance.run.answering import Sources, Watch, Work, compile_again, compiled, drawn, ended, runs
from npu_assay.conformance.run.outline import Tags, outline
from npu_assay.conformance.run.partitioning import Recorder, after_passes, prepared
from npu_assay.conformance.run.question import Answer, Draw, Inputs, Question
from npu_assay.partitioners.exir import Backend, run_program
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG

PARTITION = "partition"
LARGEST = torch.finfo(torch.float32).max
REFUSED = (RuntimeError, TypeError, ValueError, IndexError, AssertionError)
"""The errors that torch raises for arguments that it refuses."""


def answer(question: Question, backend: Backend, draw: Draw, watch: Watch | None = None) -> Answer:
    """What a backend makes of a random program: see `answering.answer`."""
    return ended(Work(question, backend, draw, watch), _answer)


def _answer(work: Work) -> None:
    question, found = work.question, work.answer
    sources = Sources.of(value for value in question.graph.values if value.constant)
    work.enter("program")
    program = _plain(question) if quantizes(question.graph) else None
    if program is None:
        return
    failed: Exception | None = None
    try:
        lowered = _lowered(work, program)
    except Exception as error:  # noqa: BLE001  (a backend may raise anything; it counts where torch takes the program)
        failed = error
    stage, given = work.stage, drawn(work)
    found.expected = _expected(work, given)
    if found.expected is None:
        return
    if failed is not None:
        work.stage = stage
        raise failed
    if question.runs and all(bool(x.isfinite().all()) for x in found.expected):
        runs(work, lowered, given, sources)
    work.settings()
    compile_again(work, lowered)
    found.late += sources.changes()


def _plain(question: Question) -> ExportedProgram | None:
    """The program without the backend's passes; None if torch, or what writes it in torch's operators, refuses it."""
    try:
        return build(question.graph, question.preserve, question.mark)
    except REFUSED:
        return None


def _lowered(work: Work, plain: ExportedProgram) -> ExportedProgram:
    work.enter("passes")
    program = after_passes(plain, work.backend)
    work.answer.nodes = outline(program.graph)
    work.enter("partition")
    tags = _partitioned(work, program)
    work.enter("compile")
    again = Recorder(work.partitioner())
    lowered = compiled(work, program, again)
    work.answer.tags, work.answer.tags_again = tags, dict(again.tags)
    return lowered


def _expected(work: Work, given: Inputs) -> list[Tensor] | None:
    """What torch computes for the first inputs, of a program that no partitioner has seen; None if it refuses.

    Raises what torch raises where it takes the program without the backend's passes alone.
    """
    question = work.question
    inputs = model_inputs(filled(question.graph, given.runs[0]))
    try:
        return run_program(prepared(question.graph, work.backend, question.preserve, question.mark), inputs)
    except Exception:
        plain = _plain(question)
        if plain is None or _in_torch(plain, inputs) is None:
            return None
        work.stage = "passes"
        raise


def quantizes(graph: Graph) -> bool:
    """Whether torch can quantize by every scale of a graph: it multiplies by float32(1 / scale), which is a number."""
    quants = [*(value.quant for value in graph.values), *(step.quant for step in graph.steps)]
    given = [quant.scale for quant in quants if quant is not None]
    scales = (scale for each in given for scale in (each if isinstance(each, tuple) else (each,)))
    return all(LARGEST * scale >= 1 for scale in scales)


def _in_torch(program: ExportedProgram, inputs: Sequence[Tensor]) -> list[Tensor] | None:
    """The program's outputs in torch; None if torch refuses it."""
    try:
        outputs: list[Tensor] = run_program(program, inputs)
    except REFUSED:
        return None
    return outputs


def _partitioned(work: Work, program: ExportedProgram) -> Tags:
    """Tag the program, check the tags against rules that hold for any program, and remove them."""
    before = _written(program)
    recorder = Recorder(work.partitioner())
    recorder(program)
    tags = dict(recorder.tags)
    work.answer.tags, work.answer.rejections = tags, recorder.rejections
    if _written(program) != before:
        work.answer.early.append(Failure(PARTITION, "the partitioner changed something else than tags"))
    work.answer.early += [Failure(PARTITION, cycle) for cycle in cycles(program, tags)]
    recorder(program)
    if recorder.tags != tags:
        work.answer.early.append(Failure(PARTITION, "tagging the tagged program again gave other tags"))
    for node in program.graph.nodes:
        node.meta.pop(DELEGATION_TAG, None)
    return tags


def _written(program: ExportedProgram) -> list[object]:
    """All of a program except tags and numbers: nodes, arguments, metadata, signature."""
    return [[_node(node) for node in program.graph.nodes], repr(program.graph_signature)]


def _node(node: fx.Node) -> tuple[str, ...]:
    notes = sorted(f"{key}: {value!r}" for key, value in node.meta.items() if key != DELEGATION_TAG)
    return (node.op, str(node.target), node.name, repr(node.args), repr(node.kwargs), *notes)


def cycles(program: ExportedProgram, tags: Mapping[str, str]) -> Iterator[str]:
    """The message about a cycle of partitions, if there is one."""
    before: dict[str, set[str]] = {}
    for node in program.graph.nodes:
        if node.op == "placeholder":  # a constant goes into every partition that uses it
            continue
        place = tags.get(node.name, node.name)
        sources = {tags.get(source.name, source.name) for source in node.all_input_nodes if source.op != "placeholder"}
        before.setdefault(place, set()).update(sources - {place})
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        yield f"found a cycle of partitions: {', '.join(dict.fromkeys(error.args[1]))}"
