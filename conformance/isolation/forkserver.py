"""The process that loads the backend once, and forks a runner whenever it is asked to.

So a runner that dies costs a fork and not the loading of torch, and the process of the run never imports the backend.
No table and no case is loaded here: what runners are asked comes from the judge, question by question.
"""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import json
import os
import select
import signal
import socket
import sys
import tempfile
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from npu_assay.conformance.backend.info import About, about
from npu_assay.conformance.backend.loading import BackendSpecError
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.devices import gather
from npu_assay.conformance.devices.place import HERE, Place, load_placed
from npu_assay.conformance.isolation import runner
from npu_assay.conformance.isolation.forking import fork
from npu_assay.conformance.isolation.imports import unchanged
from npu_assay.conformance.isolation.leaks import children, end_children
from npu_assay.conformance.isolation.limits import Limits, adopt_orphans, end
from npu_assay.conformance.isolation.privileges import give_up_capabilities
from npu_assay.conformance.isolation.wire import Wire

RUN, READY, KILL, ENDED, LOADED, REFUSED = "run", "ready", "kill", "ended", "loaded", "refused"
ASK = "ask"  # a number, which comes back: the forkserver was there after it had been sent
ENDS = 2  # of connections to its judge that go to a runner: its own, and that of the process beside it
FILES = 3  # that go with them
WAITS = 20  # calls of a device that a case may wait for


@dataclass(frozen=True)
class Subject:
    """What runners are forked for: a backend's spec, the names of blob checks, a case's limits, where programs run."""

    backend: str
    tools: tuple[str, ...]
    limits: Limits
    place: Place = HERE

    @property
    def patience(self) -> Limits:
        """A case's limits. Behind a command, which has its own, a case waits while others are answered."""
        waits = WAITS * (self.place.call + self.place.case) if self.place.device else 0.0
        return replace(self.limits, seconds=max(self.limits.seconds, waits))


def serve(end: socket.socket, subject: Subject) -> None:
    """Run the forkserver until the other end of the connection closes."""
    _Forkserver(Wire(end), subject).serve()


@dataclass
class _Forkserver:
    wire: Wire
    subject: Subject
    process: int = field(default_factory=os.getpid)
    kept: frozenset[int] = frozenset()  # processes that live as long as this one

    def serve(self) -> None:
        """Load the backend, report that, then fork runners until the run closes the connection."""
        os.setsid()
        adopt_orphans()
        faulthandler.disable()  # how a process died is in the report; where, only a debugger shows in the same words
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        _silence()
        give_up_capabilities()
        try:
            work = self._load()
        except UsageError as error:
            self.wire.send({REFUSED: str(error), "type": type(error).__name__})
            return
        # Runners share these pages as long as nobody writes to them; and the collector need not look there.
        gc.freeze()
        self._fork_on_demand(work)

    def _load(self) -> runner.Work:
        torch.set_num_threads(1)
        with unchanged(self.subject.backend):
            told = self._about()
        self.wire.send({LOADED: vars(told), "process": self.process})
        backend = load_placed(self.subject.backend, self.subject.place)
        gathering = gather.start(backend.runtime)
        self.kept = frozenset() if gathering is None else frozenset({gathering})
        return runner.Work(backend, self.subject.limits)

    def _about(self) -> About:
        """Load the backend. A fork of this process that the backend made, and that returns here, is ended."""
        try:
            return about(self.subject.backend, self.subject.tools, self.subject.place)
        finally:
            if os.getpid() != self.process:
                os._exit(1)

    def _fork_on_demand(self, work: runner.Work) -> None:
        runners = set[int]()
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        while not self.wire.closed:
            select.select([self.wire.socket.fileno(), reading], [], [])
            if select.select([reading], [], [], 0)[0]:
                os.read(reading, 512)
            self._reap(runners)
            if not select.select([self.wire.socket], [], [], 0)[0]:
                continue
            data, descriptors, _, _ = socket.recv_fds(self.wire.socket, 512, ENDS + FILES)
            if not data:
                break
            for line in data.decode().splitlines():
                self._obey(json.loads(line), list(descriptors), runners, work)
        end_children()

    def _obey(self, order: dict[str, Any], descriptors: list[int], runners: set[int], work: runner.Work) -> None:
        if order.get(KILL) in runners:
            end(order[KILL])
        if ASK in order:
            self.wire.send(order)
        if RUN in order:
            ours = self.wire.socket

            def action() -> None:
                signal.set_wakeup_fd(-1)
                ours.close()
                judge, clean_judge = (socket.socket(fileno=number) for number in descriptors[:ENDS])
                runner.serve(judge, clean_judge, descriptors[ENDS:], work)

            runners.add(started := fork(action))
            for descriptor in descriptors:
                os.close(descriptor)
            self.wire.send({READY: started})

    def _reap(self, runners: set[int]) -> None:
        """Tell the run which runners ended, and end what they left behind."""
        while runners or children() - self.kept:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not process:
                return
            end(process)  # the rest of its group
            if process in runners:
                runners.discard(process)
                end_children(but=runners | self.kept)
                self.wire.send({ENDED: process, "status": os.waitstatus_to_exitcode(status)})


def _silence() -> None:
    """Discard what the backend prints while it is imported, and give it no terminal to read."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    sys.stdin, sys.stdout, sys.stderr = runner.streams()


def files() -> list[int]:
    """Unnamed files for a runner's stage, stdout and stderr. Raises OSError, and then leaves none open."""
    opened = list[int]()
    try:
        for name in ("stage", "stdout", "stderr"):
            opened.append(_file(name))
    except OSError:
        for file in opened:
            os.close(file)
        raise
    return opened


def _file(name: str) -> int:
    if hasattr(os, "memfd_create"):
        file = os.memfd_create(name)
    else:
        with tempfile.TemporaryFile() as temporary:
            file = os.dup(temporary.fileno())
    if name != "stage":  # which is written from its beginning every time
        fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
    return file


def refusal(message: dict[str, Any]) -> UsageError:
    """The error that a forkserver reported, as the run raises it."""
    kind = BackendSpecError if message["type"] == BackendSpecError.__name__ else UsageError
    return kind(message[REFUSED])
