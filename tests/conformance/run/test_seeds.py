"""No false alarms: the backends pass their cases with any random numbers."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
import torch

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.programs.build import materialise
from npu_assay.conformance.programs.seeds import reseeded
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.names import RESULTS
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.session import Request, assay
from npu_assay.conformance.table import load_table
from npu_assay.conformance.verify.verification import verify
from npu_assay.partitioners.ethosu import ethos_u55, ethos_u85
from npu_assay.partitioners.exir import Backend
from npu_assay.partitioners.neutron import backend as neutron
from npu_assay.partitioners.xnnpack import backend as xnnpack
from tests.conformance.fuzz.test_fuzz import Told

BACKENDS = (neutron, xnnpack, ethos_u55, ethos_u85)
SEEDS = range(1, 6)
SHARE = 60  # of the cases, one in so many for each seed, another one each time; `assay certify --seed` runs all
TODAY = datetime.date(2026, 1, 1)


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
def test_other_numbers_raise_no_alarm(backend: Backend, seed: int) -> None:
    table = load_table(backend.table)
    cases = [reseeded(case, seed) for case in cases_for(table)[seed * SHARE // 6 :: SHARE]]
    failed = {case.id: run_case(case, backend, table).failures for case in cases}
    assert {name: failures for name, failures in failed.items() if failures} == {}


def test_only_random_numbers_change() -> None:
    cases = [case for case in cases_for(load_table("neutron@1.3")) if case.row == "aten.add.Tensor"]
    kinds = set()
    for case in cases:
        twin = reseeded(case, 1)
        assert twin.id == case.id and reseeded(case, 0) is case
        for before, after in zip(case.graph.values, twin.graph.values, strict=True):
            same = torch.equal(materialise(before), materialise(after))
            kinds.add((before.fill.kind, same))
            assert same or before.fill.kind == "random"
    assert {("random", False), ("list", True)} <= kinds


@pytest.mark.long
def test_a_run_of_another_seed_is_one_of_other_programs(tmp_path: Path) -> None:
    programs = dict[int, dict[str, str]]()
    for seed in (0, 3):
        folder = tmp_path / str(seed)
        asked = Request("fake_backend:backend", None, Selection(seed=seed), 2, folder)
        report = assay(asked, Told(), lambda: TODAY)
        assert report.certificate.certified and report.certificate.selection.seed == seed
        assert verify(folder, TODAY).certified
        lines = [json.loads(line) for line in (folder / RESULTS).read_text().splitlines()]
        programs[seed] = {line["case"]: line["program"] for line in lines}
        assert (f"| of seed {seed} |" in (folder / "report.md").read_text()) == bool(seed)
    assert programs[0].keys() == programs[3].keys()
    other = [name for name in programs[0] if programs[0][name] != programs[3][name]]
    assert len(other) > len(programs[0]) / 2


def test_a_failure_of_another_seed_is_shown_with_its_seed(tmp_path: Path) -> None:
    asked = Request("fake_backend:dies", None, Selection("neg and baseline", seed=3), 1, tmp_path / "out")
    report = assay(asked, Told(), lambda: TODAY)
    assert report.failures and all(" --seed 3" in failure.command for failure in report.failures)
    assert not verify(tmp_path / "out", TODAY).problems
