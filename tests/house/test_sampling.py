"""A run of all tests takes a sample: which tests, by which seed, and who runs the rest."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import SHARED

TESTS = """
import pytest

@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", range(40))
def test_many(n): pass

@pytest.mark.slow
def test_long(): pass

@pytest.mark.long
@pytest.mark.parametrize("n", range(20))
def test_one_of_several(n): pass

@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("n", range(20))
def test_few(n): pass

def test_short(): pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(TESTS)
    options = '["-p", "npu_assay.conformance.plugin", "-p", "sampling", "-p", "no:cacheprovider", "--strict-markers"]'
    (tmp_path / "pyproject.toml").write_text(f'[tool.pytest.ini_options]\ntestpaths = ["tests"]\naddopts = {options}\n')
    return tmp_path


def run(project: Path, *arguments: str) -> tuple[list[str], str]:
    """The tests that pass, and all that is printed."""
    command = [sys.executable, "-m", "pytest", "-v", *arguments]
    environment = {"PYTHONPATH": str(SHARED), "PATH": ""}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(re.findall(r"(test_\w+(?:\[\d+\])?)(?= PASSED)|PASSED \S+::(\S+)", done.stdout)), done.stdout


def names(found: list[str]) -> set[str]:
    return {"".join(pair) for pair in found}


def test_a_run_of_everything_takes_a_sample_whose_seed_is_printed(project: Path) -> None:
    first, text = run(project)
    seed = re.findall(r"^sample: seed (\d+)", text, re.MULTILINE)
    assert len(first) == 3 + 1 + (20 + 4) // 6 and len(seed) == 2 and len(set(seed)) == 1, text
    assert "test_short" in names(first) and "test_long" not in names(first)
    assert run(project, "--sample", "--seed", seed[0], "tests")[0] == first


def test_another_seed_draws_other_tests_and_workers_draw_the_same(project: Path) -> None:
    one, two = (names(run(project, "--seed", seed)[0]) for seed in "12")
    assert one != two
    assert names(run(project, "--seed", "1", "-n", "2")[0]) == one


def test_workers_draw_by_the_seed_that_their_run_has_drawn(project: Path) -> None:
    """As the tests here do, whose options come from a plugin that a conftest names."""
    (project / "pyproject.toml").write_text('[tool.pytest.ini_options]\ntestpaths = ["tests"]\n')
    (project / "tests" / "conftest.py").write_text('pytest_plugins = ["npu_assay.conformance.plugin", "sampling"]\n')
    found, text = run(project, "-n", "2", "--sample", "tests")
    (seed,) = set(re.findall(r"^sample: seed (\d+)", text, re.MULTILINE))
    assert names(found) == names(run(project, "--sample", "--seed", seed, "tests")[0])


@pytest.mark.parametrize("arguments", [("--whole",), ("tests/test_it.py",), ("-k", "test")])
def test_what_is_named_runs_whole(project: Path, arguments: tuple[str, ...]) -> None:
    found, text = run(project, *arguments)
    assert len(names(found)) == 42 + 40 and "sample: none" in text
