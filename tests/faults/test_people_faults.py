"""The faults as people make them: each is one, as a program shows that the right backend runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from benchmarks.people import Mistake, mistakes
from benchmarks.people.__main__ import finding, shares
from benchmarks.people.witnesses import witness
from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.fuzz.observe import run_program_case
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import Table, load_table
from npu_assay.partitioners.exir import Backend

ALL = mistakes()


@cache
def table_of(name: str) -> Table:
    return load_table(name)


def asked(case: Case, backend: Backend) -> CaseResult:
    return (run_case if case.subject else run_program_case)(case, backend, table_of(backend.table))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("mistake", ALL, ids=lambda one: f"{one.backend.name}-{one.name}")
def test_a_program_shows_the_fault(mistake: Mistake) -> None:
    case = witness(mistake.name, mistake.backend.name)
    assert asked(case, mistake.backend).failures == ()
    assert asked(case, load_backend(mistake.spec)).failures != ()


def test_each_stage_of_each_backend_has_faults() -> None:
    assert set(Counter(one.backend.name for one in ALL).values()) == {12}
    assert all(count >= 3 for count in Counter((one.backend.name, one.stage) for one in ALL).values())
    assert len({one.spec for one in ALL}) == len(ALL) == 60


@pytest.mark.long
def test_certify_alone_notices_a_fault_or_does_not() -> None:
    noticed, survivor = (
        next(one for one in ALL if one.name == name) for name in ("mean_dims_as_written", "pool_kernels_shared")
    )
    asked = ("-n", "1", "--variations", "none")
    found = {one.name: finding(replace(one, rows="mean"), asked, whole=False) for one in (noticed, survivor)}
    assert found["mean_dims_as_written"].startswith("aten.mean.dim/") and "[tag]" in found["mean_dims_as_written"]
    assert found["pool_kernels_shared"] == ""


def test_shares_by_stage() -> None:
    said = list(shares({"rule": [True, False], "compiler": [], "device": [True]}))
    assert [line.partition(" noticed")[0] for line in said] == ["rule: 1 of 2", "device: 1 of 1", "all: 2 of 3"]
