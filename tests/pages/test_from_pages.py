"""Each finding from its page alone: an environment of what the page installs, and nothing else, shows the fault.

`tox -e pages` runs this; it makes an environment of up to a gigabyte for each such line, eight by now.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from page_scripts import TRIES, installs, scripts, shows, text

from npu_assay.conformance.findings import findings
from tests.crosscheck.executorch.half_arithmetic import NOT_SHOWN

PAGES = sorted({f"{finding.page}.md" for finding in findings().values()}, key=lambda page: installs(text(page)))
SCRIPTS = [(page, index) for page in PAGES for index in range(len(scripts(page)))]


Pythons = Callable[[str], str]
"""The Python of the environment that a line makes."""


@pytest.fixture(scope="session")
def python_of(tmp_path_factory: pytest.TempPathFactory) -> Pythons:
    @cache
    def made(line: str) -> str:
        folder = tmp_path_factory.mktemp("environment")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", *line.split(" ")], check=True)
        return str(folder / "bin" / "python")

    return made


@pytest.mark.parametrize(("page", "index"), SCRIPTS, ids=lambda part: str(part))
def test_the_fault_shows(page: str, index: int, python_of: Pythons, tmp_path: Path) -> None:
    (line,) = installs(text(page))
    assert shows(scripts(page)[index], tmp_path, python_of(line), TRIES.get(page, 1)) == (page not in NOT_SHOWN)


def test_an_environment_has_nothing_of_this_project(python_of: Pythons, tmp_path: Path) -> None:
    (line,) = installs(text(PAGES[0]))
    command = [python_of(line), "-P", "-c", "import npu_assay"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert b"ModuleNotFoundError" in done.stderr
