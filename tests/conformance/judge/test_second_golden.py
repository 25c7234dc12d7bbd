"""A fault of a float golden is the suite's: no backend fails for it, and none is certified beside it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_backend
import pytest
import torch
from click.testing import CliRunner

from npu_assay.conformance.cli import main
from npu_assay.conformance.judge.second_golden import disagreements, golden_failures
from npu_assay.conformance.record.results import Failure, status_of
from npu_assay.conformance.record.waivers import WaiverError, load_waivers
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table
from npu_assay.reference import golden, onnx_golden
from npu_assay.reference.golden import Bounded

NEG = "aten.neg.default"
TABLES = ("neutron@1.3", "neutron@1.4", "xnnpack@1.5", "ethos_u55@1.5", "ethos_u85@1.5")
Run = Callable[..., tuple[Bounded, ...]]


def certify(spec: str, folder: Path, *options: str) -> tuple[int, str]:
    """Exit code and what is printed."""
    arguments = ["certify", spec, "-n", "1", "--variations", "none", "--out", str(folder), *options]
    result = CliRunner().invoke(main, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """The recorded results by case."""
    found = map(json.loads, (folder / "results.jsonl").read_text().splitlines())
    return {record["case"]: record for record in found}


def faulty(right: Run) -> Run:
    """A golden whose neg is wrong."""

    def run(op: str, args: Any, *rest: Any) -> tuple[Bounded, ...]:
        results = right(op, args, *rest)
        if op != NEG:
            return results
        return tuple(Bounded(result.value + 0.5, result.error) for result in results)

    return run


@pytest.fixture
def wrong_golden(monkeypatch: pytest.MonkeyPatch) -> None:
    """In every process that judges."""
    for name in ("run", "run_float"):
        monkeypatch.setattr(golden, name, faulty(getattr(golden, name)))


@pytest.mark.usefixtures("wrong_golden")
def test_a_fault_of_a_golden_is_not_the_backends(tmp_path: Path) -> None:
    code, output = certify("fake_backend:backend", tmp_path / "run")
    found = records(tmp_path / "run")
    assert {record["status"] for record in found.values()} == {"pass", "undecided"}
    undecided = [record for record in found.values() if record["status"] == "undecided"]
    assert {failure["check"] for record in undecided for failure in record["failures"]} >= {"golden", "gate3"}
    with_neg = {case.id for case in all_cases(load_table(fake_backend.TABLE)) if NEG in repr(case.graph)}
    assert {record["case"] for record in undecided} <= with_neg
    certificate = json.loads((tmp_path / "run" / "certificate.json").read_text())
    assert not certificate["certified"] and certificate["counts"]["fail"] == 0
    assert certificate["counts"]["undecided"] == len(undecided) > 40
    assert code == 1 and "\nUNDECIDED: fake_backend:backend" in output and "NOT CERTIFIED" not in output
    assert (
        f"because the suite is at fault in {len(undecided)} of {len(found)} cases: its goldens disagree, "
        "or its own code fails; not the backend" in output
    )
    assert "The two float goldens disagree, which says nothing of the backend" in output
    assert CliRunner().invoke(main, ["verify", str(tmp_path / "run")]).exit_code == 1


@pytest.mark.usefixtures("wrong_golden")
def test_a_backend_fails_all_the_same_for_what_no_golden_decides(tmp_path: Path) -> None:
    code, output = certify("fake_backend:refuses", tmp_path / "run", "-k", "neg")
    found = records(tmp_path / "run")
    assert code == 1 and "\nNOT PASSED" in output
    both = {"tag", "golden"}
    assert both <= {failure["check"] for record in found.values() for failure in record["failures"]}
    assert {record["status"] for record in found.values() if record["failures"]} == {"fail"}


@pytest.mark.long
@pytest.mark.usefixtures("wrong_golden")
def test_random_programs_on_which_the_goldens_disagree_certify_nothing(tmp_path: Path) -> None:
    code, _ = certify("fake_backend:backend", tmp_path / "run", "--fuzz", "12")
    stated = json.loads((tmp_path / "run" / "certificate.json").read_text())["fuzz"]
    assert code == 1 and stated["undecided"] > 0
    assert CliRunner().invoke(main, ["verify", str(tmp_path / "run")]).exit_code == 1


def test_nothing_is_said_where_the_goldens_agree(tmp_path: Path) -> None:
    code, output = certify("fake_backend:backend", tmp_path / "run")
    certificate = json.loads((tmp_path / "run" / "certificate.json").read_text())
    assert code == 0 and "undecided" not in output and "undecided" not in certificate["counts"]


@pytest.mark.parametrize(
    ("checks", "status"),
    [
        (("golden",), "undecided"),
        (("gate1", "golden", "gate3"), "undecided"),
        (("golden", "tag"), "fail"),
        (("gate3",), "fail"),
        ((), "pass"),
    ],
)
def test_what_is_undecided(checks: tuple[str, ...], status: str) -> None:
    assert status_of("accept", tuple(Failure(check, "") for check in checks)) == status


def test_no_waiver_is_for_the_suite(tmp_path: Path) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text('[[waiver]]\ncase = "a"\nchecks = ["golden"]\nreason = "r"\nowner = "o"\nexpires = 2030-01-31\n')
    with pytest.raises(WaiverError, match="checks: 'golden' is a fault of the suite"):
        load_waivers(path)


def test_what_onnx_cannot_compute_has_no_second_opinion(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise IndexError("out of bounds")

    graph = all_cases(load_table(fake_backend.TABLE))[0].graph
    monkeypatch.setattr(onnx_golden, "disagreement", fails)
    assert golden_failures(graph) == []


@pytest.mark.long
@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("table", TABLES)
def test_the_goldens_agree_on_every_case(table: str, part: int) -> None:
    """And ONNX computes all that it has: nothing is raised here."""
    cases = sorted(all_cases(load_table(table)), key=lambda case: case.id)
    random.Random(7).shuffle(cases)
    with torch.random.fork_rng():
        found = {case.id: disagreements(case.graph) for case in cases[part::8]}
    assert {name: messages for name, messages in found.items() if messages} == {}
