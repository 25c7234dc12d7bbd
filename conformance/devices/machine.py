"""Runs jobs that may crash in a process of their own: if it dies, that is an error here, and the next job gets another.

The process may be of another interpreter, which has neither torch nor this suite (`worker`).
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO, Protocol
from weakref import ref

import torch

from npu_assay.conformance.devices import worker
from npu_assay.conformance.isolation.stopwatch import in_time
from npu_assay.conformance.record.tensor_text import pack

TIMEOUT = 120.0
START = 600.0
"""Seconds that a job, and the start of a process with all it imports, may take."""
GRACE = 2.0  # seconds in which a process that waits for jobs may end by itself
_BLOCK = 2**20


class MachineError(RuntimeError):
    """The job was refused, or its process ended or did not answer in time."""


class Jobs(Protocol):
    """What runs a model on tensors. Raises MachineError."""

    def run(self, model: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]: ...


@dataclass
class Machine:
    """Runs a program, `FILE.py:function` or `module:function`, which takes a model and arrays and returns arrays.

    python: the interpreter; "" for this one. needs: what the program imports, as `adapters.engine.Engine` has it.
    instead: what runs jobs in its place, such as a device behind a command.
    It is a backend's runtime, too: loading gives the blob itself, which the process keeps or loads for every run.
    """

    program: str
    timeout: float = TIMEOUT
    python: str = ""
    needs: tuple[tuple[str, str], ...] = ()
    instead: Jobs | None = None
    versions: dict[str, str] = field(default_factory=dict, repr=False)
    _child: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _wire: socket.socket | None = field(default=None, repr=False)
    _came: bytearray = field(default_factory=bytearray, repr=False)
    _said: IO[bytes] = field(default_factory=TemporaryFile, repr=False)
    _number: int = 0

    def load(self, processed_bytes: bytes, compile_specs: object = ()) -> bytes:
        return processed_bytes

    def run(self, handle: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs. Raises MachineError; its message is the same for the same job."""
        if self.instead is not None:
            return self.instead.run(handle, inputs)
        if self._child is None or self._child.poll() is not None:
            self.start()
        self._number += 1
        kinds, parts = packed(inputs)
        job = worker.message({"number": self._number, "arrays": kinds}, [bytes(handle), *parts])
        header, numbers = self._answer(self.timeout, job)
        if header.get("number") != self._number:
            self.close()
            raise MachineError(f"found an answer to job {header.get('number')!r}, expected one to {self._number}")
        if "error" in header:
            raise MachineError(str(header["error"]))
        try:
            return [torch.from_numpy(each) for each in worker.arrays(header.get("arrays"), numbers)]
        except worker.NoiseError as error:
            raise MachineError(f"its answer: {error}") from None

    execute = run

    def start(self, distributions: Sequence[str] = ()) -> None:
        """Start the process; `versions` has what it says of these distributions. Raises MachineError."""
        self.close()
        ours, theirs = socket.socketpair()
        isolated = "-I" if self.python else "-P"  # with neither, worker's folder would be searched for modules
        program = [worker.__file__, self.program, *distributions]
        command = [self.python or sys.executable, isolated, "-B", "-W", "ignore", *program]
        self._said.seek(0)
        self._said.truncate()
        with theirs:
            try:
                self._child = subprocess.Popen(
                    command,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=self._said,
                    env=self._environment(),
                )
            except OSError as error:
                ours.close()
                raise MachineError(f"{self.python}: cannot be started: {error.strerror}") from None
        self._wire, self._came = ours, bytearray()
        header, _ = self._answer(START)
        if "error" in header:
            self.close()
            raise MachineError(f"{self.program}: {header['error']}")
        if header.get("protocol") != worker.PROTOCOL:
            self.close()
            raise MachineError(f"found protocol {header.get('protocol')!r}, expected {worker.PROTOCOL}")
        self.versions = {str(name): str(each) for name, each in dict(header.get("versions", {})).items()}

    def _environment(self) -> dict[str, str]:
        """One thread for what asks; and for the suite's own interpreter, where it finds modules."""
        few = {name: os.environ.get(name, "1") for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        path = os.pathsep.join(path or os.getcwd() for path in sys.path)
        return {**os.environ, **few, **({} if self.python else {"PYTHONPATH": path})}

    def _answer(self, timeout: float, job: bytes = b"") -> worker.Message:
        """The process's next message, after it was sent the job, if there is one."""
        assert self._child is not None and self._wire is not None
        talk = _Talk(self._wire, self._came, memoryview(job))
        try:
            if not in_time(talk.is_over, timeout, self._child.pid):
                self.close(0)
                raise MachineError(f"no answer in {timeout:g} seconds")
        except (EOFError, OSError):
            code, said = self._child.wait(), self._last_words()
            self.close()
            raise MachineError(f"its process died ({_cause(code)}){said}") from None
        except worker.NoiseError as error:
            self.close(0)
            raise MachineError(f"its answer: {error}") from None
        assert talk.message is not None
        return talk.message

    def _last_words(self) -> str:
        """The last line of what the process printed before its program was loaded, such as that numpy is missing."""
        self._said.seek(0)
        lines = self._said.read(_BLOCK).decode("utf-8", "replace").split("\n")
        return "".join(f": {line}" for line in [each.strip() for each in lines if each.strip()][-1:])

    def close(self, grace: float = GRACE) -> None:
        """End the process, if there is one, which may take `grace` seconds to remove its folder."""
        if self._wire is not None:
            self._wire.close()
        if self._child is not None:
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(grace)
            self._child.kill()
            self._child.wait()
        self._child = self._wire = None

    def __post_init__(self) -> None:
        atexit.register(_close, ref(self))  # later, the modules that it needs may be gone

    def __del__(self) -> None:
        self.close()
        self._said.close()


def _close(machine: ref[Machine]) -> None:
    """Close a machine if it is still there."""
    if (found := machine()) is not None:
        found.close()


@dataclass
class _Talk:
    """One message to a process, and one from it: it is sent and read as the other end takes and gives it."""

    wire: socket.socket
    came: bytearray
    rest: memoryview
    message: worker.Message | None = None

    def is_over(self, seconds: float) -> bool:
        """Whether the answer is whole, after waiting for so long. Raises EOFError, OSError, NoiseError."""
        reading, writing, _ = select.select([self.wire], [self.wire] if self.rest else [], [], seconds)
        if writing:
            self.rest = self.rest[self.wire.send(self.rest[:_BLOCK], socket.MSG_DONTWAIT) :]
        if reading:
            block = self.wire.recv(_BLOCK)
            if not block:
                raise EOFError
            self.came += block
        self.message = worker.taken(self.came)
        return self.message is not None


def packed(tensors: Sequence[torch.Tensor]) -> tuple[list[list[object]], list[bytes]]:
    """Types and shapes of tensors, and their numbers, as a message has them."""
    found = [pack(x) for x in tensors]
    return [[dtype, list(shape)] for dtype, shape, _ in found], [numbers for _, _, numbers in found]


def _cause(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
