"""The status of known findings in a release: what the script on each finding's page says there."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

import npu_assay
from npu_assay.conformance.common.describing import last_line
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.files import write_all
from npu_assay.conformance.common.shapes import OF_ANY_KEY, check_shape
from npu_assay.conformance.findings import Finding, findings
from npu_assay.conformance.release.environments import Environment
from npu_assay.conformance.release.packages import Package
from npu_assay.files import read_regular

PAGES = Path(npu_assay.__file__).parent.parent / "docs" / "reports"
LARGEST = 1 << 20  # bytes of a page
SECONDS = 600.0  # for a script
TRIES = 4  # of a script that ends in a segmentation fault, which a runtime may end in now and then
SEGMENTATION_FAULT, ABORT = -11, -6
SHOWS, GONE, UNKNOWN = "shows", "does not show", "cannot be asked"
SAID = "the fault shows"
STATUSES = {(SHOWS, SHOWS): "still there", (SHOWS, GONE): "gone", (GONE, SHOWS): "came", (GONE, GONE): "in neither"}
"""The status of a finding by what its script shows in the old and the new release; with any other it is UNKNOWN."""


@dataclass(frozen=True)
class Known:
    """A finding in both releases. old, new: what its script shows there; why: what keeps it from being asked."""

    name: str
    page: str
    severity: str
    old: str
    new: str
    why: str = ""

    @property
    def status(self) -> str:
        return STATUSES.get((self.old, self.new), UNKNOWN)


class Answers:
    """The answers of scripts in one environment, in a file, so that an interrupted comparison does not ask again."""

    def __init__(self, environment: Environment, file: Path) -> None:
        self._environment, self._file, self._lock = environment, file, Lock()
        try:
            found = json.loads(read_regular(file, LARGEST))
            check_shape(found, {OF_ANY_KEY: [str]})
        except (OSError, ValueError, RecursionError):
            found = {}
        self._known: dict[str, list[str]] = found

    def shown(self, script: str, again: bool = False) -> tuple[str, str]:
        """SHOWS, GONE or UNKNOWN, and for UNKNOWN the reason. again: run the script also where its answer is known."""
        key = hashlib.sha256(f"{self._environment.made_of}\n{script}".encode()).hexdigest()
        if again or len(self._known.get(key, ())) != 2:
            answer = list(_shown(self._environment, script))
            with self._lock:
                self._known[key] = answer
                self._file.parent.mkdir(parents=True, exist_ok=True)
                write_all({self._file: json.dumps(self._known, indent=1, sort_keys=True) + "\n"})
        status, why = self._known[key]
        return status, why


def known(old: Answers, new: Answers, package: Package, pages: Path, again: bool) -> Iterator[Known]:
    """Every finding of the package's backends, by name, as its script shows it in both environments."""
    of = [each for each in findings().values() if each.releases.keys() & package.backends.keys()]
    ask = partial(_known, old=old, new=new, pages=pages, again=again)
    with ThreadPoolExecutor(2) as pool:
        yield from pool.map(ask, sorted(of, key=lambda each: each.name))


def _known(finding: Finding, old: Answers, new: Answers, pages: Path, again: bool) -> Known:
    try:
        script = _script(pages / f"{finding.page}.md")
    except UsageError as error:
        return Known(finding.name, finding.page, finding.severity, UNKNOWN, UNKNOWN, str(error))
    (before, why), (after, why_now) = old.shown(script, again), new.shown(script, again)
    return Known(finding.name, finding.page, finding.severity, before, after, why_now or why)


def scripts(text: str) -> list[str]:
    """The Python blocks of a page, in their order."""
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def _script(page: Path) -> str:
    """The first script of a page. Raises UsageError."""
    try:
        text = read_regular(page, LARGEST).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{page.name}: no page ({error})") from error
    if not (found := scripts(text)):
        raise UsageError(f"{page.name}: no script")
    return found[0]


def _shown(environment: Environment, script: str) -> tuple[str, str]:
    """SHOWS, GONE or UNKNOWN, after running a script in an environment, and for UNKNOWN the reason."""
    ends = list(_ends(environment, script))
    code, said = ends[-1]
    if code == 0:
        return GONE, ""
    if code == ABORT or (code == 1 and SAID in said):
        return SHOWS, ""
    return UNKNOWN, last_line(said) or f"exit code {code}"


def _ends(environment: Environment, script: str) -> Iterator[tuple[int, str]]:
    """How a script ends, and what it prints, each time that it is run."""
    for _ in range(TRIES):
        with TemporaryDirectory() as folder:
            command = [environment.python, "-P", "-c", script]
            try:
                done = subprocess.run(
                    command,
                    cwd=folder,
                    env=environment.active,
                    capture_output=True,
                    text=True,
                    timeout=SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                yield 124, f"no end in {SECONDS:g} seconds"
                return
        yield done.returncode, done.stdout + done.stderr
        if done.returncode != SEGMENTATION_FAULT:
            return
