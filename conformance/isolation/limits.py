"""How long a case may take and how much memory it may add, and the system calls that see to it."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from dataclasses import dataclass

SECONDS, MEBIBYTES = 120.0, 4096
MEBI = 2**20
LINUX = sys.platform == "linux"
_DIE_WITH_PARENT, _ADOPT_ORPHANS = 1, 36  # prctl(2): PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER
_REFUSED = ("can't allocate memory", "not enough memory", "bad_alloc", "Cannot allocate memory")


@dataclass(frozen=True)
class Limits:
    """Of one case. seconds: of the clock on the wall. mebibytes: memory that it may take beyond what is loaded."""

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
    """Whether an exception says that memory was refused."""
    return isinstance(error, MemoryError) or any(text in str(error) for text in _REFUSED)


def limit_memory(mebibytes: int) -> None:
    """Refuse this process private memory beyond what it has now and so much more. Does nothing but on Linux.

    Not address space: libraries map much of that and never touch it.
    """
    if LINUX:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        soft = _pages("self", 5) * resource.getpagesize() + mebibytes * MEBI
        resource.setrlimit(resource.RLIMIT_DATA, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def resident(process: int) -> int:
    """Memory in use by a process, in bytes; 0 where that is not known."""
    return _pages(str(process), 1) * resource.getpagesize() if LINUX else 0


def _pages(process: str, column: int) -> int:
    try:
        with open(f"/proc/{process}/statm", "rb", buffering=0) as file:
            return int(file.read(200).split()[column])
    except (OSError, IndexError):  # it has just ended
        return 0


def is_stopped(process: int) -> bool:
    """Whether a process was stopped by a signal; False where that is not known."""
    try:
        with open(f"/proc/{process}/stat", "rb", buffering=0) as file:
            return file.read(400).rpartition(b")")[2].split()[:1] in ([b"T"], [b"t"])
    except OSError:
        return False


def die_with_parent() -> None:
    """End this process with the one that forked it, where the system can do that."""
    _control(_DIE_WITH_PARENT, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants that lose theirs, where the system can do that."""
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
