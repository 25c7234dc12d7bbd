"""Qualcomm's HTP emulator as a backend, in an environment that `tox -e qnn` makes: QNN_PYTHON is its interpreter."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from npu_assay.conformance.backend.info import about
from npu_assay.conformance.cli import main
from npu_assay.conformance.devices.place import Place
from npu_assay.conformance.findings import WORD, findings
from npu_assay.conformance.record.results import read_results

PYTHON = os.environ.get("QNN_PYTHON", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="QNN_PYTHON names no interpreter: tox -e qnn")
PLAIN = " or ".join(
    f"aten.{name}.default/int8/operator/accept/baseline" for name in ("abs", "sigmoid", "tanh", "hardswish")
)


def statuses(spec: str, expression: str, folder: Path) -> dict[str, str]:
    """The status of each case of a selection."""
    arguments = ["certify", spec, "--python", PYTHON, "-k", expression, "-n", "1", "--out", str(folder)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code in (0, 1), done.output[-2000:]
    found = read_results((folder / "results.jsonl").read_text(), "results.jsonl")
    return {name: one.status for name, one in found.items()}


def test_the_certificate_says_what_computes() -> None:
    found = about("onnxruntime:qnn-htp", (), Place(python=PYTHON)).tools
    assert (found["QNN"], found["onnxruntime-qnn"]) == ("2.51.0", "2.7.0")


@pytest.mark.parametrize("spec", ["onnxruntime:qnn-htp", "onnxruntime:qnn-htp-signed"])
def test_plain_operators_pass(spec: str, tmp_path: Path) -> None:
    assert set(statuses(spec, PLAIN, tmp_path / "run").values()) == {"pass"}


def test_what_was_found_is_shown(tmp_path: Path) -> None:
    """Every case of a finding fails."""
    own = [name for name, finding in findings().items() if "onnxruntime:qnn-htp" in finding.releases]
    found = statuses("onnxruntime:qnn-htp", " or ".join(f"{WORD}/{name}" for name in own), tmp_path / "run")
    assert found and {name for name, status in found.items() if status == "pass"} == set()
