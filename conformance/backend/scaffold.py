"""The files of a new backend, from templates: a package that certifies as it is written."""

from __future__ import annotations

import keyword
import os
import re
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType

from jinja2 import Environment, PackageLoader, StrictUndefined

from npu_assay.conformance.adapters import ADAPTERS
from npu_assay.conformance.backend.importing import spec_with_code
from npu_assay.conformance.backend.loading import registered
from npu_assay.conformance.common.errors import UsageError, failing
from npu_assay.conformance.common.files import new_folder
from npu_assay.files import make_folder

# Path in the new folder -> template; "{name}" is the package's name.
FILES: Mapping[str, str] = MappingProxyType(
    {
        ".gitignore": "gitignore.jinja",
        "README.md": "README.md.jinja",
        "pyproject.toml": "pyproject.toml.jinja",
        "{name}/__init__.py": "init.py.jinja",
        "{name}/backend.py": "backend.py.jinja",
        "{name}/partitioner.py": "partitioner.py.jinja",
        "{name}/runtime.py": "runtime.py.jinja",
        "{name}/{name}@0.1.toml": "table.toml.jinja",
        "tests/test_{name}.py": "test.py.jinja",
    }
)
DEVICE: Mapping[str, str] = MappingProxyType(
    {
        "runner/CMakeLists.txt": "CMakeLists.txt.jinja",
        "runner/on_board.sh": "on_board.sh.jinja",
        "runner/runner.cpp": "runner.cpp.jinja",
    }
)
"""The same for a device of its own, which stands behind a command."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_LONGEST = 40
_FOLDERS = frozenset({"build", "dist", "tests"})  # beside the package


class ScaffoldError(UsageError):
    """A new backend that cannot be written; the message says what was asked for and what is wrong."""


def rendered(name: str, device: bool = False) -> dict[str, str]:
    """The files of a backend called `name`, with a runner for a device: path in its folder -> text."""
    environment = Environment(
        loader=PackageLoader("npu_assay.conformance.backend", "templates/new"),
        autoescape=False,  # Python, TOML and Markdown, from a name that `check_name` has seen
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    prefix = "".join(part.capitalize() for part in name.split("_"))
    values, files = {"name": name, "prefix": prefix, "device": device}, {**FILES, **(DEVICE if device else {})}
    return {
        path.format(name=name): environment.get_template(template).render(values) for path, template in files.items()
    }


def write_kit(name: str, folder: Path, device: bool = False) -> list[Path]:
    """Write a new backend's folder, whole or not at all; returns its files.

    Raises ScaffoldError for a name that no package can have, or that something installed has, and for a folder that
    exists or cannot be written.
    """
    check_name(name)
    if os.path.lexists(folder):
        raise ScaffoldError(f"{folder}: it exists already, expected a new folder (--out names another)")
    files = rendered(name, device)
    with failing(folder, "cannot be written", ScaffoldError), new_folder(folder) as draft:
        for path, text in files.items():
            make_folder((draft / path).parent)
            (draft / path).write_text(text, encoding="utf-8")
    return [folder / path for path in sorted(files)]


def check_name(name: str) -> None:
    """Raise ScaffoldError for a name that cannot be a new package's."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        likely = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:_LONGEST]
        hint = f", such as {likely!r}" if _NAME.fullmatch(likely) else ""
        raise ScaffoldError(
            f"name {name!r}: expected a Python package's, of at most {_LONGEST} lower-case letters, digits and _{hint}"
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise ScaffoldError(f"name {name!r}: it is a word of Python itself, expected one that a package can have")
    taken = _taken(name)
    if taken:
        raise ScaffoldError(f"name {name!r}: {taken} has it already, expected one that is free")


def _taken(name: str) -> str:
    """What has the name, or ""."""
    if name in _FOLDERS:
        return "a folder beside the package"
    if name in ADAPTERS:
        return "an adapter of assay"
    if name.replace("_", "-") in {known.replace("_", "-") for known in registered()}:
        return "an installed backend"
    if name in sys.stdlib_module_names:
        return "a module of Python's library"
    try:
        return f"an installed distribution ({name} {version(name)})"
    except PackageNotFoundError:
        return "an installed package" if spec_with_code(name) is not None else ""
