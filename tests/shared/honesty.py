"""The honesty contract on any model: what a backend accepts matches, what it refuses still runs and matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from torch import Tensor, fx
from torch.export import ExportedProgram

from npu_assay.conformance.fuzz.answering import cycles
from npu_assay.conformance.judge.integer_golden import operands, step_quants, with_moved_quants
from npu_assay.conformance.judge.numerics import Golden, golden, judge
from npu_assay.conformance.programs.build import build, model_inputs
from npu_assay.conformance.programs.graph import Graph, references
from npu_assay.conformance.run.answering import delegates
from npu_assay.conformance.run.outline import NO_WORK, STEP
from npu_assay.conformance.run.partitioning import Recorder, tags_of
from npu_assay.partitioners.exir import Backend, Partitioner, run_program, to_backend, transform_program
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.neutron.partitioner import BACKEND_ID

SCHEME = "tflite_double_round"


def faults(graph: Graph, backend: Backend) -> list[str]:
    """Everything that is wrong with what the backend does to the model; crashes are not caught."""
    known, inputs = golden(graph), model_inputs(graph)
    program = build(graph)
    passed = transform_program(program, backend.passes)
    recorder = Recorder(backend.partitioner())
    lowered = lower(passed, recorder, backend)
    return [
        *_judged("program", known, run_program(program, inputs)),
        *_judged("after passes", known, run_program(passed, inputs)),
        *_judged_exactly(graph, lowered, run(lowered, backend, inputs)),
        *_judged("lowered twice", known, run(lower(lowered, backend.partitioner(), backend), backend, inputs)),
        *cycles(passed, recorder.tags),
        *_same_again(backend, passed, recorder.tags, lowered),
    ]


def lower(program: ExportedProgram, partitioner: Partitioner, backend: Backend) -> ExportedProgram:
    """Partition and compile, with the backend's own compiler whatever it is called."""
    names = {backend.details.__name__, BACKEND_ID}
    lowered: ExportedProgram = to_backend(program, partitioner, details=dict.fromkeys(names, backend.details))
    return lowered


def run(lowered: ExportedProgram, backend: Backend, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Delegates on the backend's runtime, the rest in torch."""
    return run_program(lowered, inputs, {delegate.backend_id: backend.runtime for delegate in delegates(lowered)})


def _judged(what: str, known: Golden, outputs: Sequence[Tensor], delegated: bool = False) -> Iterator[str]:
    for gate in judge(known, outputs, SCHEME, delegated=delegated):
        yield from (f"{what}: {gate.gate}: {message}" for message in gate.messages)


# ------------------------------------------------------------------------------------ exact codes


def _judged_exactly(graph: Graph, lowered: ExportedProgram, outputs: Sequence[Tensor]) -> Iterator[str]:
    """Exact codes where nothing on the way falls back; all outputs as those of a fallback otherwise."""
    falling = fallen_back(graph, lowered)
    part, kept = _without(graph, falling)
    if falling:
        yield from _judged("lowered", golden(graph), outputs)
    if kept:
        yield from _judged("lowered, exact part", golden(part), [outputs[index] for index in kept], True)


def fallen_back(graph: Graph, lowered: ExportedProgram) -> set[str]:
    """The steps that compute codes from codes, but in torch."""
    graph = with_moved_quants(graph)
    quants = step_quants(graph)
    codes = {value.name for value in graph.values if value.quant is not None}
    for step in graph.steps:
        if quants[step.name] is not None and all(ref.name in codes for ref in operands(step)):
            codes.add(step.name)
    return codes & {node.meta.get(STEP) for node in lowered.graph.nodes if _computes(node)}


def _computes(node: fx.Node) -> bool:
    return node.op == "call_function" and target_name(node.target) not in NO_WORK


def _without(graph: Graph, steps: set[str]) -> tuple[Graph, list[int]]:
    """The part of the graph that needs none of these steps, and which outputs it has."""
    needs: dict[str, set[str]] = {}
    for step in graph.steps:
        sources = [needs.get(ref.name, set()) for ref in references(step.args)]
        needs[step.name] = {step.name}.union(*sources)
    kept = [i for i, ref in enumerate(graph.outputs) if not needs.get(ref.name, set()) & steps]
    rest = set[str]().union(*(needs.get(graph.outputs[i].name, set()) for i in kept))
    # What only a dropped step takes is not fused in the whole graph, so it must not be in its part.
    part = replace(graph, steps=tuple(step for step in graph.steps if step.name in rest))
    found, whole = (step_quants(with_moved_quants(one)) for one in (part, graph))
    if any(found[name] != whole[name] for name in found):
        return graph, []
    return replace(part, outputs=tuple(graph.outputs[i] for i in kept)), kept


# ------------------------------------------------------------------------------------ tags and bytes


def _same_again(
    backend: Backend, passed: ExportedProgram, tags: Mapping[str, str], lowered: ExportedProgram
) -> Iterator[str]:
    """The same tags and bytes a second time."""
    again = Recorder(backend.partitioner())
    blobs = [delegate.processed_bytes for delegate in delegates(lower(passed, again, backend))]
    if again.tags != tags:
        yield "other tags the second time"
    if blobs != [delegate.processed_bytes for delegate in delegates(lowered)]:
        yield "other bytes the second time"
    if backend.passes and tags_of(transform_program(passed, backend.passes).graph):
        yield "passes leave tags"
