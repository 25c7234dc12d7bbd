"""Processes and threads that a case leaves running."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Set

from npu_assay.conformance.isolation.limits import end

GRACE = 1.0  # seconds in which what was told to end may end
PATIENCE = 10.0  # seconds for processes that were killed


def children() -> frozenset[int]:
    """The running child processes of this one, without zombies."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return frozenset()
    try:
        found = frozenset(int(pid) for task in os.listdir(_TASKS) for pid in _read(f"{_TASKS}/{task}/children").split())
    except OSError:  # a system without these lists, or a thread that has just ended
        return frozenset(pid for pid, parent in running() if parent == os.getpid())
    return frozenset(pid for pid in found if _parent(pid) is not None)


_TASKS = "/proc/self/task"


def end_children(but: Set[int] = frozenset()) -> None:
    """Kill the child processes of this one except `but`, and the orphans that they leave, until none is left.

    If this process adopts orphans, that ends all its descendants. A process that the system cannot end is left.
    """
    deadline = time.monotonic() + PATIENCE
    while (found := children() - but) and time.monotonic() < deadline:
        for process in found:
            end(process)
        while any(_is_child(process) for process in found) and time.monotonic() < deadline:
            time.sleep(0.001)


def _is_child(process: int) -> bool:
    """Whether the process is a running child of this one; one that has ended is reaped."""
    try:
        return os.waitpid(process, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def running() -> list[tuple[int, int]]:
    """All processes as (process id, parent's id); empty without /proc."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    found = ((int(name), _parent(int(name))) for name in names if name.isdigit())
    return [(pid, parent) for pid, parent in found if parent is not None]


def _parent(process: int) -> int | None:
    """The parent of a process; None if it has ended."""
    try:
        state, parent = _read(f"/proc/{process}/stat").rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):  # it has just been waited for
        return None
    return None if state == b"Z" else int(parent)


def _read(path: str) -> bytes:
    """The content of a small file in /proc, read as bytes: reading it as text takes ten times as long."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, 2**16)
    finally:
        os.close(file)


def threads() -> frozenset[int]:
    """The threads of this process that run Python. Pools of native libraries live as long as the process."""
    return frozenset(sys._current_frames())


def left(now: Callable[[], frozenset[int]], before: frozenset[int], allowed: int = 0) -> frozenset[int]:
    """New ids that outlive the grace period; empty if there are at most `allowed`."""
    deadline = time.monotonic() + GRACE
    while len(found := now() - before) > allowed:
        if time.monotonic() > deadline:
            return found
        time.sleep(0.01)
    return frozenset()
