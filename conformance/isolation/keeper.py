"""A process above the forkserver that runs nothing of the backend: it ends whatever the forkserver leaves.

Daemons of a backend would outlive a forkserver that was killed, and a forkserver that was stopped would outlive
the run.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable

from npu_assay.conformance.isolation.forking import close_files, fork
from npu_assay.conformance.isolation.leaks import GRACE, end_children
from npu_assay.conformance.isolation.limits import adopt_orphans, end

LOOK = 0.2  # seconds between two looks at the forkserver where the system does not tell of its end


def keep(action: Callable[[], object], watched: int) -> None:
    """Do something in a kept process, until it ends or what was written to or closed at the other end of `watched` is.

    This process then ends as the kept one ended, when nothing is left of it.
    """
    os.setsid()
    adopt_orphans()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    kept = fork(action)
    close_files(but={watched})  # the forkserver's connection among them, which would not end otherwise
    _end_like(_kept_until(kept, watched))


def _kept_until(process: int, watched: int) -> int:
    """Wait for the process, or for the end of who has the other end of the pipe; then end all. Its exit code."""
    files = [watched]
    if sys.platform == "linux":
        files.append(os.pidfd_open(process))
    ready, ended, status = list[int](), 0, 0
    while not ended and watched not in ready:
        ready, _, _ = select.select(files, [], [], None if len(files) > 1 else LOOK)
        ended, status = os.waitpid(process, os.WNOHANG)
    deadline = time.monotonic() + GRACE
    while not ended and time.monotonic() < deadline:  # who is asked to end may do so by itself
        time.sleep(0.002)
        ended, status = os.waitpid(process, os.WNOHANG)
    if not ended:
        end(process)
        _, status = os.waitpid(process, 0)
    end_children()
    return os.waitstatus_to_exitcode(status)


def _end_like(code: int) -> None:
    """End by the same signal, or with the same exit code."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
