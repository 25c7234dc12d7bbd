"""Throw-away environments, made in a second, that see what is installed here; and the real pip in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType

from places import ROOT

JUNK = shutil.ignore_patterns(".*cache", ".git", ".hypothesis", ".tox", "*.egg-info", "__pycache__", "build", "dist")
COMMANDS = ("assay", "pytest", "lint-imports", "mypy")
SCRIPT = """#!{python}
import sys
from {module} import {function}
sys.exit({function}())
"""


class Environment:
    """A virtual environment in a new folder. Its own packages come before those of the environment that runs the tests.

    without: the beginning of names of packages that it does not see; nothing can be installed into it then.
    """

    def __init__(self, folder: Path, without: str = "") -> None:
        venv.create(folder, symlinks=True)
        self.scripts = folder / "bin"
        self.site = next(folder.glob("lib/python*/site-packages"))
        if without:
            self._link(without)
        else:
            # `addsitedir`, unlike a path alone, also follows the editable installs that stand there.
            lines = [f"import site; site.addsitedir({path!r})" for path in _packages()]
            (self.site / "parent.pth").write_text("\n".join([*lines, ""]))
        self._write_scripts()

    def _link(self, without: str) -> None:
        for packages in _packages():
            for path in Path(packages).iterdir():
                if not path.name.startswith(without) and not (self.site / path.name).exists():
                    (self.site / path.name).symlink_to(path)

    def _write_scripts(self) -> None:
        """The commands of the environment that runs the tests, as pip writes them, for this one's Python."""
        for point in entry_points(group="console_scripts"):
            if point.name in COMMANDS:
                text = SCRIPT.format(python=self.scripts / "python", module=point.module, function=point.attr)
                (self.scripts / point.name).write_text(text)
                (self.scripts / point.name).chmod(0o755)

    def run(
        self, *command: object, cwd: Path, variables: Mapping[str, str] = MappingProxyType({})
    ) -> subprocess.CompletedProcess[str]:
        """A command of this environment, as a shell finds it when the environment is active."""
        path = os.pathsep.join([str(self.scripts), os.environ["PATH"]])
        words = [str(self.scripts / str(command[0])), *map(str, command[1:])]
        return subprocess.run(
            words,
            cwd=cwd,
            env={**_plain(os.environ), "VIRTUAL_ENV": str(self.scripts.parent), "PATH": path, **variables},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def pip(self, *arguments: object, cwd: Path) -> None:
        """The real pip, which may neither ask an index nor build in an environment of its own."""
        command = [sys.executable, "-m", "pip", "--python", self.scripts / "python", *arguments]
        done = subprocess.run(
            list(map(str, command)), cwd=cwd, env=_plain(os.environ), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def install(self, *arguments: object, cwd: Path) -> None:
        """`pip install` without network: what is installed here already counts as there."""
        self.pip("install", "--no-index", "--no-build-isolation", "--no-deps", *arguments, cwd=cwd)

    def names(self) -> set[str]:
        """What stands in this environment's own site-packages, but for what says which distribution it is of."""
        found = {path.name for path in self.site.iterdir()} - {"parent.pth", "__pycache__"}
        return {name for name in found if not name.endswith(".dist-info")}


def copy_checkout(target: Path) -> Path:
    """The files of the checkout as they are now, without what tools leave there; installing writes into the copy."""
    return shutil.copytree(ROOT, target, symlinks=True, ignore=JUNK)


def _packages() -> list[str]:
    return sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})


def _plain(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what pytest and its own environment put there."""
    return {key: value for key, value in environment.items() if not key.startswith(("PYTEST", "PYTHON"))}
