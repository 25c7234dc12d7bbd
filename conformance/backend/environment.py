"""Where and with what a certificate was made: versions, platform, and a digest of every source file."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from npu_assay.reference.outside import constraint_packages, packages

SUITE = ("npu_assay.conformance", "npu_assay.reference", "npu_assay.partitioners.exir")
LIBRARIES = ("torch", "numpy", "onnx")


def environment() -> dict[str, str]:
    """Python, platform, the libraries that compute, the packages that bring operators or constraints, by digests."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "machine": platform.machine(),
        **{name: installed_version(name) for name in LIBRARIES},
        **{f"operators of {name}": _package_digest(name) for name in packages()},
        **{f"constraints of {name}": _package_digest(name) for name in constraint_packages()},
    }


def installed_version(distribution: str) -> str:
    """Version of an installed distribution, or "not installed"."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"


def suite_sources() -> dict[str, str]:
    """sha256 of every file of the suite, by path from its top folder. Imports nothing that loads torch."""
    top = _folder("npu_assay")
    digests = digest_files(top.glob("*.py"), top, "npu_assay")
    for package in SUITE:
        digests |= _package_files(package)
    return digests


def _package_files(package: str) -> dict[str, str]:
    """sha256 of every file of a package, by path."""
    top = _folder(package)
    inside = (found for found in os.walk(top) if "__pycache__" not in found[0])
    # Texts are three times as fast as `Path`, and every command that verifies waits.
    return digest_files((os.path.join(w, n) for w, _, names in inside for n in names), top, package.replace(".", "/"))


def _package_digest(name: str) -> str:
    """One sha256 of a package, or of a module that stands alone."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return "not found"
    origin = Path(spec.origin)
    return digest_of(_package_files(name)) if origin.name == "__init__.py" else file_digest(origin)


def digest_files(files: Iterable[Path | str], folder: Path, prefix: str) -> dict[str, str]:
    """sha256 of files, by `prefix/` and the path below `folder`, in that order."""
    named = {prefix + str(file).removeprefix(str(folder)).replace(os.sep, "/"): file for file in files}
    return {name: file_digest(named[name]) for name in sorted(named)}


def file_digest(file: Path | str) -> str:
    """sha256 of a file, which may be larger than memory. Raises OSError when it cannot be read."""
    with open(file, "rb", buffering=0) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def digest_of(sources: Mapping[str, str]) -> str:
    """One digest of many: of the lines `sha256  path`."""
    text = "".join(f"{digest}  {name}\n" for name, digest in sorted(sources.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the suite's package {package} is not installed")
    return Path(spec.origin).parent
