"""The conformance suite as pytest runs it: which tests there are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import PATH, ROOT

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.run.selection import smoke
from npu_assay.conformance.table import load_table

TABLES = ("neutron@1.3", "neutron@1.4", "xnnpack@1.5", "ethos_u55@1.5", "ethos_u85@1.5")


@pytest.mark.parametrize("name", TABLES)
def test_a_first_look_has_every_operator_and_constraint(name: str) -> None:
    cases = cases_for(load_table(name))
    chosen = smoke(cases)
    for part in ("row", "constraint"):
        assert {(getattr(c, part), c.expect) for c in chosen} == {(getattr(c, part), c.expect) for c in cases}
    assert 5 * len(chosen) < len(cases)


def collected(*options: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-n", "0", "-p", "no:cacheprovider"]
    found = subprocess.run(
        [*command, "tests/backends", "--assay-backend", "fake_backend:backend", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return [line.partition("::")[2] for line in found.stdout.splitlines() if "::" in line]


@pytest.mark.slow
def test_a_test_for_every_case_and_operator() -> None:
    import fake_backend

    table = load_table(fake_backend.TABLE)
    names, cases = collected(), cases_for(table)
    assert [n for n in names if n.startswith("test_case[")] == [f"test_case[fake@1.0/{case.id}]" for case in cases]
    assert len([name for name in names if name.startswith("test_tags[")]) == len(table.rows)
    few = collected("--smoke")
    assert [n for n in few if n.startswith("test_case[")] == [f"test_case[fake@1.0/{case.id}]" for case in smoke(cases)]
    assert not any(name.startswith("test_tags[") for name in few)


USED = ("aten.abs.default.txt", "aten.neg.default.txt")
PROJECT = """
[tool.pytest.ini_options]
testpaths = ["tests"]
addopts = ["-p", "npu_assay.conformance.plugin", "-p", "no:cacheprovider", "-n", "0"]
assay_backends = ["fake_backend:backend"]
"""


@pytest.mark.slow
def test_snapshots_in_use_are_kept(tmp_path: Path) -> None:
    """In a project of somebody else: written, found again by a run of everything, and gone only with their operator."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "examples/heron/tests/test_heron.py", tmp_path / "tests/test_fake.py")

    def run(*options: str) -> str:
        command = [sys.executable, "-m", "pytest", *options]
        ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        found = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, env={**ours, "PYTHONPATH": PATH}
        )
        return found.stdout

    assert "2 snapshots generated." in run("--snapshot-update")
    golden = tmp_path / "golden/fake@1.0"
    (golden / "results.sha256").write_text("of somebody else\n")
    (golden / "aten.old.default.txt").write_text("accept\n")
    assert "2 snapshots passed. 1 snapshot unused." in run()
    assert "1 unused snapshot deleted" in run("--snapshot-update")
    assert sorted(path.name for path in golden.iterdir()) == [*USED, "results.sha256"]
