"""Memory in use by a process and all that it started, as another process sees it. Nothing is known but on Linux."""

from __future__ import annotations

import os
from contextlib import suppress

from npu_assay.conformance.isolation.leaks import running
from npu_assay.conformance.isolation.limits import LINUX

KIBI = 2**10
BLOCK = 512  # bytes, of st_blocks
HELD = ("/memfd:", "/dev/shm/")  # files whose contents are memory


def tree(process: int) -> list[int]:
    """A process and those below it."""
    below: dict[int, list[int]] = {}
    for each, parent in running():
        below.setdefault(parent, []).append(each)
    found = [process]
    for each in found:
        found += below.get(each, [])
    return found


def taken(process: int, loaded: int) -> int:
    """Bytes in use by a process beyond the `loaded` ones, by those below it, and in the files in memory they have open.

    Of pages that several processes share, each below has its part: a fork of a large process takes little by itself.
    A page of a file in memory that is mapped as well counts once.
    """
    if not LINUX:
        return 0
    processes = tree(process)
    own = _fields(f"/proc/{process}/status", ("RssAnon", "RssFile", "RssShmem"))
    below = [_fields(f"/proc/{each}/smaps_rollup", ("Pss", "Pss_Shmem")) for each in processes[1:]]
    shared = own["RssShmem"] + sum(each["Pss_Shmem"] for each in below)
    private = own["RssAnon"] + own["RssFile"] + sum(each["Pss"] - each["Pss_Shmem"] for each in below)
    return private - loaded + max(shared, _in_files(processes))


def _fields(path: str, names: tuple[str, ...]) -> dict[str, int]:
    """Sizes in bytes by name; 0 for those that cannot be read, as of a process that has just ended."""
    found = dict.fromkeys(names, 0)
    with suppress(OSError), open(path, "rb", buffering=0) as file:
        for line in file.read(2**14).decode("ascii", "replace").splitlines():
            name, _, value = line.partition(":")
            if name in found:
                found[name] = int(value.split()[0]) * KIBI
    return found


def _in_files(processes: list[int]) -> int:
    """What files in memory hold, mapped or not, each once."""
    found: dict[tuple[int, int], int] = {}
    for process in processes:
        with suppress(OSError):
            for name in os.listdir(f"/proc/{process}/fd"):
                path = f"/proc/{process}/fd/{name}"
                with suppress(OSError):  # closed since
                    if os.readlink(path).startswith(HELD):
                        status = os.stat(path)
                        found[status.st_dev, status.st_ino] = status.st_blocks * BLOCK
    return sum(found.values())
