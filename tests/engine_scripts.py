"""The scripts of a page of docs/reports, each alone in a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

REPORTS = Path(__file__).parents[1] / "docs" / "reports"
LONGEST = 20
"""Lines that a script of a finding may have."""


def scripts(page: str) -> list[str]:
    """The Python blocks of a page, in their order."""
    text = (REPORTS / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def shows(script: str, folder: Path) -> bool:
    """Whether the fault shows: exit code 1 and no traceback, or an abort; 0 says that it does not."""
    assert len(script.splitlines()) <= LONGEST
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode in (0, 1, -signal.SIGABRT) and "Traceback" not in done.stderr, done.stderr
    return done.returncode != 0
