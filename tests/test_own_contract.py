"""Our backends keep the contract that they ask of others: what they accept compiles, runs and is right.

Each row's plain program is asked with extreme numbers and scales, and with codes that two readers read differently.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import pytest
from contract_programs import applied_twice, read_with_two_scales, variants

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.fuzz.observe import run_program_case
from npu_assay.conformance.programs.build import model_inputs
from npu_assay.conformance.programs.graph import Case, Graph
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.answering import delegates
from npu_assay.conformance.run.one_case import question
from npu_assay.conformance.run.partitioning import Recorder, prepared
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import Table, load_table
from npu_assay.partitioners.exir import Backend, run_program, to_backend

OWN = ("neutron", "neutron-1.4", "xnnpack", "ethos-u55", "ethos-u85")
DRAWN = 12
"""The variants of a row that a sample asks."""
Row = tuple[str, str]


@cache
def backend_of(name: str) -> tuple[Backend, Table]:
    backend = load_backend(name)
    return backend, load_table(backend.table)


@cache
def plain_cases(name: str) -> dict[str, Case]:
    """The first plain accepted case of each row and precision."""
    found: dict[str, Case] = {}
    for case in all_cases(backend_of(name)[1]):
        if (case.constraint, case.side, case.expect) == ("operator", "accept", "accept"):
            found.setdefault(f"{case.row}/{case.precision or 'int8'}", case)
    return found


ROWS = [(name, row) for name in OWN for row in plain_cases(name)]


def observed(name: str, graph: Graph, case: Case) -> CaseResult:
    backend, table = backend_of(name)
    return run_program_case(replace(case, graph=graph, subject=""), backend, table)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("name", "row"), ROWS)
def test_extreme_numbers_and_scales(name: str, row: str, pytestconfig: pytest.Config) -> None:
    case = plain_cases(name)[row]
    asked = list(variants(case.graph, case.subject))
    if pytestconfig.option.sample:
        draw = random.Random(f"{pytestconfig.option.seed} {name} {row}")
        asked = draw.sample(asked, min(DRAWN, len(asked)))
    failed = {label: result.failures for label, graph in asked if (result := observed(name, graph, case)).failures}
    assert not failed


def lowered_and_run(name: str, case: Case, graph: Graph) -> None:
    """Lower a program whose codes are read with two scales, and run it."""
    backend, table = backend_of(name)
    asked = question(case, table)
    program = prepared(graph, backend, asked.preserve, asked.mark)
    if not read_with_two_scales(program):
        return
    details = dict.fromkeys((backend.details.__name__, asked.backend_id), backend.details)
    lowered = to_backend(program, Recorder(backend.partitioner()), details=details)
    run_program(lowered, model_inputs(graph), {one.backend_id: backend.runtime for one in delegates(lowered)})


@pytest.mark.sampled(40)
@pytest.mark.parametrize(("name", "row"), ROWS)
def test_codes_that_are_read_with_two_scales(name: str, row: str) -> None:
    case = plain_cases(name)[row]
    lowered_and_run(name, case, case.graph)
    lowered_and_run(name, case, applied_twice(case.graph, case.subject))
