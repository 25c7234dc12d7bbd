"""Each finding from its page alone: an environment of what the page installs, and nothing else, shows the fault.

`tox -e pages` runs this; it makes an environment of up to a gigabyte for each such line, eight by now.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from crosscheck.executorch.half_arithmetic import NATIVE
from page_scripts import TRIES, installs, scripts, shows, text

from npu_assay.conformance.findings import findings

PAGES = sorted({f"{finding.page}.md" for finding in findings().values()}, key=lambda page: installs(text(page)))
SCRIPTS = [(page, index) for page in PAGES for index in range(len(scripts(page)))]
RIGHT = set() if NATIVE else {"findings/half-ends-early.md"}
"""What this processor computes rightly."""


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The Python of the environment of each line that installs, as far as it was asked for."""
    return {"folder": str(tmp_path_factory.mktemp("environments"))}


def python_of(line: str, made: dict[str, str]) -> str:
    """Make the environment that a page's line asks for, once."""
    if line not in made:
        folder = Path(made["folder"]) / str(len(made))
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", *line.split(" ")], check=True)
        made[line] = str(folder / "bin" / "python")
    return made[line]


@pytest.mark.parametrize(("page", "index"), SCRIPTS, ids=lambda part: str(part))
def test_the_fault_shows(page: str, index: int, environments: dict[str, str], tmp_path: Path) -> None:
    (line,) = installs(text(page))
    python = python_of(line, environments)
    assert shows(scripts(page)[index], tmp_path, python, TRIES.get(page, 1)) == (page not in RIGHT)


def test_an_environment_has_nothing_of_this_project(environments: dict[str, str], tmp_path: Path) -> None:
    (line,) = installs(text(PAGES[0]))
    command = [python_of(line, environments), "-P", "-c", "import npu_assay"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert b"ModuleNotFoundError" in done.stderr
