"""Memory of a process and its descendants, measured from another process; only on Linux."""

from __future__ import annotations

import os
from contextlib import suppress

from npu_assay.conformance.isolation.leaks import running
from npu_assay.conformance.isolation.limits import LINUX

KIBI = 2**10
BLOCK = 512  # bytes, of st_blocks
HELD = ("/memfd:", "/dev/shm/")  # files whose contents are memory


def tree(process: int) -> list[int]:
    """The ids of a process and its descendants."""
    below: dict[int, list[int]] = {}
    for each, parent in running():
        below.setdefault(parent, []).append(each)
    found = [process]
    for each in found:
        found += below.get(each, [])
    return found


def taken(process: int, loaded: int) -> int:
    """Bytes used by a process beyond `loaded`, by its descendants, and by the in-memory files that they have open.

    A page that several processes share counts in part for each descendant, so a fork of a large process counts little.
    A page of an in-memory file that is also mapped counts once.
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
    """Sizes in bytes by name; 0 for those that cannot be read, such as those of a process that has just ended."""
    found = dict.fromkeys(names, 0)
    with suppress(OSError), open(path, "rb", buffering=0) as file:
        for line in file.read(2**14).decode("ascii", "replace").splitlines():
            name, _, value = line.partition(":")
            if name in found:
                found[name] = int(value.split()[0]) * KIBI
    return found


def _in_files(processes: list[int]) -> int:
    """Bytes in the in-memory files of processes, mapped or not, each file once."""
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
