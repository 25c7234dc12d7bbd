"""One mutant in a process of its own, which has loaded everything but the vendor."""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from npu_assay.conformance.backends import load_backend
from npu_assay.conformance.certify import run_case
from npu_assay.conformance.graph import Case
from npu_assay.conformance.table import Table

PACKAGE = "npu_assay"


@dataclass(frozen=True)
class Verdict:
    """How a mutant ended: by a failing check, by an error, a hang or a crash; or it survived all its cases."""

    killed: bool
    how: str
    cases: int


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module from a changed tree."""

    def __init__(self, name: str, file: Path, tree: ast.Module) -> None:
        self.name, self.file, self.tree = name, file, tree

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


def trial(
    spec: str, table: Table, cases: Sequence[Case], root: Path, file: str, tree: ast.Module, seconds: float
) -> Verdict:
    """Run the cases on the vendor with one module changed, until one fails or `seconds` are over."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _in_child(writer, spec, table, cases, root, file, tree)
    os.close(writer)
    text = _answer(reader, time.monotonic() + seconds)
    os.close(reader)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if text is None:
        return Verdict(True, "hang", 0)
    if not text:
        return Verdict(True, "crash", 0)
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


def _in_child(
    writer: int, spec: str, table: Table, cases: Sequence[Case], root: Path, file: str, tree: ast.Module
) -> None:
    """Never returns."""
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        sys.meta_path.insert(0, _Mutated(module_name(file), root / file, tree))
        text = _judged(spec, table, cases)
        os.write(writer, text.encode())
    finally:
        os._exit(0)


def _judged(spec: str, table: Table, cases: Sequence[Case]) -> str:
    count = 0
    try:
        backend = load_backend(spec)
        for count, case in enumerate(cases, 1):
            failures = run_case(case, backend, table).failures
            if failures:
                return f"1 {count} {failures[0].check} {case.id}"
    except BaseException as error:  # noqa: BLE001  (whatever a broken module raises)
        return f"1 {count} {type(error).__name__}"
    return f"0 {count} -"
