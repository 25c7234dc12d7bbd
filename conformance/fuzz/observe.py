"""Runs and judges one random program.

A partitioner changes nothing but tags, and its partitions have no cycle. A second partitioner gives the same tags, also
for a tagged program. What is tagged compiles; the outputs, delegated and in torch, are those that the goldens allow. A
program that is one case of the table with other numbers is tagged as the table says.
"""

from __future__ import annotations

from npu_assay.conformance.fuzz.answering import PARTITION, REFUSED, answer
from npu_assay.conformance.judge.numerics import golden, judge
from npu_assay.conformance.judge.second_golden import golden_failures
from npu_assay.conformance.programs.graph import Case, Graph
from npu_assay.conformance.programs.seeds import is_thorough
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.answering import FIRST
from npu_assay.conformance.run.drawing import Drawing
from npu_assay.conformance.run.observation import (
    Observation,
    judge_again,
    judge_blobs,
    judge_drawn,
    judge_end,
    judge_outputs,
    judge_partitions,
    judge_runs,
    judge_tags,
    judge_whole,
)
from npu_assay.conformance.run.one_case import question, result_of
from npu_assay.conformance.run.outline import on_integers
from npu_assay.conformance.run.question import Answer, Question
from npu_assay.conformance.table import Table
from npu_assay.partitioners.exir import Backend
from npu_assay.reference.golden import GoldenError

REFERENCE = "reference"


def run_program_case(case: Case, backend: Backend, table: Table) -> CaseResult:
    """Run and judge one random program in this process."""
    drawing = Drawing(case.graph)
    return judged(case, table, answer(asked(case, table), backend, drawing), drawing)


def asked(case: Case, table: Table) -> Question:
    """The question to a backend about a random program."""
    return question(case, table, random=True, anew=is_thorough(case.id, case.side), runs=_is_defined(case.graph, table))


def judged(case: Case, table: Table, given: Answer, drawing: Drawing) -> CaseResult:
    """The result of a random program, from the backend's answer."""
    return result_of(case, lambda seen: _judge(case, table, given, drawing, seen), table.rescale or None)


def _judge(case: Case, table: Table, given: Answer, drawing: Drawing, seen: Observation) -> None:
    if given.expected is None:  # torch refuses it, so that no backend need do anything with it
        judge_end(given, seen)
        return
    _judge_tags(case, table, given, seen)
    seen.failures += given.early
    judge_again(given, seen)
    judge_blobs(case, given, seen)
    judge_runs(given, None, seen)
    if FIRST in given.runs:
        _judge_outputs(case, table, given, drawing, seen)
    judge_partitions(given, table, seen)
    seen.failures += given.late
    judge_end(given, seen)
    finite = all(bool(x.isfinite().all()) for x in given.expected)
    runs = finite and (FIRST in given.runs or _is_defined(case.graph, table))
    judge_whole(given, question(case, table, random=True, anew=is_thorough(case.id, case.side), runs=runs), seen)
    if given.finished:
        seen.finish("delegates", "mutation", "determinism", "empty", PARTITION, REFERENCE)


def _judge_tags(case: Case, table: Table, given: Answer, seen: Observation) -> None:
    if given.tags is not None and case.subject:
        judge_tags(case, table, given, given.tags, seen)
    elif given.tags is not None:
        seen.verdict = _verdict(given)


def _verdict(given: Answer) -> str:
    """accept, partial or reject: all, some or none of the nodes that compute are tagged."""
    tagged = [node.name in (given.tags or {}) for node in given.nodes if node.step and node.computes]
    return "accept" if tagged and all(tagged) else "partial" if any(tagged) else "reject"


def _judge_outputs(case: Case, table: Table, given: Answer, drawing: Drawing, seen: Observation) -> None:
    """Judge the outputs of the backend, and those of torch for the same program."""
    scheme, whole = table.rescale or None, bool(given.blobs) and on_integers(given.nodes, given.tags or {})
    if not whole or _has_golden(case, table):
        judge_outputs(case, given.runs[FIRST], scheme, whole, seen)
        if all(_is_defined(graph, table) for graph in drawing.graphs):
            judge_drawn(given, drawing, scheme, whole, seen)
        seen.failures += golden_failures(case.graph)
    for gate in judge(golden(case.graph), given.expected or [], scheme, delegated=False):
        for message in gate.messages:
            seen.fail(REFERENCE, f"in torch: {gate.gate}: {message}")


def _is_defined(graph: Graph, table: Table) -> bool:
    """Whether the right outputs are defined: no logarithm of a negative number, nothing infinite or NaN."""
    try:
        run = golden(graph).walk(table.rescale or None, delegated=False)
    except (GoldenError, *REFUSED):
        return False
    numbers = [part for x in run.bounded for part in (x.value, x.error)]
    numbers += [codes.ambiguous() for codes in run.codes if codes is not None]
    return all(bool(part.isfinite().all()) for part in numbers)


def _has_golden(case: Case, table: Table) -> bool:
    """Whether the goldens are defined for the device's codes, which may lie outside an operator's domain."""
    try:
        golden(case.graph).walk(table.rescale or None, delegated=True)
    except GoldenError:
        return False
    return True
