"""Every finding's script shows its fault, without help: none marks nodes as a vendor's quantizer would."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from crosscheck.executorch import half_arithmetic
from page_scripts import REPORTS, TRIES, scripts, shows, text

PAGES = [f"findings/{path.name}" for path in sorted((REPORTS / "findings").glob("*.md"))]
FORGED = "_arm_annotation_info"
RIGHT = set() if half_arithmetic.NATIVE else {"findings/half-ends-early.md"}
"""What this processor computes rightly."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: Path(page).stem)
def test_the_fault_shows(page: str, tmp_path: Path) -> None:
    (script,) = scripts(page)
    assert shows(script, tmp_path, tries=TRIES.get(page, 1)) == (page not in RIGHT)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: Path(page).stem)
def test_no_script_forges_an_annotation(page: str) -> None:
    assert FORGED not in scripts(page)[0]


def test_every_finding_is_listed_once() -> None:
    listed = re.findall(r"\((findings/[\w-]+\.md)\)", text("README.md"))
    assert sorted(listed) == PAGES
