"""NXP's releases of operator support that this backend knows, and which of them a compile spec names."""

from __future__ import annotations

from typing import Final

FIRST: Final = "1.3"
RELEASES: Final = (FIRST, "1.4")
"""By the ExecuTorch release that published the table, oldest first."""


def checked_release(release: object) -> str:
    """The release itself. Raises ValueError for one that is not known."""
    if not isinstance(release, str) or release not in RELEASES:
        raise ValueError(f"release: found {release!r}, expected one of {list(RELEASES)}")
    return release


def is_in(since: str, release: str) -> bool:
    """Whether a release is the one that something came with, or a later one."""
    return RELEASES.index(since) <= RELEASES.index(release)
