"""The records of a release: `assay certify` in its environment, for each backend that its package has."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from npu_assay.conformance.backend.environment import suite_sources
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.compare.difference import Run, read_run
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.names import CERTIFICATE, JOURNAL
from npu_assay.conformance.release.environments import Environment

ENDED = (0, 1)  # exit codes of a run that wrote its record
PROGRESS = re.compile(r"\d+/\d+ cases\b.*")  # what a run prints as it goes
Say = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """The cases that every backend is asked. again: also where there is a record of them."""

    selection: Selection
    workers: int
    again: bool = False


def record(environment: Environment, backend: str, asked: Asked, folder: Path, say: Say) -> Run:
    """The record of a backend in an environment; one that is there of the same suite and cases is taken as it is.

    Raises UsageError with what the run says where it has none, such as that a module is missing.
    """
    if not asked.again and (found := _there(environment, asked, folder)) is not None:
        return found
    resume = ("--resume",) if (folder / JOURNAL).is_file() and not (folder / CERTIFICATE).is_file() else ()
    code, said = _certify(environment, backend, asked, folder, resume, say)
    if resume and code not in ENDED:  # it was of another run
        code, said = _certify(environment, backend, asked, folder, (), say)
    if code not in ENDED:
        raise UsageError(said.removeprefix("assay: ") or f"its run ended with {code}")
    return read_run(folder)


def _there(environment: Environment, asked: Asked, folder: Path) -> Run | None:
    try:
        found = read_run(folder)
    except UsageError:
        return None
    stated, version = found.certificate, environment.release.version
    known = stated.environment.get(environment.release.name, version), stated.suite["sources"], stated.selection
    return found if known == (version, suite_sources(), asked.selection) else None


def _certify(
    environment: Environment, backend: str, asked: Asked, folder: Path, options: Sequence[str], say: Say
) -> tuple[int, str]:
    """The exit code of a run, and the last line that it prints; how far it is, is said as it goes."""
    package, selection = environment.release.package, asked.selection
    inside = package.inside
    command = [environment.python if inside else sys.executable, "-P", "-m", "npu_assay", "certify", backend]
    command += ["--out", str(folder), "--level", package.backends[backend], "-n", str(asked.workers)]
    command += [*package.options, *options, *([] if inside else ["--python", environment.python])]
    command += ["--smoke"] * selection.smoke + ([] if selection.expression is None else ["-k", selection.expression])
    command += [] if selection.variations is None else ["--variations", selection.variations]
    pipe, last = subprocess.PIPE, ""
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=environment.variables) as run:
        assert run.stdout is not None
        for line in filter(None, map(str.strip, run.stdout)):
            last = line
            if PROGRESS.fullmatch(line):
                say(f"{backend}, {environment.release}: {line}")
    return run.returncode, last
