"""A process that takes jobs from many runners and calls a device's command for all that wait.

While it calls, other jobs come, and are the next call: so the cost of a call is shared by as many as there are runners.
"""

from __future__ import annotations

import select
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

import torch

from npu_assay.conformance.devices import worker
from npu_assay.conformance.devices.call import Job
from npu_assay.conformance.devices.command import Answer, Command
from npu_assay.conformance.devices.machine import packed
from npu_assay.conformance.devices.placing import command_of
from npu_assay.conformance.isolation.forking import fork
from npu_assay.conformance.isolation.limits import die_with_parent
from npu_assay.partitioners.exir.backend import Runtime

TOGETHER = 0.05  # seconds that the first job of a call waits for others
DOOR = "door"
WAITING = 256  # connections that were not taken yet


def start(runtime: Runtime) -> int | None:
    """Fork a process that calls a runtime's command for all who ask; None where there is no command.

    From then on the runtime asks that process, in whatever process it is itself.
    """
    command = command_of(runtime)
    if command is None:
        return None
    door = str(Path(mkdtemp(dir=command.folder or None)) / DOOR)  # anew, as another such process may have ended
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(door)
    listening.listen(WAITING)

    def action() -> None:
        die_with_parent()
        _Gathering(command, listening).serve()

    process = fork(action)
    listening.close()
    command.door = door
    return process


@dataclass
class _Gathering:
    command: Command
    listening: socket.socket
    asking: dict[socket.socket, bytearray] = field(default_factory=dict)
    waiting: list[tuple[socket.socket, Job]] = field(default_factory=list)

    def serve(self) -> None:
        """Take jobs and answer them, until the process is ended."""
        while True:
            self._listen(None)
            since = time.monotonic()
            while self.waiting and (left := since + TOGETHER - time.monotonic()) > 0:
                self._listen(left)
            if self.waiting:
                self._call()

    def _listen(self, seconds: float | None) -> None:
        """Take what comes."""
        for ready in select.select([self.listening, *self.asking], [], [], seconds)[0]:
            if ready is self.listening:
                wire, _ = self.listening.accept()
                self.asking[wire] = bytearray()
            else:
                self._take(ready)

    def _take(self, wire: socket.socket) -> None:
        found = None
        try:
            block = wire.recv(2**20)
            self.asking[wire] += block
            found = worker.taken(self.asking[wire])
            if found is not None:
                header, (model, *parts) = found
                inputs = map(torch.from_numpy, worker.arrays(header["arrays"], parts))
                self.waiting.append((wire, Job(model, tuple(inputs))))
        except (OSError, ValueError, KeyError):  # a runner that was ended, or a backend that writes here itself
            block = b""
        if not block or found is not None:
            del self.asking[wire]
        if not block:
            wire.close()

    def _call(self) -> None:
        asked, self.waiting = self.waiting, []
        answers = self.command.answers([job for _, job in asked])
        for (wire, _), answer in zip(asked, answers, strict=True):
            with suppress(OSError), wire:
                wire.sendall(_message(answer))


def _message(answer: Answer) -> bytes:
    if isinstance(answer, str):
        return worker.message({"error": answer})
    kinds, numbers = packed(answer)
    return worker.message({"arrays": kinds}, numbers)
