"""Which cases execute which lines of a vendor's modules, and what the vendor answers to each."""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from benchmarks.mutants.answers import PARTITION, Known, known
from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import Table
from npu_assay.partitioners.exir import Backend

Traced = Callable[[FrameType, str, Any], Any]
"""What Python calls at each line of a function."""
Lines = dict[str, dict[int, list[int]]]
"""File -> line -> numbers of the cases that execute it, in order."""


Stages = dict[str, dict[int, set[int]]]
"""File -> line -> the stages of `answers` in which some case executes it."""


@dataclass(frozen=True)
class Executed:
    """What the cases of a table execute and the unchanged vendor answers.

    answers: to every case, in order. modules: all that was imported by the time that all cases had run.
    """

    lines: Lines
    stages: Stages
    answers: Sequence[Known]
    modules: Sequence[str]


class Watch:
    """The lines of some files that run while a case does, or a test; of cases with the stages in which they do."""

    def __init__(self, root: Path, files: Sequence[Path]) -> None:
        self.names = {str(file): file.relative_to(root).as_posix() for file in files}
        self.seen = set[tuple[str, int]]()
        self.staged = set[tuple[str, int, int]]()
        self.stage = PARTITION
        self.known: dict[CodeType, Traced | None] = {}

    def start(self) -> None:
        """From now on `seen` collects lines."""
        self.seen = set()
        known, learned = self.known, self._learned

        def calls(frame: FrameType, event: str, argument: Any) -> Traced | None:
            code = frame.f_code  # of every function that is called, so this is all that is done of most
            return known[code] if code in known else learned(code)

        sys.settrace(calls)

    def entered(self, stage: int) -> None:
        """What runs now belongs to this stage."""
        self.stage = stage

    def _learned(self, code: CodeType) -> Traced | None:
        name = None if code.co_name == "<module>" else self.names.get(str(Path(code.co_filename).resolve()))
        self.known[code] = None if name is None else self._of_file(name)
        return self.known[code]

    def _of_file(self, name: str) -> Traced:
        def traced(frame: FrameType, event: str, argument: Any) -> Traced:
            if event == "line":
                self.seen.add((name, frame.f_lineno))
                self.staged.add((name, frame.f_lineno, self.stage))
            return traced

        return traced


def fingerprint(files: Sequence[Path], more: str = "") -> str:
    """Other files have another one, and so has another text beside them."""
    found = hashlib.sha256(more.encode())
    for file in files:
        found.update(file.read_bytes())
    return found.hexdigest()


def read(cache: Path, known: str) -> dict[str, Any] | None:
    """What a cache holds, if it was written for this fingerprint."""
    stored = json.loads(cache.read_text()) if cache.exists() else {}
    return stored if stored.get("of") == known else None


def by_number(lines: dict[str, dict[str, Any]]) -> dict[str, dict[int, Any]]:
    """Line numbers, which JSON has as text."""
    return {file: {int(line): found for line, found in each.items()} for file, each in lines.items()}


def executed(
    spec: str, table: Table, cases: Sequence[Case], root: Path, files: Sequence[Path], cache: Path
) -> Executed:
    """What each case executes; read from `cache`, which this wrote, where files and cases are as they were."""
    of = fingerprint([*files, Path(__file__), Path(__file__).with_name("answers.py")], repr(cases))
    if cache.exists():
        stored, found = pickle.loads(cache.read_bytes())
        if stored == of:
            assert isinstance(found, Executed)
            return found
    found = _executed(load_backend(spec), table, cases, Watch(root, files))
    cache.write_bytes(pickle.dumps((of, found)))
    return found


def _executed(backend: Backend, table: Table, cases: Sequence[Case], watch: Watch) -> Executed:
    lines: Lines = {}
    answers = []
    for number, case in enumerate(cases):
        watch.start()
        try:
            answers.append(known(case, table, backend, watch.entered))
        finally:
            sys.settrace(None)
        for file, line in watch.seen:
            lines.setdefault(file, {}).setdefault(line, []).append(number)
    stages: Stages = {}
    for file, line, stage in watch.staged:
        stages.setdefault(file, {}).setdefault(line, set()).add(stage)
    return Executed(lines, stages, answers, sorted(sys.modules))
