"""ExecuTorch's runtime as a device behind a command: the same `.pte` files, and the results that it has beside us."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

pytest.importorskip("executorch", reason="the adapter needs the extra `executorch`")

BOARD = ROOT / "tests" / "shared" / "pte_board.py"


def results(out: Path, *options: str) -> bytes:
    """The results of a run of ExecuTorch's XNNPACK backend over some cases."""
    words = ["certify", "executorch:xnnpack", "-k", "aten.add.Tensor and baseline", "--variations", "none"]
    done = subprocess.run(
        [sys.executable, "-m", "npu_assay", *words, "--out", str(out), *options], capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return (out / "results.jsonl").read_bytes()


def test_results_are_those_of_the_runtime_beside_the_suite(tmp_path: Path) -> None:
    here = results(tmp_path / "here")
    assert here.count(b'"status": "pass"') + here.count(b'"status":"pass"') >= 3
    assert results(tmp_path / "there", "--device", f"{sys.executable} {BOARD} {{folder}}") == here
