"""The files of a run, read from its folder or from an archive of it. Neither is trusted, so all sizes are limited."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from npu_assay.conformance.record.archive import read_archive
from npu_assay.conformance.record.names import CERTIFICATE, LIMITS, Contents, PackageError
from npu_assay.files import read_regular


def read_contents(path: Path) -> Contents:
    """Read a folder, or an archive of `assay package`.

    Raises PackageError when there is none, when it is not of a run, or when it is larger than any run's.
    """
    contents = read_folder(path) if path.is_dir() else read_archive(path)
    if not contents.files and not contents.problems:
        raise PackageError(f"{path}: no run has written here, expected a folder of 'assay certify' ({CERTIFICATE})")
    return contents


def read_folder(folder: Path, names: Iterable[str] = LIMITS) -> Contents:
    """The files of a run in a folder, or those of the given names; other files are ignored.

    Raises PackageError when one cannot be read.
    """
    files = {}
    for name in names:
        path = folder / name
        try:
            files[name] = read_regular(path, LIMITS[name])
        except FileNotFoundError:
            continue
        except OSError as error:
            raise PackageError(f"incomplete: {path} is unreadable ({error.strerror})") from error
    return Contents(str(folder), files)
