"""Packs the folder of a run into an archive, if `verify` finds no problem in it."""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass
from pathlib import Path

from npu_assay.conformance.record.archive import MEMBERS, archive_bytes
from npu_assay.conformance.record.folder import check_target, writing
from npu_assay.conformance.record.names import PackageError
from npu_assay.conformance.record.read import read_folder
from npu_assay.conformance.verify.verification import Verification, verify_contents
from npu_assay.files import write_whole


@dataclass(frozen=True)
class Packed:
    """What was packed, or why nothing was: the problems of the folder. size in bytes."""

    verification: Verification
    files: tuple[str, ...] = ()
    size: int = 0
    sha256: str = ""


def pack(folder: Path, target: Path, today: datetime.date) -> Packed:
    """Write the archive of a folder, unless verifying the folder finds problems. Failing cases are not problems.

    Raises PackageError when there is no folder of a run, or when the archive cannot be written.
    """
    if not folder.is_dir():
        raise PackageError(f"{folder}: {'found a file' if folder.exists() else 'no such folder'}, expected a folder")
    contents = read_folder(folder)
    if not contents.files:
        raise PackageError(f"{folder}: no run has written here, expected a folder of 'assay certify'")
    check_target(folder, target)
    verification = verify_contents(contents, today)
    if verification.problems:
        return Packed(verification)
    files = {name: contents.files[name] for name in MEMBERS if name in contents.files}
    data = archive_bytes(files)
    with writing(target):
        write_whole(target, data)
    return Packed(verification, tuple(sorted(files)), len(data), hashlib.sha256(data).hexdigest())
