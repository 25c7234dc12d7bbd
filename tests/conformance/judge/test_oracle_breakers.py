"""No backend is certified that goes for what judges it: each run of `assay certify` fails at least one of few cases."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import oracle_breakers
import pytest
from oracle_breakers import AUDITED, MARK, OWN
from places import SHARED

FEW = "baseline or outside or twice_in_a_row or all_min"
SECONDS = 120.0
ONE = "aten.abs.default/operator/accept/baseline"
BACKENDS = {**dict.fromkeys((*AUDITED, *OWN), FEW), "kills_judge": ONE, "stops_judge": ONE}
"""By backend the cases: one of those that fell or stop what judges, which then starts anew."""


def certify(spec: str, expression: str, folder: Path) -> tuple[int, str]:
    """The command in a process (and group) of its own: exit code and what it prints."""
    command = [sys.executable, "-m", "npu_assay.conformance.cli", "certify", spec]
    options = ["-n", "1", "-k", expression, "--timeout", "5", "--out", str(folder)]
    with subprocess.Popen(
        [*command, *options],
        cwd=SHARED,
        env={**os.environ, "PYTHONPATH": str(SHARED), MARK: "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as run:
        try:
            output, _ = run.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            raise
    return run.returncode, output


def failing(folder: Path) -> list[str]:
    """The cases of a run that fail; none of a run that did not come to its end."""
    if not (folder / "results.jsonl").exists():
        return []
    results = map(json.loads, (folder / "results.jsonl").read_text().splitlines())
    return [result["case"] for result in results if result["status"] == "fail"]


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", BACKENDS)
def test_what_goes_for_the_judge_is_not_certified(name: str, tmp_path: Path) -> None:
    code, output = certify(f"oracle_breakers:{name}", BACKENDS[name], tmp_path / "run")
    assert code == 1 and failing(tmp_path / "run"), output


@pytest.mark.long
def test_a_backend_that_is_right_passes_the_same_cases(tmp_path: Path) -> None:
    """So what fails above fails for what the backend does."""
    code, output = certify("fake_backend:backend", FEW, tmp_path / "run")
    assert (code, failing(tmp_path / "run")) == (0, []), output


def test_every_backend_here_has_its_test() -> None:
    kinds = (type(oracle_breakers.mirrors), type(oracle_breakers.collects))
    assert {name for name, value in vars(oracle_breakers).items() if isinstance(value, kinds)} == set(BACKENDS)
