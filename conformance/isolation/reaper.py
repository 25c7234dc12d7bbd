"""The parent process of the forkserver, which never loads the backend: it ends all processes that the backend leaves.

Without it, daemons of a backend would outlive a killed forkserver, and a stopped forkserver would outlive the run.
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
    """Run an action in a child process until that ends, or until `watched` becomes readable or its other end closes.

    Then all descendants are ended, and this process ends with the child's signal or exit code.
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
    """Wait for the process or for the other end of `watched`, then end all descendants; returns the exit code."""
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
    """End this process by the same signal, or with the same exit code."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
