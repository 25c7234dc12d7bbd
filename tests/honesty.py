"""The honesty contract on any model: what a backend accepts matches, what it refuses still runs and matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from torch import Tensor, fx
from torch.export import ExportedProgram

from conformance.certify import COPIES, delegates
from conformance.exact import operands, step_quants, with_moved_quants
from conformance.graph import Graph
from conformance.numerics import Golden, golden, judge
from conformance.programs import build, model_inputs
from conformance.tagging import NO_WORK, STEP, Recorder, tags_of
from partitioners.exir import Backend, run_program, to_backend, transform_program
from partitioners.exir.ops import target_name

SCHEME = "tflite_double_round"


def faults(graph: Graph, backend: Backend) -> list[str]:
    """Everything that is wrong with what the backend does to the model; crashes are not caught."""
    known, inputs = golden(graph), model_inputs(graph)
    program = build(graph)
    passed = transform_program(program, backend.passes)
    recorder = Recorder(backend.partitioner())
    lowered = to_backend(passed, recorder)
    runtimes = {delegate.backend_id: backend.runtime for delegate in delegates(lowered)}
    whole = not falls_back(lowered, graph)
    return [
        *_judged("program", known, run_program(program, inputs), False),
        *_judged("after passes", known, run_program(passed, inputs), False),
        *_judged("lowered", known, run_program(lowered, inputs, runtimes), whole),
        *_cycles(passed, recorder.tags),
        *_judged("lowered twice", known, _lowered_again(backend, lowered, inputs), False),
        *_same_again(backend, passed, recorder.tags, lowered),
    ]


def falls_back(lowered: ExportedProgram, graph: Graph) -> bool:
    """Whether torch computes a step of the lowered program that has exact codes."""
    exact = _with_codes(graph)
    return any(node.meta.get(STEP) in exact and _computes(node) for node in lowered.graph.nodes)


def _with_codes(graph: Graph) -> set[str]:
    """The values and steps that are codes computed from codes."""
    graph = with_moved_quants(graph)
    quants = step_quants(graph)
    found = {value.name for value in graph.values if value.quant is not None}
    for step in graph.steps:
        if quants[step.name] is not None and all(ref.name in found for ref in operands(step)):
            found.add(step.name)
    return found


def _computes(node: fx.Node) -> bool:
    return node.op == "call_function" and target_name(node.target) not in NO_WORK | COPIES


def _judged(what: str, known: Golden, outputs: Sequence[Tensor], delegated: bool) -> Iterator[str]:
    for gate in judge(known, outputs, SCHEME, delegated=delegated):
        yield from (f"{what}: {gate.gate}: {message}" for message in gate.messages)


def _lowered_again(backend: Backend, lowered: ExportedProgram, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Partition what is lowered already: without the operators that are gone, more may be accepted."""
    twice = to_backend(lowered, backend.partitioner())
    return run_program(twice, inputs, {delegate.backend_id: backend.runtime for delegate in delegates(twice)})


def _cycles(program: ExportedProgram, tags: Mapping[str, str]) -> Iterator[str]:
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
        yield f"partitions wait for each other: {error.args[1]}"


def _same_again(
    backend: Backend, passed: ExportedProgram, tags: Mapping[str, str], lowered: ExportedProgram
) -> Iterator[str]:
    """The same tags and bytes a second time."""
    again = Recorder(backend.partitioner())
    blobs = [delegate.processed_bytes for delegate in delegates(to_backend(passed, again))]
    if again.tags != tags:
        yield "other tags the second time"
    if blobs != [delegate.processed_bytes for delegate in delegates(lowered)]:
        yield "other bytes the second time"
    if backend.passes and tags_of(transform_program(passed, backend.passes).graph):
        yield "passes leave tags"
