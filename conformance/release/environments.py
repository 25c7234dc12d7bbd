"""An environment for each release: a virtual one of this Python, made by pip, and kept between runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distributions, requires, version
from pathlib import Path

import npu_assay
from npu_assay.conformance.common.describing import last_line
from npu_assay.conformance.common.errors import UsageError, failing
from npu_assay.conformance.release.packages import Release

SUITE = "npu-assay"
MADE = "made-of.txt"  # in the environment: what it was made of; written last
PIP = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet")


@dataclass(frozen=True)
class Environment:
    """Where a release is installed."""

    release: Release
    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def made_of(self) -> str:
        """The text of what pip installed in it; "" while it is not whole."""
        made = self.folder / MADE
        return made.read_text(encoding="utf-8") if made.is_file() else ""

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables of a process in it that imports this suite."""
        return {**self.active, "PYTHONPATH": str(Path(npu_assay.__file__).parent.parent)}

    @property
    def active(self) -> dict[str, str]:
        """Environment variables of a process in it: its commands are found first, such as the flatc of ExecuTorch."""
        path = os.pathsep.join((str(self.folder / "bin"), os.environ.get("PATH", os.defpath)))
        return {**os.environ, "VIRTUAL_ENV": str(self.folder), "PATH": path}

    @property
    def size(self) -> int:
        """Bytes that the release's distribution installs, 0 where that is not recorded."""
        ask = (
            "from importlib.metadata import files; import sys; "
            "print(sum(each.size or 0 for each in files(sys.argv[1]) or ()))"
        )
        done = subprocess.run([self.python, "-I", "-c", ask, self.release.name], capture_output=True, text=True)
        return int(done.stdout) if done.returncode == 0 else 0


def made(release: Release, kept: Path) -> Environment:
    """Return the environment of a release, after making it if it is not there. Raises UsageError with what pip says."""
    folder = kept / f"{release.name}-{release.version}"
    found = Environment(release, folder)
    wanted = "\n".join((release.source, *_beside(release), *release.package.alone, sys.version, ""))
    if found.made_of == wanted:
        return found
    with failing(folder, "cannot be made"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        limits = kept / f"{folder.name}-limits.txt"
        limits.write_text("".join(f"{each}\n" for each in _here(release)), encoding="utf-8")
    _run([sys.executable, "-m", "venv", str(folder)], folder)
    alone = [release.source if name == release.name else _pinned(name) for name in release.package.alone]
    usual = [*_beside(release), *([] if release.source in alone else [release.source])]
    _run([found.python, *PIP, "-c", str(limits), *usual], folder)
    if alone:
        _run([found.python, *PIP, "--no-deps", *alone], folder)
    with failing(folder, "cannot be made"):
        (folder / MADE).write_text(wanted, encoding="utf-8")
    return found


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = last_line(done.stdout + done.stderr) or f"exit code {done.returncode}"
        raise UsageError(f"{folder}: cannot be made: {said}")


def _beside(release: Release) -> list[str]:
    """Requirements besides the release, at the versions here; those of the suite too, where it runs there itself."""
    suite = [name for name in _needed() if name != release.name] if release.package.inside else []
    return [_pinned(name) for name in (*suite, *release.package.beside)]


def _needed() -> Iterator[str]:
    """Names of the distributions that the suite requires without extras."""
    for text in requires(SUITE) or ():
        if "extra ==" not in text:
            yield re.split(r"[\s\[<>=!~;(]", text)[0]


def _pinned(name: str) -> str:
    try:
        return f"{name}=={version(name).partition('+')[0]}"
    except PackageNotFoundError:
        return name


def _here(release: Release) -> list[str]:
    """Everything that is installed here, as limits for pip: so the two environments differ in the release alone."""
    names = {str(each.metadata["Name"]) for each in distributions()} - {"None", "pip", "setuptools", "wheel", SUITE}
    apart = {release.name, *release.package.alone}
    return sorted(_pinned(name) for name in names if name.lower().replace("_", "-") not in apart)
