"""What a random program shows about a backend.

Partitions change nothing but tags, do not wait for each other, and are the same when asked again, of another
partitioner or on a program that has tags. What is tagged compiles; the program gives what the goldens allow, delegated
and in torch. Where the program is one of the table's own, with other numbers, it is tagged as the table says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from torch import Tensor, fx
from torch.export import ExportedProgram

from npu_assay.conformance.certify import (
    Observation,
    Sources,
    check_delegate,
    computes,
    delegates,
    judge_outputs,
    on_integers,
    run_lowered,
    working,
)
from npu_assay.conformance.fuzz.sketch import REFUSED
from npu_assay.conformance.graph import Case
from npu_assay.conformance.numerics import golden, judge
from npu_assay.conformance.programs import model_inputs
from npu_assay.conformance.results import Failure, tag_failures
from npu_assay.conformance.table import Table
from npu_assay.conformance.tagging import STEP, Recorder, prepare, tagging_of
from npu_assay.partitioners.exir import Backend, run_program, to_backend
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG
from npu_assay.reference.golden import GoldenError

PARTITION, REFERENCE = "partition", "reference"


def observe(case: Case, backend: Backend, table: Table, seen: Observation) -> None:
    """Tag, compile, run, judge. Adds to `seen`; whatever a backend raises goes through."""
    inputs, sources = model_inputs(case.graph), Sources.of(case)
    seen.enter("passes")
    program = prepare(case, backend, table)
    expected = _in_torch(program, inputs)
    if expected is None:
        return
    defined = _is_defined(case, table, expected)
    seen.enter("partition")
    first = _partitioned(case, backend, table, program, seen)
    seen.enter("compile")
    lowered = _lowered(case, backend, table, program, first.tags, seen)
    outputs = list[Tensor]()
    if defined:
        seen.enter("run")
        outputs = run_lowered(backend, lowered, inputs, seen)
    seen.enter("judge")
    sources.check(seen)
    if seen.watch is not None:
        seen.failures += [Failure("state", change) for change in seen.watch.changes(numeric=True)]
    if defined:
        whole = bool(seen.blobs) and on_integers(lowered)
        if not whole or _has_golden(case, table):
            judge_outputs(case, outputs, table.rescale or None, whole, seen)
        for gate in judge(golden(case.graph), expected, table.rescale or None, delegated=False):
            for message in gate.messages:
                seen.fail(REFERENCE, f"in torch: {gate.gate}: {message}")
    seen.enter("compile again")
    for delegate in delegates(lowered):
        check_delegate(backend, delegate, working(table), seen)
    sources.check(seen)
    seen.finish("delegates", "mutation", "determinism", "empty", PARTITION, REFERENCE)


def _in_torch(program: ExportedProgram, inputs: Sequence[Tensor]) -> list[Tensor] | None:
    """What the program gives in torch; None when torch refuses it, so that no backend need do anything with it."""
    try:
        outputs: list[Tensor] = run_program(program, inputs)
    except REFUSED:
        return None
    return outputs


def _is_defined(case: Case, table: Table, expected: Sequence[Tensor]) -> bool:
    """Whether the program has an answer: no logarithm of a negative number, nothing that is not finite."""
    if not all(bool(x.isfinite().all()) for x in expected):
        return False
    try:
        run = golden(case.graph).walk(table.rescale or None, delegated=False)
    except GoldenError:
        return False
    numbers = [part for x in run.bounded for part in (x.value, x.error)]
    numbers += [codes.ambiguous() for codes in run.codes if codes is not None]
    return all(bool(part.isfinite().all()) for part in numbers)


def _has_golden(case: Case, table: Table) -> bool:
    """Whether there is an answer along the device's codes, which may leave where an operator is defined."""
    try:
        golden(case.graph).walk(table.rescale or None, delegated=True)
    except GoldenError:
        return False
    return True


def _partitioned(case: Case, backend: Backend, table: Table, program: ExportedProgram, seen: Observation) -> Recorder:
    """Tag, and hold the tags against what holds for any; afterwards the program has none."""
    before = _written(program)
    recorder = Recorder(backend.partitioner(**dict(case.options)))
    recorder(program)
    tags = recorder.tags
    if case.subject:
        tagging = tagging_of(case, table.row(case.row), recorder, program)
        seen.verdict, seen.reasons = tagging.verdict, tagging.reasons
        seen.failures += tag_failures(case, tagging.verdict, tagging.reasons)
    else:
        seen.verdict = _verdict(program, tags)
    if _written(program) != before:
        seen.fail(PARTITION, "something else than tags changed")
    for cycle in cycles(program, tags):
        seen.fail(PARTITION, cycle)
    recorder(program)
    if recorder.tags != tags:
        seen.fail(PARTITION, "the tagged program was tagged otherwise")
    recorder.tags = tags
    for node in program.graph.nodes:
        node.meta.pop(DELEGATION_TAG, None)
    return recorder


def _verdict(program: ExportedProgram, tags: Mapping[str, str]) -> str:
    """Whether all, some or none of what computes is tagged."""
    nodes = [node.name in tags for node in program.graph.nodes if STEP in node.meta and computes(node)]
    return "accept" if nodes and all(nodes) else "partial" if any(nodes) else "reject"


def _lowered(
    case: Case, backend: Backend, table: Table, program: ExportedProgram, tags: Mapping[str, str], seen: Observation
) -> ExportedProgram:
    again = Recorder(backend.partitioner(**dict(case.options)))
    details = dict.fromkeys((backend.details.__name__, table.backend_id), backend.details)
    lowered: ExportedProgram = to_backend(program, again, details=details)
    if again.tags != tags:
        differing = sorted({name for name, _ in again.tags.items() ^ tags.items()})
        seen.fail("determinism", f"the same program was tagged differently twice: {', '.join(differing)}")
    seen.blobs += [hashlib.sha256(delegate.processed_bytes).hexdigest() for delegate in delegates(lowered)]
    if case.delegates is not None and len(seen.blobs) != case.delegates:
        seen.fail("delegates", f"found {len(seen.blobs)} delegates, expected {case.delegates}")
    return lowered


def _written(program: ExportedProgram) -> list[object]:
    """All of a program but tags and numbers: nodes, arguments, what is noted on them, signature."""
    return [[_node(node) for node in program.graph.nodes], repr(program.graph_signature)]


def _node(node: fx.Node) -> tuple[str, ...]:
    notes = sorted(f"{key}: {value!r}" for key, value in node.meta.items() if key != DELEGATION_TAG)
    return (node.op, str(node.target), node.name, repr(node.args), repr(node.kwargs), *notes)


def cycles(program: ExportedProgram, tags: Mapping[str, str]) -> Iterator[str]:
    """Partitions that need a result which needs one of theirs."""
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
        yield f"partitions wait for each other: {', '.join(dict.fromkeys(error.args[1]))}"
