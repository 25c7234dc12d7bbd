"""Which cases execute which lines of a vendor's modules, and what the vendor answered to each."""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from benchmarks.mutants.answers import PARTITION, STAGES, Known, known
from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.results import CaseResult, Failure, to_line
from npu_assay.conformance.run.answering import answer
from npu_assay.conformance.run.one_case import asked, judged
from npu_assay.conformance.table import Table
from npu_assay.partitioners.exir import Backend

Lines = dict[str, dict[int, list[int]]]
"""File -> line -> numbers of the cases that execute it, in order."""


Stages = dict[str, dict[int, set[int]]]
"""File -> line -> the stages of `answers` in which some case executes it."""


@dataclass(frozen=True)
class Executed:
    """What the cases of a table execute and the unchanged vendor answers.

    snapshots: by case the tags and the digest that golden/ holds. answers: of every case, in order.
    modules: all that was imported by the time that all cases had run.
    """

    lines: Lines
    stages: Stages
    snapshots: Mapping[str, Sequence[str]]
    answers: Sequence[Known]
    modules: Sequence[str]


def tags(result: CaseResult) -> str:
    """The verdict and the constraints that were named, as golden/ has them."""
    return " ".join([result.verdict, *sorted({reason.code for reason in result.reasons or ()})])


def recorded(result: CaseResult) -> str:
    """A digest of all that a run notes of a case, down to the compiled bytes, as golden/*/results.sha256 pins it."""
    return fingerprint([], to_line(result))[:16]


class Watch:
    """The lines of some files that run while a case does, or a test; of a case with the stage in which they do."""

    def __init__(self, root: Path, files: Sequence[Path]) -> None:
        self.names = {str(file): file.relative_to(root).as_posix() for file in files}
        self.seen = set[tuple[str, int]]()
        self.staged = set[tuple[str, int, int]]()
        self.stage = PARTITION
        self.known: dict[CodeType, str | None] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code not in self.known:
            named = self.names.get(str(Path(code.co_filename).resolve()))
            self.known[code] = None if code.co_name == "<module>" else named
        name = self.known[code]
        return None if name is None else self._line(name)

    def watched(self, case: Case, backend: Backend, table: Table) -> CaseResult:
        """The result of a case; `seen` then has the lines that the backend executed."""
        self.seen, self.stage = set(), PARTITION
        question = asked(case, table)
        sys.settrace(self)
        try:
            found = answer(question, backend, self)
        finally:
            sys.settrace(None)
        return judged(case, table, found)

    def entered(self, stage: str) -> None:
        """Called by `answer`."""
        self.stage = STAGES[stage]

    def changes(self, numeric: bool) -> list[str]:
        """Nobody asks for settings here."""
        return []

    def refused(self, error: BaseException) -> str | None:
        """There is no limit of memory."""
        return None

    def _line(self, name: str) -> Any:
        def local(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                self.seen.add((name, frame.f_lineno))
                self.staged.add((name, frame.f_lineno, self.stage))
            return local

        return local


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
    """What each case executes; read from `cache`, which this wrote, where files and cases are as they were.

    Raises RuntimeError for a case that fails with nothing changed: it would fail of every change, too.
    """
    of = fingerprint([*files, *sorted(Path(__file__).parent.glob("*.py"))], repr(cases))
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
    told: dict[str, Sequence[str]] = {}
    answers = []
    for number, case in enumerate(cases):
        result = watch.watched(case, backend, table)
        _passes(result.failures, case)
        told[case.id] = [tags(result), recorded(result)]
        answers.append(known(case, table, backend))
        for file, line in watch.seen:
            lines.setdefault(file, {}).setdefault(line, []).append(number)
    stages: Stages = {}
    for file, line, stage in watch.staged:
        stages.setdefault(file, {}).setdefault(line, set()).add(stage)
    return Executed(lines, stages, told, answers, sorted(sys.modules))


def _passes(failures: Sequence[Failure], case: Case) -> None:
    if failures:
        raise RuntimeError(f"{case.id}: fails with nothing changed: {failures[0]}")
