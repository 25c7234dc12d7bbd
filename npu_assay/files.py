"""Files: read within a bound, written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def read_regular(path: Path, most: int, below: Path | None = None) -> bytes:
    """Read a file of at most `most` bytes, whoever made it.

    below: the folder that it has to be in, also where a link leads elsewhere; for names that stand in a file. Nothing
    that is no regular file is read or waited for. Raises OSError, whose `strerror` says what was found.
    """
    real = path if below is None else _inside(path, below)
    more = os.O_NONBLOCK | (0 if below is None else os.O_NOFOLLOW)
    with open(real, "rb", opener=lambda name, flags: os.open(name, flags | more)) as file:
        size = check_regular(file.fileno(), most)
        data = file.read(size + 1)
        if len(data) > size:  # it grows meanwhile, or is of /proc, where none has a size
            data += file.read(most + 1 - len(data))
    if len(data) > most:
        raise OSError(errno.EFBIG, f"found more than {most} bytes, expected at most {most}")
    return data


def check_regular(file: int, most: int) -> int:
    """Return the bytes of an open file. Raises OSError unless it is a regular one of at most `most`."""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        kind = KINDS.get(stat.S_IFMT(found.st_mode), "a device")
        raise OSError(errno.EINVAL, f"found {kind}, expected a regular file")
    if found.st_size > most:
        raise OSError(errno.EFBIG, f"found {found.st_size} bytes, expected at most {most}")
    return found.st_size


def _inside(path: Path, folder: Path) -> Path:
    """The path without links. Raises OSError for one that is not below the folder."""
    real = path.resolve()
    if not real.is_relative_to(folder.resolve()):
        raise OSError(errno.EPERM, "found a file outside of the folder, expected one in it")
    return real


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
