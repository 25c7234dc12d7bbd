"""Which cases execute which lines of a vendor's modules, and what the vendor answered to each."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import Table

Lines = dict[str, dict[int, list[int]]]
"""File -> line -> numbers of the cases that execute it, in order."""


@dataclass(frozen=True)
class Executed:
    """What the cases of a table execute, and by case the tags that a snapshot would hold."""

    lines: Lines
    tags: dict[str, str]


def tags(result: CaseResult) -> str:
    """The verdict and the constraints that were named."""
    return " ".join([result.verdict, *sorted({reason.code for reason in result.reasons or ()})])


class Watch:
    """The lines of some files that run while a case does."""

    def __init__(self, root: Path, files: Sequence[Path]) -> None:
        self.names = {str(file): file.relative_to(root).as_posix() for file in files}
        self.seen = set[tuple[str, int]]()
        self.known: dict[CodeType, str | None] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code not in self.known:
            self.known[code] = self.names.get(str(Path(code.co_filename).resolve()))
        name = self.known[code]
        return None if name is None else self._line(name)

    def _line(self, name: str) -> Any:
        def local(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                self.seen.add((name, frame.f_lineno))
            return local

        return local


def executed(
    spec: str, table: Table, cases: Sequence[Case], root: Path, files: Sequence[Path], cache: Path
) -> Executed:
    """The lines that each case executes; read from `cache` where they stand there already."""
    if cache.exists():
        stored = json.loads(cache.read_text())
        lines = {
            file: {int(line): numbers for line, numbers in found.items()} for file, found in stored["lines"].items()
        }
        return Executed(lines, stored["tags"])
    backend = load_backend(spec)
    found: Lines = {}
    told: dict[str, str] = {}
    watch = Watch(root, files)
    for number, case in enumerate(cases):
        watch.seen = set()
        sys.settrace(watch)
        try:
            told[case.id] = tags(run_case(case, backend, table))
        finally:
            sys.settrace(None)
        for file, line in watch.seen:
            found.setdefault(file, {}).setdefault(line, []).append(number)
    cache.write_text(json.dumps({"lines": found, "tags": told}))
    return Executed(found, told)
