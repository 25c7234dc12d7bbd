"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing. Raises OSError, NotADirectoryError where a file stands."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None


def check_place(path: Path, is_folder: bool = False) -> None:
    """Raise the OSError that writing a file or a folder would end with, as far as that can be seen before.

    What is missing above it can be made. What a folder's own place holds is not looked at.
    """
    if not is_folder and path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    above = next(folder for folder in path.absolute().parents if os.path.lexists(folder))
    if not above.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(above))
    if not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(above))


@contextmanager
def replacing(*paths: Path) -> Iterator[tuple[Path, ...]]:
    """Give names of drafts beside these paths. The body writes the drafts, which then take their places, in order.

    Folders that are missing are made.

    Whatever is raised, by the body or on the way, no draft is left. Raises OSError when a path cannot be replaced:
    a folder, or a device such as /dev/null, which a file must not take the place of.
    """
    for path in paths:
        check_place(path)
        make_folder(path.parent)
    drafts = tuple(path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in paths)
    try:
        yield drafts
        for draft, path in zip(drafts, paths, strict=True):
            draft.replace(path)
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)


def write_synced(path: Path, data: bytes) -> None:
    """Write a file through to the disk, so that a disk that takes no more says so here. Raises OSError."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_whole(path: Path, data: bytes) -> None:
    """Put a file in its place, or leave what is there. Raises OSError when the disk does not take it."""
    with replacing(path) as (draft,):
        write_synced(draft, data)
