"""What gates 1 and 2 allow is computed from goldens once: then a small run is verified without torch, as strictly."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import fake_backend
import pytest
from click.testing import CliRunner
from test_cli import EAGER, loads_torch
from test_package import run

from npu_assay.conformance.cli import main
from npu_assay.conformance.common.remembered import CACHE, Remembered
from npu_assay.conformance.judge import code_limits as computing
from npu_assay.conformance.judge.code_limits import code_limits
from npu_assay.conformance.judge.known_limits import KIND, LIMITS, KnownLimits
from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.record.results import CaseResult, program_sha256, read_results
from npu_assay.conformance.run import session
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table
from npu_assay.conformance.verify.metrics import limit_problem, needs_limits

CASES = {case.id: case for case in all_cases(load_table(fake_backend.TABLE))}
SCHEME = "tflite_double_round"
MADE = {"sources": "1"}
POOL = "aten.avg_pool2d.default/ceil_mode/at_limit/by_name"
BIAS = "aten.convolution.default/operator/accept/depthwise_size_1_1"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    return tmp_path / "cache" / KIND


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


def known(made: Mapping[str, str] = MADE) -> KnownLimits:
    return KnownLimits(SCHEME, lambda: Remembered(KIND, "fake@1", made))


def only(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


# ------------------------------------------------------------------------------------ without torch


RUNS: Mapping[str, tuple[tuple[str, ...], bool, bool]] = {
    "off by one": (("neutron-1.4", "-k", POOL), True, False),
    "failing": (("npu_assay.faults.neutron:bias_dropped", "-k", BIAS), False, True),
    "several, some off by one": (("neutron", "-k", "avg_pool2d", "--smoke"), True, False),
    "of a lower level": (("neutron", "-k", POOL.rpartition("/")[0], "--level", "tags"), False, False),
}
"""What is asked of `certify`; whether a record measures codes off by one without a failure; whether one fails."""


@pytest.mark.long
@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", RUNS)
def test_a_small_run_made_here_is_verified_without_torch(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, off_by_one, failing = RUNS[name]
    out = tmp_path / "run"
    certify = ["certify", *asked, "-n", "1", "--out", str(out)]
    assert CliRunner().invoke(main, certify).exit_code == failing
    results = read_results((out / "results.jsonl").read_text(), "results.jsonl").values()
    assert any(map(needs_limits, results)) == off_by_one
    assert any(result.failures for result in results) == failing
    assert not loads_torch(("verify", str(out)))
    assert loads_torch(("verify", str(out)), EAGER), "what loads torch is not seen"
    monkeypatch.setenv(CACHE, "")
    assert loads_torch(("verify", str(out))) == off_by_one


@pytest.mark.long
@pytest.mark.usefixtures("cache")
def test_a_run_from_elsewhere_needs_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, here = tmp_path / "run", tmp_path / "cache"
    monkeypatch.setenv(CACHE, str(tmp_path / "elsewhere"))
    CliRunner().invoke(main, ["certify", "neutron-1.4", "-k", POOL, "-n", "1", "--out", str(out)])
    monkeypatch.setenv(CACHE, str(here))
    assert loads_torch(("verify", str(out)))
    assert not loads_torch(("verify", str(out)))


def test_a_large_run_remembers_none(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["certify", "neutron-1.4", "-k", POOL, "-n", "1", "--out", str(tmp_path / "run")]
    monkeypatch.setattr(session, "FEW", 0)
    assert CliRunner().invoke(main, asked).exit_code == 0 and not cache.exists()
    monkeypatch.setattr(session, "FEW", 1)
    assert CliRunner().invoke(main, asked).exit_code == 0 and only(cache)


# ------------------------------------------------------------------------------------ as strictly


@pytest.mark.usefixtures("cache")
def test_what_is_beyond_a_limit_is_found_with_and_without_the_goldens(
    accepted: CaseResult, computed: list[str]
) -> None:
    case, edited = CASES[accepted.case], off(accepted, 1.0)
    for asked in (1, 1):
        limits = known()
        found = limit_problem(edited, case, limits)
        assert found is not None and found.startswith("off_by_one_rate is 1, gate2 allows 0")
        limits.keep()
        assert len(computed) == asked


def test_wider_limits_would_let_it_pass(cache: Path, accepted: CaseResult) -> None:
    """So the test above sees where the file holds others than the goldens give."""
    case, edited = CASES[accepted.case], off(accepted, 1.0)
    limits = known()
    assert limit_problem(edited, case, limits) is not None
    limits.keep()
    file = only(cache)
    file.write_text(file.read_text().replace(json.dumps(list(limits.of(case.graph) or ())), "[1.0, 1.0, 1.0]"))
    assert limit_problem(edited, case, known()) is None


def test_a_run_keeps_what_the_goldens_give(cache: Path, tmp_path: Path) -> None:
    table = load_table("neutron@1.4")
    graph = next(case.graph for case in all_cases(table) if case.id == POOL)
    asked = ["certify", "neutron-1.4", "-k", POOL, "-n", "1", "--out", str(tmp_path / "run")]
    assert CliRunner().invoke(main, asked).exit_code == 0
    expected = code_limits(graph, table.rescale or None)
    assert expected is not None and expected[1] > 0
    assert json.loads(only(cache).read_text())[LIMITS] == {program_sha256(graph): list(expected)}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda entry: entry[:2],
        lambda entry: [*entry, 0.0],
        lambda entry: [str(number) for number in entry],
        lambda entry: [1, 1, 1],
        lambda entry: [True, True, True],
        lambda entry: [math.inf, 1.0, 1.0],
        lambda entry: [1.0, math.nan, 1.0],
        lambda entry: [1.0, -1.0, 1.0],
        lambda entry: {},
        lambda entry: "",
    ],
)
def test_what_is_no_limit_is_computed_anew(
    spoil: Callable[[list[float]], object], cache: Path, accepted: CaseResult, computed: list[str]
) -> None:
    graph = CASES[accepted.case].graph
    limits = known()
    right = limits.of(graph)
    limits.keep()
    file = only(cache)
    data = json.loads(file.read_text())
    data[LIMITS] = {program: spoil(entry) for program, entry in data[LIMITS].items()}
    file.write_text(json.dumps(data))
    assert known().of(graph) == right and len(computed) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"made": "?", "limits": {}}', "[" * 10**5])
def test_a_file_that_says_nothing_is_written_anew(
    text: str, cache: Path, accepted: CaseResult, computed: list[str]
) -> None:
    graph = CASES[accepted.case].graph
    for asked in (1, 2, 2):
        limits = known()
        limits.of(graph)
        limits.keep()
        assert len(computed) == asked
        if len(computed) == 1:
            only(cache).write_text(text)


@pytest.mark.usefixtures("cache")
def test_another_suite_computes_anew(accepted: CaseResult, computed: list[str]) -> None:
    graph = CASES[accepted.case].graph
    for made, asked in ((MADE, 1), (MADE, 1), ({"sources": "2"}, 2)):
        limits = known(made)
        limits.of(graph)
        limits.keep()
        assert len(computed) == asked


@pytest.mark.usefixtures("cache")
def test_a_case_without_codes_is_remembered_as_such(accepted: CaseResult, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[accepted.case]
    monkeypatch.setattr(computing, "code_limits", lambda graph, scheme: None)
    limits = known()
    assert limits.of(case.graph) is None
    limits.keep()
    monkeypatch.setattr(computing, "code_limits", code_limits)
    found = limit_problem(off(accepted, 0.1), case, known())
    assert found == "codes are measured, but no output of the case has codes that can be compared"
