"""What gates 1 and 2 allow follows from the goldens, in every verification anew: no file may say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import fake_backend
import pytest
from calling import call

from npu_assay.conformance.judge import code_limits as computing
from npu_assay.conformance.judge.code_limits import code_limits
from npu_assay.conformance.judge.known_limits import KnownLimits
from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.record.results import CaseResult, program_sha256, read_results
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table
from npu_assay.conformance.verify.metrics import MEASURED, limit_problem
from tests.conformance.commands.test_cli import EAGER, loads_torch
from tests.conformance.record.test_package import run

CASES = {case.id: case for case in all_cases(load_table(fake_backend.TABLE))}
SCHEME = "tflite_double_round"
POOL = "aten.avg_pool2d.default/ceil_mode/at_limit/by_name"
BIAS = "aten.convolution.default/operator/accept/depthwise_size_1_1"


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> CaseResult:
    results = run(tmp_path_factory.mktemp("good")).results
    return next(r for r in results if r.verdict == "accept" and r.metrics["sqnr_db"] is not None)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The programs whose goldens were asked, as they are."""
    asked = list[str]()

    def limits(graph: Graph, scheme: str | None) -> tuple[float, float, float] | None:
        asked.append(program_sha256(graph))
        return code_limits(graph, scheme)

    monkeypatch.setattr(computing, "code_limits", limits)
    return asked


def off(result: CaseResult, rate: float) -> CaseResult:
    return replace(result, metrics={**result.metrics, "off_by_one_rate": rate})


TAGS = ("--level", "tags", "--variations", "none")
"""Torch makes variations again."""
RUNS: Mapping[str, tuple[tuple[str, ...], bool, bool]] = {
    "off by one": (("neutron-1.4", "-k", POOL), True, False),
    "failing": (("npu_assay.faults.neutron:bias_dropped", "-k", BIAS), False, True),
    "several, some off by one": (("neutron", "-k", "avg_pool2d", "--smoke"), True, False),
    "of a lower level": (("neutron", "-k", POOL.rpartition("/")[0], *TAGS), False, False),
}
"""What is asked of `certify`; whether a record measures codes off by one without a failure; whether one fails."""


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_goldens_are_asked_where_codes_are_off_by_one_and_nowhere_else(name: str, tmp_path: Path) -> None:
    asked, off_by_one, failing = RUNS[name]
    out = tmp_path / "run"
    certify = ["certify", *asked, "-n", "1", "--out", str(out)]
    assert call(*certify).exit_code == failing
    results = read_results((out / "results.jsonl").read_text(), "results.jsonl").values()
    unfailed = [result for result in results if not result.failures]
    assert any(result.metrics[name] for result in unfailed for name in MEASURED) == off_by_one
    assert any(result.failures for result in results) == failing
    assert loads_torch(("verify", str(out))) == off_by_one
    assert loads_torch(("verify", str(out)), EAGER), "what loads torch is not seen"


def test_what_is_beyond_a_limit_is_found_and_a_program_computed_once(accepted: CaseResult, computed: list[str]) -> None:
    case, limits = CASES[accepted.case], KnownLimits(SCHEME)
    for _ in range(2):
        found = limit_problem(off(accepted, 1.0), case, limits)
        assert found is not None and found.startswith("off_by_one_rate is 1, gate2 allows 0")
    assert computed == [accepted.program]


def test_a_case_without_codes_has_no_limits(accepted: CaseResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computing, "code_limits", lambda graph, scheme: None)
    found = limit_problem(off(accepted, 0.1), CASES[accepted.case], KnownLimits(SCHEME))
    assert found == "codes are measured, but no output of the case has codes that can be compared"
