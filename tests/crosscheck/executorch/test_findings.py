"""Every finding's script shows its fault, without help: none marks nodes as a vendor's quantizer would.

Of ExecuTorch 1.5.1 and 1.3.1 each environment has one, and runs the scripts of the findings in it.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

pytest.importorskip("executorch", reason="the scripts need it")

from crosscheck.executorch import half_arithmetic

from npu_assay.conformance.findings import findings

REPORTS = Path(__file__).parents[3] / "docs" / "reports"
PAGES = sorted((REPORTS / "findings").glob("*.md"))
TOLD = {finding.page: finding for finding in findings().values()}
HERE = [
    page
    for page in PAGES
    if any(
        TOLD[f"findings/{page.stem}"].shown_by(spec, version("executorch"))
        for spec in TOLD[f"findings/{page.stem}"].releases
    )
]
"""Those of findings in the release that is installed."""
FORGED = "_arm_annotation_info"


def script(page: Path) -> str:
    """The Python program of a page."""
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1, page
    return str(blocks[0])


DYING = {"upsample-scale-factor": 4}
"""The scripts that now and then end in a segmentation fault of ExecuTorch 1.5.1 instead (2 of 13 runs of this one), and
how often they are tried."""

RIGHT = set() if half_arithmetic.NATIVE else {"half-ends-early"}
"""What this processor computes rightly."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("page", HERE, ids=lambda page: page.stem)
def test_the_fault_shows(page: Path, tmp_path: Path) -> None:
    (tmp_path / "finding.py").write_text(script(page), encoding="utf-8")
    for _ in range(DYING.get(page.stem, 1)):
        done = subprocess.run(
            [sys.executable, "finding.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
        )
        if done.returncode != -signal.SIGSEGV:
            break
    assert done.returncode == int(page.stem not in RIGHT), done.stdout + done.stderr
    assert ("the fault shows: " in done.stdout) == (page.stem not in RIGHT)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_script_forges_an_annotation(page: Path) -> None:
    assert FORGED not in script(page)


def test_scripts_of_this_release_are_run() -> None:
    assert HERE


def test_every_finding_is_listed_once() -> None:
    listed = re.findall(r"\(findings/([\w-]+)\.md\)", (REPORTS / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == [page.stem for page in PAGES]
