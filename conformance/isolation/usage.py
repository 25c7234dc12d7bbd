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


def taken(process: int, loaded: int, enough: int = 0) -> int:
    """Bytes used by a process beyond `loaded`, by its descendants, and by the in-memory files that they have open.

    A page that several processes share counts in part for each descendant, so a fork of a large process counts little.
    A page of an in-memory file that is also mapped counts once. The system counts shares page by page, so it is not
    asked where whole pages make no more than `enough`: then they are the answer.
    """
    if not LINUX:
        return 0
    processes = tree(process)
    files = _in_files(processes)
    own, *below = map(_whole, processes)
    most = _sum([own, *below], files) - loaded
    return most if most <= enough else _sum([own, *map(_in_part, processes[1:])], files) - loaded


def _sum(sizes: list[tuple[int, int]], files: int) -> int:
    """The bytes of all processes, given as (private, shared), with those in their files."""
    return sum(private for private, _ in sizes) + max(sum(shared for _, shared in sizes), files)


def _whole(process: int) -> tuple[int, int]:
    """The bytes of its pages, and of those in shared memory, however many processes share them."""
    found = _fields(f"/proc/{process}/status", ("RssAnon", "RssFile", "RssShmem"))
    return found["RssAnon"] + found["RssFile"], found["RssShmem"]


def _in_part(process: int) -> tuple[int, int]:
    """The same, each page divided by the processes that share it."""
    found = _fields(f"/proc/{process}/smaps_rollup", ("Pss", "Pss_Shmem"))
    return found["Pss"] - found["Pss_Shmem"], found["Pss_Shmem"]


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
