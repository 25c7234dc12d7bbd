"""Several files, or a folder, put in their places whole or not at all; members of archives within their sizes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from zipfile import BadZipFile, ZipFile, ZipInfo

from npu_assay.files import make_folder, replacing, write_synced


def write_all(files: Mapping[Path, str]) -> None:
    """Put these texts in their places, in order; until all are written, what is there is left. Raises OSError."""
    with replacing(*files) as drafts:
        for draft, text in zip(drafts, files.values(), strict=True):
            write_synced(draft, text.encode())


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give a draft of a folder, beside it, which takes its place after the body or, whatever is raised, is removed."""
    make_folder(folder.parent)
    draft = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(draft, ignore_errors=True)  # of a process with this number that was killed
    draft.mkdir()
    try:
        yield draft
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft)
        raise


def unpacked(archive: ZipFile, info: ZipInfo) -> bytes:
    """A member's bytes, of which no more are read than it says. Raises BadZipFile where it says another number."""
    with archive.open(info) as member:
        data = member.read(info.file_size + 1)
    if len(data) != info.file_size:
        raise BadZipFile(f"{len(data)} bytes, expected {info.file_size}")
    return data
