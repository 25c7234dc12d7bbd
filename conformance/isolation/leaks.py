"""What a case leaves running: processes and threads."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Set
from pathlib import Path

from npu_assay.conformance.isolation.limits import end

GRACE = 1.0  # seconds in which what was told to end may end
PATIENCE = 10.0  # seconds for processes that were killed


def children() -> frozenset[int]:
    """The running child processes of this one; those that ended, but were not waited for, do not count."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return frozenset()
    return frozenset(pid for pid, parent in running() if parent == os.getpid())


def end_children(but: Set[int] = frozenset()) -> None:
    """Kill the child processes of this one but for some, and whatever those leave behind, until none is left.

    Where orphans come to this process, that is everything below it. What the system does not let end is left.
    """
    deadline = time.monotonic() + PATIENCE
    while (found := children() - but) and time.monotonic() < deadline:
        for process in found:
            end(process)
        while any(_is_child(process) for process in found) and time.monotonic() < deadline:
            time.sleep(0.001)


def _is_child(process: int) -> bool:
    """Whether it still has to be waited for; it is no more when it has ended."""
    try:
        return os.waitpid(process, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def running() -> list[tuple[int, int]]:
    """Processes and their parents. Without /proc there are none."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = entry.read_text(errors="replace").rpartition(")")[2].split()[:2]
        except (OSError, ValueError):  # it has just ended
            continue
        if state != "Z":
            found.append((int(entry.parent.name), int(parent)))
    return found


def threads() -> frozenset[int]:
    """The threads of this process that run Python. Pools of native libraries live as long as the process."""
    return frozenset(sys._current_frames())


def left(now: Callable[[], frozenset[int]], before: frozenset[int], allowed: int = 0) -> frozenset[int]:
    """What is there now, was not before, and stays; none when it is no more than `allowed`."""
    deadline = time.monotonic() + GRACE
    while len(found := now() - before) > allowed:
        if time.monotonic() > deadline:
            return found
        time.sleep(0.01)
    return frozenset()
