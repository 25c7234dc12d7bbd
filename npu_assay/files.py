"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(*paths: Path) -> Iterator[tuple[Path, ...]]:
    """Give names of drafts beside these paths. The body writes the drafts, which then take their places, in order.

    Whatever is raised, by the body or on the way, no draft is left. Raises OSError when a path cannot be replaced:
    a folder, or a device such as /dev/null, which a file must not take the place of.
    """
    for path in paths:
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "not a regular file", str(path))
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
