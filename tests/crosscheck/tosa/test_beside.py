"""tosa-tools installs a package `conformance` of its own: both work in one environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from environments import Environment, copy_checkout

BOTH = """
import conformance.tosa_profiles
import npu_assay.conformance.backend.loading
import conformance.model_files

print(*(name for name in ("cli", "backends", "tables") if hasattr(conformance, name)), "theirs")
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return copy_checkout(tmp_path / "checkout")


@pytest.mark.long
@pytest.mark.parametrize("editable", [True, False])
def test_each_has_its_conformance(editable: bool, checkout: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(*["-e"] * editable, checkout, cwd=tmp_path)
    assert editable or environment.names() == {"npu_assay"}
    both = environment.run("python", "-P", "-c", BOTH, cwd=tmp_path)
    assert both.stdout == "theirs\n", both.stderr
    command = ["assay", "certify", "ethos-u55", "-k", "aten.abs.default/int8/operator/accept/baseline", "-n", "1"]
    assert " 0 fail" in environment.run(*command, cwd=tmp_path).stdout


@pytest.mark.slow
def test_a_new_backend_certifies(checkout: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install("-e", checkout, cwd=tmp_path)
    assert environment.run("assay", "new", "my_npu", cwd=tmp_path).returncode == 0
    environment.install("-e", "my_npu", cwd=tmp_path)
    found = environment.run("assay", "certify", "my_npu", cwd=tmp_path)
    assert "CERTIFIED: my_npu against my_npu@0.1" in found.stdout, found.stdout + found.stderr
