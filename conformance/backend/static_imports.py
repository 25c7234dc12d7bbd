"""Which modules the text of a module imports, and where they are, without importing any.

What is imported already bears on nothing here, so every process finds the same. Imports in functions and those for type
checkers count. A name that is computed when the program runs is not seen.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from importlib.util import resolve_name
from pathlib import Path

from npu_assay.files import read_regular

LARGEST = 2**26  # bytes of a module
CALLS = {"import_module", "__import__"}
"""Functions whose first argument names a module; it counts when it is a constant."""


def imported_names(file: Path, package: str) -> set[str]:
    """The names that a Python file imports, those after `from ... import` included, which may be modules or not.

    package: what relative imports start from. Text that is not Python imports nothing.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in strings, which are its author's affair
            tree = ast.parse(read_regular(file, LARGEST))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return {name for node in ast.walk(tree) for name in _names(node, package)}


def _names(node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        module = _absolute("." * node.level + (node.module or ""), package)
        if module:
            yield from (f"{module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and node.args and _called(node.func) in CALLS:
        argument = node.args[0]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            yield _absolute(argument.value, package)


def _absolute(name: str, package: str) -> str:
    """A name without leading dots, "" for one that leads out of the top-level package."""
    try:
        return resolve_name(name, package)
    except ImportError:
        return ""


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


@dataclass(frozen=True)
class Module:
    """Where a module is. file: its code, None for a folder without `__init__.py` and for what is built in.

    folders: where its submodules are, empty unless it is a package.
    """

    name: str
    file: Path | None
    folders: tuple[Path, ...]

    @property
    def is_package(self) -> bool:
        """Whether it can have submodules."""
        return bool(self.folders)

    @property
    def parents(self) -> list[str]:
        """The packages whose folders its file is in, by name; a package's file is in its own folder."""
        names = self.name.split(".")
        return names if self.is_package else names[:-1]

    @property
    def root(self) -> Path | None:
        """The folder on the path that its top-level package is in."""
        if self.file is None:
            return None
        return self.file.parents[min(len(self.parents), len(self.file.parents) - 1)]


@dataclass
class Finder:
    """Looks modules up where Python's own finders do, each once."""

    _known: dict[str, Module | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        importlib.invalidate_caches()

    def find(self, name: str) -> Module | None:
        """A module by its full name, None when there is none."""
        if name not in self._known:
            self._known[name] = self._look(name)
        return self._known[name]

    def chain(self, name: str) -> Iterator[Module]:
        """The modules that importing a dotted name runs, from the top-level package to the longest that exists."""
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            module = self.find(".".join(parts[:end])) if all(parts[:end]) else None
            if module is None:
                return
            yield module

    def _look(self, name: str) -> Module | None:
        parent, _, last = name.rpartition(".")
        path = None
        if parent:
            package = self.find(parent)
            if package is None or not package.is_package:
                return None
            path = [str(folder) for folder in package.folders]
        spec = _spec(name, path)
        if spec is not None:
            file = Path(spec.origin) if spec.has_location and spec.origin else None
            return Module(name, file, tuple(Path(folder) for folder in spec.submodule_search_locations or ()))
        folders = tuple(Path(entry, last) for entry in (sys.path if path is None else path))
        found = tuple(folder for folder in folders if os.path.isdir(folder))  # False where it may not look
        return Module(name, None, found) if found else None


def _spec(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """The first spec with code that any of Python's finders has; a folder of the same name does not hide it."""
    for finder in sys.meta_path:
        with suppress(KeyError):  # a folder without code, in a package that is not imported
            spec = finder.find_spec(name, path)
            if spec is not None and spec.loader is not None:
                return spec
    return None
