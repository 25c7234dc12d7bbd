"""The limits of time and memory for a case, and the system calls that enforce them."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from dataclasses import dataclass

from npu_assay.conformance.common.describing import message

SECONDS, MEBIBYTES = 120.0, 4096
MEBI = 2**20
LINUX = sys.platform == "linux"
_DIE_WITH_PARENT, _ADOPT_ORPHANS = 1, 36  # prctl(2): PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER
_REFUSED = ("can't allocate memory", "not enough memory", "bad_alloc", "Cannot allocate memory")


@dataclass(frozen=True)
class Limits:
    """The limits of one case. seconds: processor time (`stopwatch`). mebibytes: memory beyond the loaded backend's."""

    seconds: float = SECONDS
    mebibytes: int = MEBIBYTES

    def __str__(self) -> str:
        return f"{self.seconds:g} s and {self.mebibytes} MiB a case"

    @property
    def too_long(self) -> str:
        return f"no answer in {self.seconds:g} s"

    @property
    def too_much(self) -> str:
        return f"needs more than {self.mebibytes} MiB"


LIMITS = Limits()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory could not be allocated."""
    return isinstance(error, MemoryError) or any(text in message(error) for text in _REFUSED)


def limit_memory(mebibytes: int) -> None:
    """Limit this process's private memory to what it has now and `mebibytes` more; only on Linux.

    The address space is not limited: libraries map much of it and never touch it.
    """
    if LINUX:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        soft = _pages("self", 5) * resource.getpagesize() + mebibytes * MEBI
        resource.setrlimit(resource.RLIMIT_DATA, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def resident(process: int) -> int:
    """Resident memory of a process in bytes; 0 if that is not known."""
    return _pages(str(process), 1) * resource.getpagesize() if LINUX else 0


def _pages(process: str, column: int) -> int:
    try:
        with open(f"/proc/{process}/statm", "rb", buffering=0) as file:
            return int(file.read(200).split()[column])
    except (OSError, IndexError):  # it has just ended
        return 0


def is_stopped(process: int) -> bool:
    """Whether a process was stopped by a signal; False if that is not known."""
    try:
        with open(f"/proc/{process}/stat", "rb", buffering=0) as file:
            return file.read(400).rpartition(b")")[2].split()[:1] in ([b"T"], [b"t"])
    except OSError:
        return False


def die_with_parent() -> None:
    """Have this process killed when its parent ends, where the system supports that."""
    _control(_DIE_WITH_PARENT, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent ends, where the system supports that."""
    _control(_ADOPT_ORPHANS, 1)


def _control(option: int, value: int) -> None:
    if LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def end(process: int) -> None:
    """Kill a process and its process group, if it leads one."""
    for kill in (os.killpg, os.kill):
        try:
            kill(process, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
