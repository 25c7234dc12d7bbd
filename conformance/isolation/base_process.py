"""The process from which forkservers are forked: it has loaded torch and the code of runners, and nothing else.

A forkserver that was forked from the run would have the run's memory: tables, cases, goldens. So each process that runs
cases forks this process before it loads any of these, or starts it anew. It forks a keeper with its forkserver for each
request, and ends with the process that made it.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.memory import many_records
from npu_assay.conformance.isolation.forking import close_files, fork
from npu_assay.conformance.isolation.frames import SIZE, exactly
from npu_assay.conformance.isolation.judging import GOLDENS, JUDGES, is_loaded, leave_out
from npu_assay.conformance.isolation.leaks import end_children
from npu_assay.conformance.isolation.limits import Limits, adopt_orphans, end
from npu_assay.conformance.isolation.usage import tree
from npu_assay.conformance.isolation.wire import Wire

PASSED = 3  # files that come with a request
PATIENCE = 20.0  # seconds in which a keeper ends what is below it


@dataclass
class Kept:
    """A forkserver's keeper: closing `held` ends all, `status` tells how the forkserver ended."""

    held: int
    status: int

    def end(self) -> int:
        """End the forkserver and all that came of it; returns how it ended, 0 when it was ended before."""
        held, status, self.held, self.status = self.held, self.status, -1, -1
        if held < 0:
            return 0
        with suppress(BrokenPipeError):  # it has ended
            os.write(held, b"x")  # closing alone says nothing while a copy of this process has it open
        os.close(held)
        with os.fdopen(status, "rb") as file:
            if not select.select([file], [], [], PATIENCE)[0]:  # a backend has stopped those in between
                _end_all()
            text = file.read()
        return int(text) if text else -signal.SIGKILL


# ------------------------------------------------------------------------------------ in the run


@dataclass
class _Origin:
    """The process as the run sees it. used: whether it was ever asked for a forkserver."""

    process: int
    end: socket.socket
    used: bool = False

    def lives(self) -> bool:
        """Whether the process still runs."""
        if self.process and os.waitpid(self.process, os.WNOHANG)[0]:
            self.process = 0
        return bool(self.process)


_STARTED: dict[int, _Origin] = {}  # by the process that started it


def warm() -> None:
    """Start the process, unless it runs.

    It is a fork of this process as long as nothing that judges is loaded here, so torch is loaded once for both. Later
    it is a new interpreter.
    """
    if _running() is None:
        ours, theirs = socket.socketpair()
        with theirs:
            process = fork(_anew(ours, theirs) if is_loaded((*JUDGES, *GOLDENS)) else _as_it_is(ours, theirs))
        _STARTED[os.getpid()] = _Origin(process, ours)


def _as_it_is(ours: socket.socket, theirs: socket.socket) -> Callable[[], None]:
    """A fork keeps the loaded modules, and no garbage collection visits them again in either process."""
    with many_records():
        from npu_assay.conformance.isolation import forkserver  # noqa: F401  (before the copy is made)
    gc.freeze()

    def action() -> None:
        _leave(ours, theirs)
        main(theirs.detach())

    return action


def _anew(ours: socket.socket, theirs: socket.socket) -> Callable[[], None]:
    """The action of a fork that starts a new interpreter."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    program = [sys.executable, "-P", "-m", "npu_assay.conformance.isolation.base_process", str(theirs.fileno())]

    def action() -> None:
        _leave(ours, theirs)
        theirs.set_inheritable(True)
        os.execve(sys.executable, program, {**os.environ, "PYTHONPATH": path})

    return action


def _leave(ours: socket.socket, theirs: socket.socket) -> None:
    """Detach from the terminal and close the files of the run."""
    ours.close()
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    close_files({theirs.fileno()})


@atexit.register
def _end() -> None:
    """End the process that this one started; one that was never used and is still loading is killed."""
    origin = _STARTED.pop(os.getpid(), None)
    if origin is None:
        return
    origin.end.close()
    if origin.lives():
        if not origin.used:
            os.kill(origin.process, signal.SIGKILL)
        os.waitpid(origin.process, 0)


def _end_all() -> None:
    """End the process, even if it is stopped, and all its descendants."""
    origin = _STARTED.get(os.getpid())
    for process in reversed(tree(origin.process)) if origin is not None and origin.process else ():
        end(process)


def _running() -> _Origin | None:
    origin = _STARTED.get(os.getpid())
    return origin if origin is not None and origin.lives() else None


def start(subject: Any) -> tuple[Kept, Wire]:
    """A forkserver for a subject, and the connection to it. Raises UsageError when no process starts."""
    ours, theirs = socket.socketpair()
    watched, held = os.pipe()
    status, telling = os.pipe()
    request = {"subject": asdict(subject), "path": sys.path, "folder": os.getcwd(), "environment": dict(os.environ)}
    try:
        _send(json.dumps(request).encode(), [theirs.fileno(), watched, telling])
    finally:
        theirs.close()
        os.close(watched)
        os.close(telling)
    return Kept(held, status), Wire(ours)


def _send(message: bytes, files: list[int]) -> None:
    for _ in range(2):  # a backend may have ended the one that there was
        warm()
        origin = _STARTED[os.getpid()]
        with suppress(OSError):
            origin.used = True
            socket.send_fds(origin.end, [len(message).to_bytes(SIZE, "big")], files)
            origin.end.sendall(message)
            return
    raise UsageError("cannot start the process that backends are loaded in")


# ------------------------------------------------------------------------------------ the process itself


def main(number: int) -> None:
    """Fork a forkserver for each request, until the run ends."""
    import torch  # once, for all forkservers

    from npu_assay.conformance.isolation import forkserver  # what all forkservers need is loaded here, once

    torch.set_num_threads(1)
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_IGN)
    with socket.socket(fileno=number) as requests:
        while True:
            size, files, _, _ = socket.recv_fds(requests, SIZE, PASSED)
            text = exactly(requests, int.from_bytes(size, "big"))
            if not size or text is None:
                break
            _reap(os.WNOHANG)
            fork(partial(_between, json.loads(text), files, forkserver.serve))
            for file in files:
                os.close(file)
    _reap(0)


def _reap(flags: int) -> None:
    """Reap the processes between the run and its keepers, so that their processor time counts as the run's."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, flags)[0]:
            continue


def _between(request: dict[str, Any], files: list[int], serve: Callable[[socket.socket, Any], None]) -> None:
    """Fork a keeper and its forkserver, wait for the keeper, and tell how it ended."""
    from npu_assay.conformance.isolation import reaper  # by each new process

    end, watched, telling = files
    adopt_orphans()

    def kept() -> None:
        os.close(telling)
        os.close(watched)
        serve(socket.socket(fileno=end), _subject(request))

    process = fork(lambda: reaper.keep(kept, watched))
    close_files({telling})
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    end_children()
    os.write(telling, str(status).encode())


def _subject(request: dict[str, Any]) -> Any:
    """The forkserver's subject, after taking over the run's folder, environment and path, without what judges."""
    from npu_assay.conformance.adapters import adapted  # loads torch
    from npu_assay.conformance.devices.place import Place
    from npu_assay.conformance.isolation.forkserver import Subject

    sys.path[:] = request["path"]
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    told = request["subject"]
    leave_out(JUDGES if adapted(told["backend"]) else (*JUDGES, *GOLDENS))
    return Subject(told["backend"], tuple(told["tools"]), Limits(**told["limits"]), Place(**told["place"]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
