"""The files that a backend is made of: its modules, all that they import of the project, and the data beside them.

Left out are the standard library, the suite, which a certificate lists for itself, and other installed distributions.
Of a package every file counts, and so do the modules in it that are imported by a computed name. Of a module in no
package its file counts, and the data files in its folder and in the folders directly below.
"""

from __future__ import annotations

import os
import re
import sysconfig
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path

from npu_assay.conformance.backend.environment import LIBRARIES, SUITE
from npu_assay.conformance.backend.static_imports import Finder, Module, imported_names
from npu_assay.conformance.record.names import CERTIFICATE, JOURNAL, RESULTS

OURS = "npu_assay"
DATA = re.compile(
    r"\.(so(\.\d+)*|dylib|dll|pyd|a|o|elf|toml|json|ya?ml|ini|cfg|xml|csv|tsv|fbs|proto|bin|dat|np[yz]|pth?|pte|pkl"
    r"|safetensors|onnx|tflite|tosa|h5|mlir|ll|bc|hex)$"
)
"""The endings of data files and libraries beside a module in no package."""
OTHERS = ("__init__.py", "pyproject.toml", ".git")
"""What the folder of another package or project holds."""


def backend_files(module: str) -> dict[str, Path]:
    """The files that the backend in an importable module is made of, by their path from a folder of Python's path."""
    return _Closure(module).walk()


@dataclass
class _Closure:
    """What is found from the backend's module on. _left: names of modules yet to be looked at."""

    start: str
    _files: dict[str, Path] = field(default_factory=dict)
    _seen: set[Path] = field(default_factory=set)
    _parsed: set[Path] = field(default_factory=set)
    _left: deque[str] = field(default_factory=deque)
    _installed: dict[Path, bool] = field(default_factory=dict)
    _finder: Finder = field(default_factory=Finder)
    _own: str = ""
    _own_files: frozenset[Path] = frozenset()

    def walk(self) -> dict[str, Path]:
        """The files of all modules that are imported, and, of an installed backend, of its distribution."""
        start = self._finder.find(self.start)
        if start is None:
            return {}
        self._own = (self._package(start) or start).name
        if self._is_installed(start) and not _is_in(start.name, OURS):
            self._add_distribution(start)
        self._left.append(start.name)
        done = set[str]()
        while self._left:
            name = self._left.popleft()
            if name not in done:
                done.add(name)
                self._follow(name)
        return self._files

    def _follow(self, name: str) -> None:
        for module in self._finder.chain(name):
            if self._is_counted(module):
                self._add_module(module)
            elif module.file is not None and not _is_in(name, OURS):
                return  # what is in a package that does not count does not, either

    def _is_counted(self, module: Module) -> bool:
        if module.file is None or module.name in LIBRARIES:
            return False
        if _is_in(module.name, self._own) or module.file in self._own_files:
            return True
        if _is_in(module.name, OURS):
            return not _is_suite(module.name)
        return not self._is_installed(module) and not _is_standard(module.file)

    def _is_installed(self, module: Module) -> bool:
        """Whether it is in a folder that pip installs distributions into, whatever the name of that is."""
        root = module.root
        if root is None:
            return False
        if root not in self._installed:
            known = root.name in ("site-packages", "dist-packages")
            self._installed[root] = known or any(root.glob("*.dist-info"))
        return self._installed[root]

    def _package(self, module: Module) -> Module | None:
        """The widest package that a module is in, or is, and that neither is of the suite nor holds some of it."""
        found = module if module.is_package and not _holds_suite(module.name) else None
        for end in range(module.name.count("."), 0, -1):
            parent = self._finder.find(".".join(module.name.split(".")[:end]))
            if parent is None or parent.file is None or _is_suite(parent.name) or _holds_suite(parent.name):
                break
            found = parent
        return found

    def _add_module(self, module: Module) -> None:
        if module.file is None or module.file in self._parsed:
            return
        package = self._package(module)
        if package is not None:
            self._add_package(package)
        elif not module.is_package and not self._is_installed(module):
            for file in _data_beside(module.file.parent):
                self._add("/".join([*module.parents, file.relative_to(module.file.parent).as_posix()]), file)
        file = _existing(module.file)
        self._add("/".join([*module.parents, file.name]), file)
        self._parse(file, ".".join(module.parents))

    def _add_package(self, package: Module) -> None:
        for folder in package.folders:
            for file in _files_below(folder, frozenset()):
                place = [*package.parents, *file.relative_to(folder).parts]
                self._add("/".join(place), file)
                self._parse(file, ".".join(place[:-1]))

    def _add_distribution(self, start: Module) -> None:
        """All that was installed with the backend, such as shared libraries in a folder beside its package."""
        assert start.file is not None and start.root is not None
        files = _distribution_files(start.file, start.root)
        self._own_files = frozenset(files)
        for file in files:
            self._add(file.relative_to(start.root).as_posix(), file)

    def _parse(self, file: Path, package: str) -> None:
        if file.suffix == ".py" and file not in self._parsed:
            self._left += sorted(imported_names(file, package))
        self._parsed.add(file)

    def _add(self, name: str, file: Path) -> None:
        """Add a file. Where another has its path, from another folder of Python's path, its folder's name precedes."""
        if file in self._seen:
            return
        self._seen.add(file)
        folder = file.parents[min(name.count("/"), len(file.parents) - 1)]
        while name in self._files:
            name, folder = f"{folder.name}/{name}", folder.parent
        self._files[name] = file


# ------------------------------------------------------------------------------------ whose a module is


def _is_in(name: str, package: str) -> bool:
    return f"{name}.".startswith(f"{package}.")


def _holds_suite(name: str) -> bool:
    return any(package.startswith(f"{name}.") for package in SUITE)


def _is_suite(name: str) -> bool:
    """Whether the suite's own digests have it: the suite's packages, and the modules at the top of ours."""
    at_top = _is_in(name, OURS) and name.count(".") <= 1 and name != f"{OURS}.partitioners"
    return at_top or any(_is_in(name, package) for package in SUITE)


def _is_standard(file: Path) -> bool:
    return any(file.is_relative_to(sysconfig.get_path(key)) for key in ("stdlib", "platstdlib"))


def _distribution_files(file: Path, root: Path) -> list[Path]:
    """What was installed into a folder with one of its files, but for metadata; nothing where no list of it is."""
    name = file.relative_to(root).as_posix()
    for distribution in distributions(path=[str(root)]):
        if name in (distribution.read_text("RECORD") or ""):
            places = [Path(str(distribution.locate_file(path))) for path in distribution.files or ()]
            if file in places:
                return sorted(place for place in places if _is_source(place, root) and place.is_file())
    return []


def _is_source(place: Path, root: Path) -> bool:
    if ".." in place.parts or not place.is_relative_to(root):
        return False  # a command's script
    parts = place.relative_to(root).parts
    return "__pycache__" not in parts and not parts[0].endswith(".dist-info")


# ------------------------------------------------------------------------------------ files in a folder


def _files_below(folder: Path, above: frozenset[Path]) -> Iterator[Path]:
    """The files of a package, in the order of their paths. above: the real folders that lead here, against circles."""
    above |= {folder.resolve()}
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if not _is_skipped(path) and path.resolve() not in above:
                yield from _files_below(path, above)
        elif path.is_file() and not _is_passing(path):
            yield path


def _data_beside(folder: Path) -> Iterator[Path]:
    """The data files in the folder of a module that is in no package, and in the folders directly below."""
    for path in sorted(folder.iterdir()):
        if not path.is_dir():
            below = [path]
        elif _is_skipped(path) or any((path / name).exists() for name in OTHERS):
            below = []
        else:
            below = sorted(path.iterdir())
        yield from (file for file in below if DATA.search(file.name) and file.is_file() and not _is_passing(file))


def _is_skipped(folder: Path) -> bool:
    """Whether a folder holds what programs leave: hidden ones, caches, environments, runs of the suite.

    So is one that may not be read: the backend cannot read it, either.
    """
    name = folder.name
    if not os.access(folder, os.R_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        return True
    if name in ("__pycache__", "node_modules") or name.startswith((".", "assay-")) or name.endswith(".egg-info"):
        return True
    is_run = (folder / JOURNAL).exists() or ((folder / CERTIFICATE).exists() and (folder / RESULTS).exists())
    return is_run or (folder / "pyvenv.cfg").exists()


def _is_passing(file: Path) -> bool:
    """Whether a file is an editor's: hidden, or a copy of an earlier state."""
    return file.name.startswith(".") or file.name.endswith("~")


def _existing(file: Path) -> Path:
    """The file, or the archive that it is in."""
    return next((path for path in (file, *file.parents) if path.exists()), file)
