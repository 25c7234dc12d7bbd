"""Every finding's script shows its fault, without help: none marks nodes as a vendor's quantizer would.

Of ExecuTorch 1.5.1 and 1.3.1 each environment has one, and runs the scripts of the findings in it.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest

pytest.importorskip("executorch", reason="the scripts need it")

from page_scripts import REPORTS, TRIES, nameless, scripts, shows, text

from npu_assay.conformance.findings import findings
from tests.crosscheck.executorch.half_arithmetic import NOT_SHOWN

PAGES = [f"findings/{path.name}" for path in sorted((REPORTS / "findings").glob("*.md"))]
TOLD = {f"{finding.page}.md": finding for finding in findings().values()}
HERE = [page for page in PAGES if any(TOLD[page].shown_by(spec, version("executorch")) for spec in TOLD[page].releases)]
"""Those of findings in the release that is installed."""
FORGED = "_arm_annotation_info"


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize("page", HERE, ids=lambda page: Path(page).stem)
def test_the_fault_shows(page: str, tmp_path: Path) -> None:
    (script,) = scripts(page)
    assert shows(script, tmp_path, tries=TRIES.get(page, 1)) == (page not in NOT_SHOWN)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: Path(page).stem)
def test_no_script_forges_an_annotation(page: str) -> None:
    assert FORGED not in scripts(page)[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: Path(page).stem)
def test_the_bytes_of_a_program_have_a_name(page: str) -> None:
    assert nameless(scripts(page)[0]) == []


def test_bytes_without_a_name_are_found() -> None:
    assert nameless('load_program(x.buffer).load_method("forward")') == ["x.buffer"]
    assert nameless("load_program(b := x.buffer); load_program(b); load_program(b, verification=1)") == []


def test_scripts_of_this_release_are_run() -> None:
    assert HERE


def test_every_finding_is_listed_once() -> None:
    listed = re.findall(r"\((findings/[\w-]+\.md)\)", text("README.md"))
    assert sorted(listed) == PAGES
