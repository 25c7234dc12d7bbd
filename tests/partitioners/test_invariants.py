"""What holds for every partition, on 2,000 random models of several operators.

Partitions are convex and have no cycle, nothing but tags changes, the same program gets the same tags
twice and once more when it has them already, and a delegated model gives what it gives in torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from honesty import lower, run
from random_graphs import random_graph
from torch.export import ExportedProgram

from npu_assay.conformance.fuzz.answering import cycles
from npu_assay.conformance.judge.numerics import golden, judge
from npu_assay.conformance.programs.build import build, model_inputs
from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.run.partitioning import Recorder
from npu_assay.conformance.table import Table, load_table
from npu_assay.partitioners.ethosu import ethos_u55, ethos_u85
from npu_assay.partitioners.exir import Backend, Partitioner, PartitionResult, apply_passes
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG
from npu_assay.partitioners.neutron import NeutronPartitioner
from npu_assay.partitioners.neutron import backend as neutron
from npu_assay.partitioners.xnnpack import backend as xnnpack

SEEDS, STEP = 2000, 50
RUN = 10  # one model in so many is also compiled and run
BACKENDS = (neutron, xnnpack, ethos_u55, ethos_u85)
TABLES = {backend.name: load_table(backend.table) for backend in BACKENDS}


def broken(graph: Graph, backend: Backend, table: Table, runs: bool) -> Iterator[str]:
    """The invariants that do not hold."""
    program = build(graph, table.preserve, table.mark)
    program = apply_passes(program, backend.passes) if backend.passes else program
    before = written(program)
    first = Recorder(backend.partitioner())
    first(program)
    if written(program) != before:
        yield "something else than tags changed"
    yield from cycles(program, first.tags)
    for what, again in (("another partitioner", Recorder(backend.partitioner())), ("the same partitioner", first)):
        tags = first.tags
        again(program)
        if again.tags != tags:
            yield f"{what} tagged the tagged program otherwise"
    if runs:
        yield from differing(graph, backend, table, program)


def written(program: ExportedProgram) -> list[object]:
    """All of a program but tags: nodes, arguments, what is noted on them, constants, signature."""
    notes = [
        (node.op, str(node.target), node.name, repr(node.args), repr(node.kwargs), _meta(node.meta))
        for node in program.graph.nodes
    ]
    constants = {**program.state_dict, **program.constants}
    return [notes, {name: repr(value) for name, value in constants.items()}, repr(program.graph_signature)]


def _meta(meta: dict[str, object]) -> list[str]:
    return sorted(f"{key}: {value!r}" for key, value in meta.items() if key != DELEGATION_TAG)


def differing(graph: Graph, backend: Backend, table: Table, program: ExportedProgram) -> Iterator[str]:
    """What a delegated model gives otherwise than torch: judged by the float golden's own bounds."""
    for node in program.graph.nodes:
        node.meta.pop(DELEGATION_TAG, None)
    outputs = run(lower(program, backend.partitioner(), backend), backend, model_inputs(graph))
    for gate in judge(golden(graph), outputs, table.rescale or None, delegated=False):
        yield from (f"delegated: {gate.gate}: {message}" for message in gate.messages)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
@pytest.mark.parametrize("first", range(0, SEEDS, STEP))
def test_invariants_hold_on_random_models(first: int, backend: Backend) -> None:
    """Every backend sees every fourth model; all of them together see each."""
    offset = BACKENDS.index(backend)
    table = TABLES[backend.name]
    seeds = range(first + offset, first + STEP, len(BACKENDS))
    found = {seed: list(broken(random_graph(seed), backend, table, seed % RUN == 0)) for seed in seeds}
    assert {seed: messages for seed, messages in found.items() if messages} == {}


# ------------------------------------------------------------------------------------ each can fail


class _Writing(NeutronPartitioner):
    """Notes something else on a node."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        next(iter(exported_program.graph.nodes)).meta["seen"] = True
        return super().partition(exported_program)


class _Growing(NeutronPartitioner):
    """Tags a program that has tags with others."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        tagged = any(node.meta.get(DELEGATION_TAG) for node in exported_program.graph.nodes)
        result = super().partition(exported_program)
        for node in exported_program.graph.nodes if tagged else ():
            node.meta[DELEGATION_TAG] = "tag7"
        return result


class _Greedy(NeutronPartitioner):
    """One delegate for all, convex or not."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        result = super().partition(exported_program)
        for node in exported_program.graph.nodes:
            if node.meta.get(DELEGATION_TAG):
                node.meta[DELEGATION_TAG] = "tag0"
        return result


@pytest.mark.parametrize(
    ("partitioner", "message"),
    [(_Writing, "something else"), (_Growing, "otherwise"), (_Greedy, "cycle")],
)
def test_a_broken_invariant_is_noticed(partitioner: type[Partitioner], message: str) -> None:
    wrong = replace(neutron, partitioner=partitioner)
    found = [text for seed in range(40) for text in broken(random_graph(seed), wrong, TABLES["neutron"], False)]
    assert any(message in text for text in found)


def test_other_numbers_are_noticed() -> None:
    """A device that gives zeros."""

    class Zeros:
        def load(self, *arguments: object) -> object:
            return neutron.runtime.load(*arguments)  # type: ignore[arg-type]

        def execute(self, handle: object, inputs: object) -> list[torch.Tensor]:
            return [torch.zeros_like(one) for one in neutron.runtime.execute(handle, inputs)]  # type: ignore[arg-type]

    wrong = replace(neutron, runtime=Zeros())
    found = [text for seed in range(20) for text in broken(random_graph(seed), wrong, TABLES["neutron"], True)]
    assert any("delegated: gate" in text for text in found)
