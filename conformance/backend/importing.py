"""Importing what a user names: installed packages first, then modules in the current directory.

A folder without `__init__.py` is a namespace package to Python, and Python's finder of the path takes it before the
finder of an editable install is asked. So the folder of a project, `./my_npu`, would hide the installed package
`my_npu` wherever the current directory is on the path.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path


def import_regular(name: str) -> None:
    """Import the top-level module `name` unless it is imported: one with code, before any folder without.

    When there is none, the current directory goes to the end of `sys.path`, where it stays: what is found there
    imports its neighbors. Nothing is imported when that finds none either. Raises what the module raises.
    """
    if name in sys.modules:
        return
    spec = spec_with_code(name)
    if spec is None and _here() not in sys.path:
        sys.path.append(_here())
        spec = spec_with_code(name)
    if spec is not None:
        _load(spec)


def _here() -> str:
    return str(Path.cwd())


def spec_with_code(name: str) -> ModuleSpec | None:
    """The first spec of a top-level module that any of Python's finders has and that is not a namespace package's.

    Returns None when there is none.
    """
    for finder in sys.meta_path:
        spec = finder.find_spec(name, None)
        if spec is not None and spec.loader is not None:
            return spec
    return None


@dataclass(frozen=True)
class _Known:
    """A finder that has looked already, so that Python imports the module with all its care, and from there."""

    spec: ModuleSpec

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The spec of the one module; other finders know the others."""
        return self.spec if name == self.spec.name else None


def _load(spec: ModuleSpec) -> None:
    finder = _Known(spec)
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module(spec.name)
    finally:
        sys.meta_path.remove(finder)
