"""Our backends keep the contract that they ask of others: what they accept compiles, runs and is right.

Each row's plain program is asked with extreme numbers and scales, and with codes that two readers read differently.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import pytest
from contract_programs import Variant, applied_twice, read_with_two_scales, with_numbers, with_scales

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.fuzz.observe import run_program_case
from npu_assay.conformance.programs.build import model_inputs, module
from npu_assay.conformance.programs.graph import Case, Graph
from npu_assay.conformance.record.results import Failure
from npu_assay.conformance.run.answering import delegates
from npu_assay.conformance.run.one_case import question
from npu_assay.conformance.run.partitioning import Recorder, prepared
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import Table, load_table
from npu_assay.partitioners.exir import Backend, run_program, to_backend

OWN = ("neutron", "neutron-1.4", "xnnpack", "ethos-u55", "ethos-u85")
DRAWN = 12
"""The variants of a row that a sample asks."""
GATES = ("gate1", "gate2", "gate3", "gate4", "reference")


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


def failures(name: str, graph: Graph, case: Case) -> list[Failure]:
    backend, table = backend_of(name)
    return list(run_program_case(replace(case, graph=graph, subject=""), backend, table).failures)


def drawn(asked: Iterable[Variant], config: pytest.Config, place: str) -> list[Variant]:
    """All variants of a row, or those that a sample asks."""
    found = list(asked)
    if not config.option.sample:
        return found
    return random.Random(f"{config.option.seed} {place}").sample(found, min(DRAWN, len(found)))


def is_computed(graph: Graph) -> bool:
    """Whether torch computes it at all: it takes no infinity where it needs a whole number, and no scale of 0."""
    try:
        module(graph)(*model_inputs(graph))
    except (RuntimeError, OverflowError, ZeroDivisionError):
        return False
    return True


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("name", "row"), ROWS)
def test_extreme_scales(name: str, row: str, pytestconfig: pytest.Config) -> None:
    case = plain_cases(name)[row]
    asked = drawn(with_scales(case.graph), pytestconfig, f"{name} {row}")
    failed = {label: found for label, graph in asked if (found := failures(name, graph, case))}
    assert not failed


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("name", "row"), ROWS)
def test_extreme_numbers_as_arguments(name: str, row: str, pytestconfig: pytest.Config) -> None:
    """Numbers are not judged here: what an infinite argument means to codes, no golden decides."""
    case = plain_cases(name)[row]
    programs = (one for one in with_numbers(case.graph, case.subject) if is_computed(one[1]))
    asked = drawn(programs, pytestconfig, f"{name} {row}")
    found = {label: [one for one in failures(name, graph, case) if one.check not in GATES] for label, graph in asked}
    assert not any(found.values()), found


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
