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
        """What it was made of; "" where that is not known."""
        made = self.folder / MADE
        return made.read_text(encoding="utf-8") if made.is_file() else ""

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables of a process in it that imports this suite."""
        return {**os.environ, "PYTHONPATH": str(Path(npu_assay.__file__).parent.parent)}

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
    """The environment of a release, which is made where there is none. Raises UsageError where pip cannot."""
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
    _run([found.python, *PIP, "-c", str(limits), release.source, *_beside(release)], folder)
    if alone := [_pinned(name) for name in release.package.alone if name != release.name]:
        _run([found.python, *PIP, "--no-deps", *alone], folder)
    with failing(folder, "cannot be made"):
        (folder / MADE).write_text(wanted, encoding="utf-8")
    return found


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise UsageError(f"{folder}: cannot be made: {said[-1] if said else f'exit code {done.returncode}'}")


def _beside(release: Release) -> list[str]:
    """What is installed besides, at the versions here: all that the suite needs where it runs there itself."""
    suite = [name for name in _needed() if name != release.name] if release.package.inside else []
    return [_pinned(name) for name in (*suite, *release.package.beside)]


def _needed() -> Iterator[str]:
    """What the suite asks for without extras."""
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
