"""What judges, by modules, and the view of the suite that a process with a backend has: the suite without these.

There the suite's folders have finders that know nothing of them. That keeps them out of reach of an `import`, not of a
process that reads files: whoever can run code there can read the suite's source and execute it.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader

_CONFORMANCE = (
    *("cases", "characterize", "compare", "covering", "findings", "judge", "predicates", "record.certificate"),
    *("record.folder", "record.journal", "report", "table", "verify"),
    *("fuzz.observe", "fuzz.programs", "fuzz.stream"),
    *("run.drawing", "run.execution", "run.observation", "run.one_case", "run.selection", "run.session", "run.tagging"),
)
_REFERENCE = ("arithmetic", "integer", "onnx_golden", "onnx_node")
JUDGES = (
    *(f"npu_assay.conformance.{name}" for name in _CONFORMANCE),
    *(f"npu_assay.reference.{name}" for name in _REFERENCE),
)
"""Modules and packages that no process with a backend has."""
GOLDENS = ("npu_assay.reference.golden", "npu_assay.reference.onnx_forms", "npu_assay.reference.operators")
"""As these, but an engine's adapter needs them: they say how an operator's arguments are called, and its ONNX form."""


def is_loaded(names: Collection[str]) -> bool:
    """Whether any of these modules is loaded here."""
    return any(name in sys.modules for name in names)


class _Without(FileFinder):
    """Finds the modules in a folder, but for some."""

    def __init__(self, folder: str, names: Collection[str]) -> None:
        super().__init__(folder, (SourceFileLoader, SOURCE_SUFFIXES))
        self._names = frozenset(names)

    def find_spec(self, fullname: str, target: object = None) -> ModuleSpec | None:
        return None if fullname in self._names else super().find_spec(fullname)


def leave_out(names: Collection[str]) -> None:
    """Give the folders that hold these modules finders without them, and do without any other finder that has them.

    Such a finder is an editable installation's, which finds by itself what its folder holds.
    """
    for package in {name.rpartition(".")[0] for name in names}:
        loaded = sys.modules.get(package)
        for folder in loaded.__path__ if loaded is not None else ():
            sys.path_importer_cache[folder] = _Without(folder, names)
    sys.meta_path[:] = [finder for finder in sys.meta_path if not any(_finds(finder, name) for name in names)]


def _finds(finder: object, name: str) -> bool:
    package = sys.modules.get(name.rpartition(".")[0])
    return package is not None and finder.find_spec(name, package.__path__) is not None  # type: ignore[attr-defined]
