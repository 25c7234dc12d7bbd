"""A number for all axes may be written once: `[2]` is `[2, 2]` for torch, so it is for a partitioner and a compiler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.programs.build import build, model_inputs
from npu_assay.conformance.programs.graph import Case, Graph
from npu_assay.conformance.run.answering import delegates
from npu_assay.conformance.run.partitioning import Recorder, prepared
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import Table, load_table
from npu_assay.partitioners.exir import Backend, run_program, to_backend

TABLES = {
    "ethos-u55": "ethos_u55@1.5",
    "ethos-u85": "ethos_u85@1.5",
    "neutron": "neutron@1.3",
    "xnnpack": "xnnpack@1.5",
}


def written_once(case: Case) -> Iterator[tuple[int, Graph]]:
    """The case's program with each list of one number, in turn, written as that number alone."""
    (step,) = (step for step in case.graph.steps if step.name == case.subject)
    for index, given in enumerate(step.args):
        if isinstance(given, tuple) and len(given) > 1 and len(set(given)) == 1 and isinstance(given[0], int):
            args = (*step.args[:index], given[:1], *step.args[index + 1 :])
            steps = (replace(each, args=args) if each is step else each for each in case.graph.steps)
            yield index, replace(case.graph, steps=tuple(steps))


def answer(graph: Graph, backend: Backend, table: Table) -> tuple[object, list[bytes]]:
    """What is left out and why, and the bytes of delegates."""
    asked = Recorder(backend.partitioner())
    details = dict.fromkeys((backend.details.__name__, table.backend_id), backend.details)
    lowered = to_backend(prepared(graph, backend, tuple(table.preserve), table.mark), asked, details=details)
    return asked.rejections, [bytes(each.processed_bytes) for each in delegates(lowered)]


def is_same(graph: Graph, other: Graph) -> bool:
    """Whether torch takes both, and computes the same."""
    try:
        pairs = zip(*(run_program(build(each), model_inputs(each)) for each in (graph, other)), strict=True)
        return all(torch.equal(one, two) for one, two in pairs)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return False


@pytest.mark.parametrize("vendor", TABLES)
def test_a_number_for_all_axes_may_be_written_once(vendor: str) -> None:
    table, backend, asked = load_table(TABLES[vendor]), load_backend(vendor), set[object]()
    for case in all_cases(table):
        for index, graph in written_once(case):
            kind = (case.row, case.constraint, case.side, index)
            if kind in asked or not is_same(case.graph, graph):
                continue
            asked.add(kind)
            assert answer(graph, backend, table) == answer(case.graph, backend, table), (case.id, index)
    assert len(asked) > 20
