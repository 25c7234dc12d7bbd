"""Which cases execute which lines of a vendor's modules, and what the vendor answered to each."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.results import CaseResult, to_line
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import Table

T = TypeVar("T")
Lines = dict[str, dict[int, list[int]]]
"""File -> line -> numbers of the cases that execute it, in order."""


@dataclass(frozen=True)
class Executed:
    """What the cases of a table execute, and by case the tags and the digest that snapshots hold."""

    lines: Lines
    snapshots: dict[str, list[str]]


def tags(result: CaseResult) -> str:
    """The verdict and the constraints that were named, as golden/ has them."""
    return " ".join([result.verdict, *sorted({reason.code for reason in result.reasons or ()})])


def recorded(result: CaseResult) -> str:
    """A digest of all that a run notes of a case, down to the compiled bytes, as golden/*/results.sha256 pins it."""
    return fingerprint([], to_line(result))[:16]


class Watch:
    """The lines of some files that run while a case does."""

    def __init__(self, root: Path, files: Sequence[Path]) -> None:
        self.names = {str(file): file.relative_to(root).as_posix() for file in files}
        self.seen = set[tuple[str, int]]()
        self.known: dict[CodeType, str | None] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code not in self.known:
            named = self.names.get(str(Path(code.co_filename).resolve()))
            self.known[code] = None if code.co_name == "<module>" else named
        name = self.known[code]
        return None if name is None else self._line(name)

    def watched(self, run: Callable[[], T]) -> T:
        """What `run` returns; `seen` then has the lines that it executed."""
        self.seen = set()
        sys.settrace(self)
        try:
            return run()
        finally:
            sys.settrace(None)

    def _line(self, name: str) -> Any:
        def local(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                self.seen.add((name, frame.f_lineno))
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
    """The lines that each case executes; read from `cache` where it was written of files and cases as they are.

    Raises RuntimeError for a case that fails with nothing changed: it would fail of every change, too.
    """
    known = fingerprint(files, repr(cases))
    stored = read(cache, known)
    if stored is not None:
        return Executed(by_number(stored["lines"]), stored["snapshots"])
    backend = load_backend(spec)
    found: Lines = {}
    told: dict[str, list[str]] = {}
    watch = Watch(root, files)
    for number, case in enumerate(cases):
        result = watch.watched(partial(run_case, case, backend, table))
        if result.failures:
            raise RuntimeError(f"{case.id}: fails with nothing changed: {result.failures[0]}")
        told[case.id] = [tags(result), recorded(result)]
        for file, line in watch.seen:
            found.setdefault(file, {}).setdefault(line, []).append(number)
    cache.write_text(json.dumps({"of": known, "lines": found, "snapshots": told}))
    return Executed(found, told)
