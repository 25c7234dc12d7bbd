"""One mutant in a process of its own, which has loaded everything but the vendor."""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import math
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from torch.export import ExportedProgram

from benchmarks.mutants.answers import Known, differs
from benchmarks.mutants.pins import Pins
from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import Table
from npu_assay.partitioners.exir import Backend

PACKAGE = "npu_assay"
UNIT_TESTS = "unit tests"
TYPES = "types"
"""How mutants end that no case fails on."""
PASSED = "-"
SLACK = 20
"""How much longer than its time of the processor a mutant may take, on a machine that has other things to do."""
WHOLE = 60
"""Cases that are run and judged as a whole though a changed vendor answers them as before: what it keeps between runs
shows there."""
OTHERS = 200
"""Cases that may have another answer, and pass."""


@dataclass(frozen=True)
class Verdict:
    """How a mutant ended: by a failing check, by an error, a hang or a crash; or it survived all its cases."""

    killed: bool
    how: str
    cases: int


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module from a changed tree."""

    def __init__(self, root: Path, file: str, tree: ast.Module) -> None:
        self.name, self.file, self.tree = module_name(file), root / file, tree

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        package = [str(self.file.parent)] if self.file.name == "__init__.py" else None
        spec = importlib.util.spec_from_loader(fullname, self, origin=str(self.file), is_package=package is not None)
        if spec is not None and package is not None:
            spec.submodule_search_locations = package
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = str(self.file)
        exec(compile(self.tree, str(self.file), "exec"), module.__dict__)


def module_name(file: str) -> str:
    """The module name under which a file of the package is imported."""
    parts = Path(file).with_suffix("").parts
    return ".".join((PACKAGE, *(parts[:-1] if parts[-1] == "__init__" else parts)))


@dataclass(frozen=True)
class Tried:
    """A case, its program before any passes, and what the unchanged vendor answers to it."""

    case: Case
    program: ExportedProgram
    before: Known


@dataclass(frozen=True)
class Judges:
    """The vendor, its table, and what golden/ holds.

    sound: what is known of cases that killed a mutant: what the vendor does with nothing changed.
    """

    spec: str
    table: Table
    pins: Pins
    root: Path
    seconds: float
    sound: dict[str, str] = field(default_factory=dict)

    def trial(self, cases: Sequence[Tried], stages: Set[int], file: str, tree: ast.Module) -> Verdict:
        """Run the cases on the vendor with one module changed, until one fails or the seconds are over.

        stages: in which the changed line runs. Raises RuntimeError where the case that fails does so with nothing
        changed, or has another snapshot then.
        """

        def work() -> str:
            sys.meta_path.insert(0, Mutated(self.root, file, tree))
            return self._judged(cases, stages)

        found = in_a_process(work, SLACK * self.seconds)
        for case in (each.case for each in cases if found.killed and found.how.endswith(f" {each.case.id}")):
            self._check(case)
        return found

    def _check(self, case: Case) -> None:
        if case.id not in self.sound:
            self.sound[case.id] = in_a_process(lambda: f"0 1 {self._found(case)}", SLACK * self.seconds).how
        if self.sound[case.id] != PASSED:
            raise RuntimeError(f"{case.id}: with nothing changed: {self.sound[case.id]}")

    def _found(self, case: Case) -> str:
        result = run_case(case, load_backend(self.spec), self.table)
        return str(result.failures[0]) if result.failures else self.pins.moved(case, result) or PASSED

    def _judged(self, cases: Sequence[Tried], stages: Set[int]) -> str:
        """Other tags or results alone are what snapshots show: of tags on which the table is silent, of programs that
        do the same in another way, and of numbers that stay within their bounds, nothing else does.

        Nothing is said of the cases for which no time is left.
        """
        count, moved = 0, ""
        try:
            backend = load_backend(self.spec)
            for count, case in enumerate(self._to_judge(cases, stages, backend), 1):
                result = run_case(case, backend, self.table)
                if result.failures:
                    return f"1 {count} {result.failures[0].check} {case.id}"
                moved = moved or self.pins.moved(case, result)
        except BaseException as error:  # noqa: BLE001  (whatever a broken module raises)
            return f"1 {count} {type(error).__name__}"
        return f"{int(bool(moved))} {len(cases)} {moved or PASSED}"

    def _to_judge(self, cases: Sequence[Tried], stages: Set[int], backend: Backend) -> Iterator[Case]:
        """Those whose answer is another one, and then the first of all."""
        others = set[str]()
        for each in cases:
            if time.process_time() > self.seconds / 2 or len(others) == OTHERS:
                break
            if self._differs(each, stages, backend):
                others.add(each.case.id)
                yield each.case
        yield from (each.case for each in cases[:WHOLE] if each.case.id not in others)

    def _differs(self, tried: Tried, stages: Set[int], backend: Backend) -> bool:
        try:
            return differs(tried.case, self.table, backend, tried.program, tried.before, stages)
        except Exception:  # noqa: BLE001  (whatever a broken module raises: the case says what it makes of it)
            return True


BUSY = 10
"""How many times longer than on an idle machine a process may take."""


def in_a_process(work: Callable[[], str], seconds: float) -> Verdict:
    """What `work` found ("1" or "0" for killed or not, how many cases, how), in a child process with no output.

    Hangs are told by the processor time that they take, which no other process makes longer; those that only wait,
    by the clock.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 1))
        _in_child(writer, work)
    os.close(writer)
    text = _answer(reader, time.monotonic() + BUSY * seconds)
    os.close(reader)
    if text is None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not text:
        late = text is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU)
        return Verdict(True, "hang" if late else "crash", 0)
    killed, count, how = text.split(" ", 2)
    return Verdict(killed == "1", how, int(count))


def _answer(reader: int, until: float) -> str | None:
    """The output of the child process; "" when it ended without any, None when time ran out."""
    found = b""
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return None
        data = os.read(reader, 65536)
        if not data:
            return found.decode()
        found += data


def _in_child(writer: int, work: Callable[[], str]) -> None:
    """Never returns."""
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        os.write(writer, work().encode())
    finally:
        os._exit(0)
