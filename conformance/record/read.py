"""The files of a run, read from its folder or from an archive of it. Neither is trusted: every size is bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from npu_assay.conformance.record.folder import PackageError
from npu_assay.conformance.record.names import ATTESTATION, CERTIFICATE, FUZZ, JOURNAL, REPORTS, RESULTS, TABLE

MIB = 2**20
LIMITS: Mapping[str, int] = {
    CERTIFICATE: 32 * MIB,
    ATTESTATION: 64 * MIB,
    TABLE: MIB,
    RESULTS: 1024 * MIB,
    FUZZ: 1024 * MIB,
    JOURNAL: 1024 * MIB,
    **dict.fromkeys(REPORTS, 256 * MIB),
}
"""The largest size of each file of a run, in bytes: some hundred times what 10,000 cases take."""


@dataclass(frozen=True)
class Contents:
    """What was found: the files of a run by name. problems, notes: of the container itself, as in a Verification."""

    name: str
    files: Mapping[str, bytes]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def text(self, name: str) -> str:
        """A file as text. Raises PackageError when it is missing or not UTF-8."""
        if name not in self.files:
            raise PackageError(f"incomplete: {name} is missing")
        try:
            return self.files[name].decode()
        except UnicodeDecodeError as error:
            raise PackageError(f"{name} is not UTF-8 text at byte {error.start}") from error


def read_contents(path: Path) -> Contents:
    """Read a folder, or an archive of `assay package`.

    Raises PackageError when there is nothing, when it is not of a run, or when it is too large to be.
    """
    from npu_assay.conformance.record.archive import read_archive

    contents = read_folder(path) if path.is_dir() else read_archive(path)
    if not contents.files and not contents.problems:
        raise PackageError(f"{path}: no run has written here, expected a folder of 'assay certify' ({CERTIFICATE})")
    return contents


def read_folder(folder: Path) -> Contents:
    """The files of a run in a folder; others do not matter. Raises PackageError for one that cannot be read."""
    files = {}
    for name, limit in LIMITS.items():
        path = folder / name
        try:
            if not path.is_file():
                continue
            if path.stat().st_size > limit:
                raise PackageError(f"{path}: {path.stat().st_size} bytes, expected at most {limit}")
            files[name] = path.read_bytes()
        except OSError as error:
            raise PackageError(f"incomplete: {path} is unreadable ({error.strerror})") from error
    return Contents(str(folder), files)
