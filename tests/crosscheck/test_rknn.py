"""The simulator of RKNN 2.5: plain operators are taken, and the findings show. It needs a folder, ASSAY_RKNN."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from page_scripts import installs, scripts, shows, text

from npu_assay.conformance.devices.place import Place
from npu_assay.conformance.devices.placing import load_placed
from npu_assay.conformance.findings import findings
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table

FOLDER = os.environ.get("ASSAY_RKNN", "")
PAGES = sorted(f"{each.page}.md" for each in findings().values() if each.page.startswith("findings/rknn-"))
TAKEN = ("aten.add.Tensor", "aten.relu.default", "aten.cat.default", "aten.convolution.default")

pytestmark = pytest.mark.skipif(not FOLDER, reason="ASSAY_RKNN: the folder for an environment of the vendor's toolkit")


@pytest.fixture(scope="session")
def python() -> str:
    """An environment with what the pages install."""
    path = Path(FOLDER) / "bin" / "python"
    if not path.exists():
        (line,) = {line for page in PAGES for line in installs(text(page))}
        subprocess.run([sys.executable, "-m", "venv", FOLDER], check=True)
        subprocess.run([path, "-m", "pip", "--isolated", "install", "--quiet", *line.split(" ")], check=True)
    return str(path)


def test_plain_operators_are_taken(python: str) -> None:
    backend, table = load_placed("rknn:rk3588", Place(python=python)), load_table("onnxruntime_cpu@1.31")
    first = [case for case in all_cases(table) if case.id.endswith("operator/accept/baseline")]
    plain = {case.row: case for case in first if case.precision != "int16"}  # of which opset 17 has no codes
    found = {row: run_case(plain[row], backend, table) for row in (*TAKEN, "aten.exp.default")}
    assert {row: one.verdict for row, one in found.items()} == dict.fromkeys(TAKEN, "accept") | {
        "aten.exp.default": "reject"
    }
    reasons = found["aten.exp.default"].reasons
    assert reasons is not None and "not placed on the NPU: CPU: Exp" in str(reasons[0].found)


@pytest.mark.parametrize("page", PAGES)
def test_the_fault_shows(page: str, python: str, tmp_path: Path) -> None:
    (script,) = scripts(page)
    assert shows(script, tmp_path, python)
