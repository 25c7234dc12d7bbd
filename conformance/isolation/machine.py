"""Runs jobs that may crash in a child process: if it dies, that is an error here, and the next job gets a new child.

The child answers over a socket. What it prints, native code included, goes to a file; the last lines are added to the
message of an error.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection
from tempfile import TemporaryFile
from typing import IO, Any

import torch

from npu_assay.conformance.common.describing import message, type_name
from npu_assay.conformance.isolation.stopwatch import in_time
from npu_assay.conformance.record.tensor_text import Packed, pack, unpack

TIMEOUT = 120.0
START = 600.0
"""Seconds that a job, and the start of a child with all it imports, may take."""
_PRINTED = 4096
_STAMP = re.compile(r"^\w \d\d:\d\d:\d\d\.\d+ executorch:|\[?\b[\w./-]+\.(?:cpp|h|cc):\d+\]? *")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


class MachineError(RuntimeError):
    """The job was refused, or its process ended or did not answer in time."""


@dataclass
class Machine:
    """Runs `module:function`, which takes a blob and tensors and returns tensors, in a child process.

    It is a backend's runtime, too: loading gives the blob itself, which the child keeps or loads for every run.
    """

    function: str
    timeout: float = TIMEOUT
    _child: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _wire: Any = field(default=None, repr=False)

    def load(self, processed_bytes: bytes, compile_specs: object = ()) -> bytes:
        return processed_bytes

    def run(self, handle: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs. Raises MachineError; its message is the same for the same job."""
        if self._child is None or self._child.poll() is not None:
            self._start()
            self._answer(START)
        answer = self._answer(self.timeout, (bytes(handle), [pack(x) for x in inputs]))
        if isinstance(answer, str):
            raise MachineError(answer)
        return [unpack(x) for x in answer]

    execute = run

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        command = f"from {__name__} import serve; serve({theirs.fileno()}, {self.function!r})"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        with theirs:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-W", "ignore", "-c", command],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
            )
        self._wire = Connection(ours.detach())

    def _answer(self, timeout: float, job: object = None) -> Any:
        """The child's next message, after it was sent the job, if there is one."""
        assert self._child is not None
        try:
            if job is not None:
                self._wire.send(job)
            if not in_time(self._wire.poll, timeout, self._child.pid):
                self.close()
                raise MachineError(f"no answer in {timeout:g} seconds")
            return self._wire.recv()
        except (EOFError, OSError):
            code = self._child.wait()
            self.close()
            raise MachineError(f"its process died ({_cause(code)})") from None

    def close(self) -> None:
        """End the child, if there is one."""
        if self._child is not None:
            self._wire.close()
            self._child.kill()
            self._child.wait()
        self._child = None

    def __del__(self) -> None:
        self.close()


def _cause(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def serve(descriptor: int, function: str) -> None:
    """The child: run jobs until the other end closes."""
    wire: Any = Connection(descriptor)
    module, _, name = function.partition(":")
    with TemporaryFile() as printed:
        for stream in (1, 2):
            os.dup2(printed.fileno(), stream)
        torch.set_num_threads(1)
        run = getattr(import_module(module), name)
        wire.send("ready")
        while True:
            try:
                blob, inputs = wire.recv()
            except EOFError:
                return
            wire.send(_answer(run, blob, inputs, printed))


def _answer(run: Any, blob: bytes, inputs: Sequence[Packed], printed: IO[bytes]) -> list[Packed] | str:
    printed.seek(0)
    printed.truncate()
    try:
        return [pack(x) for x in run(blob, [unpack(x) for x in inputs])]
    except Exception as error:  # noqa: BLE001  (native code may raise anything; the message goes to the other end)
        sys.stderr.flush()
        return explained(f"{type_name(error)}: {message(error)}", printed)


def explained(message: str, printed: IO[bytes]) -> str:
    """A message with the lines that were printed last, without times, places in source files and addresses."""
    printed.seek(0)
    lines = printed.read(_PRINTED).decode("utf-8", "replace").splitlines()
    said = [text for line in lines if (text := _ADDRESS.sub("0x...", _STAMP.sub("", line)).strip())]
    return f"{message} ({'; '.join(dict.fromkeys(said))})" if said else message
