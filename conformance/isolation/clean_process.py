"""A process that runs blobs and never compiles: it shows that a blob runs without what its compiler left in memory.

It is forked before the runner's first program, loads a blob when the judge asks it to, and runs it on the inputs that
come with it. Its answer is a digest of the outputs: the judge has those of the runner to compare.
"""

from __future__ import annotations

import base64
import json
import os
import socket
from dataclasses import dataclass, field
from typing import Any

from npu_assay.conformance.common.describing import describe
from npu_assay.conformance.isolation.forking import fork
from npu_assay.conformance.isolation.limits import die_with_parent
from npu_assay.conformance.record.tensor_text import digest, pack, unpack
from npu_assay.conformance.run.question import Handed
from npu_assay.partitioners.exir import CompileSpec, Runtime

NOTHING = "which died"
DIGEST, REFUSED = "digest", "refused"


@dataclass
class CleanProcess:
    """The judge's end of the connection. `dead`: it no longer answers; only a new runner comes with a new one."""

    _socket: socket.socket
    dead: bool = False
    _lines: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._lines = self._socket.makefile("r", encoding="utf-8", newline="\n")

    def run(self, handed: Handed) -> tuple[str, str | None]:
        """The digest of the outputs and None, or "" and what went wrong."""
        job = {
            "blob": _text(handed.blob),
            "specs": [[key, _text(value)] for key, value in handed.specs],
            "inputs": [(dtype, shape, _text(numbers)) for dtype, shape, numbers in map(pack, handed.inputs)],
        }
        try:
            self._socket.sendall(json.dumps(job).encode() + b"\n")
            answer = json.loads(self._lines.readline(LONGEST) or "null")
        except (OSError, ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            self.dead = True
            return "", NOTHING
        refused = answer.get(REFUSED)
        return str(answer.get(DIGEST, "")), None if refused is None else str(refused)


LONGEST = 2**20  # characters of an answer


def start(runtime: Runtime, judge: socket.socket) -> int:
    """Fork a clean process that answers the judge; returns its process id."""

    def action() -> None:
        die_with_parent()
        for number in (1, 2):  # what is printed here, the runner prints as well
            os.dup2(0, number)
        _serve(judge, runtime)

    process = fork(action)
    judge.close()
    return process


def _serve(end: socket.socket, runtime: Runtime) -> None:
    process = os.getpid()
    with end, end.makefile("r", encoding="utf-8", newline="\n") as jobs:
        for line in jobs:
            try:
                answer = {DIGEST: _run(json.loads(line), runtime)}
            except BaseException as error:  # noqa: BLE001  (a backend may raise anything; the judge says what)
                answer = {REFUSED: describe(error)}
            if os.getpid() != process:  # the backend forked this process, which answers for itself
                return
            end.sendall(json.dumps(answer).encode() + b"\n")


def _run(job: dict[str, Any], runtime: Runtime) -> str:
    specs = [CompileSpec(key, _data(value)) for key, value in job["specs"]]
    handle = runtime.load(_data(job["blob"]), specs)
    # Copies, which torch aligns as it does the tensors of the runner.
    inputs = [unpack((dtype, tuple(shape), _data(numbers))).clone() for dtype, shape, numbers in job["inputs"]]
    return digest(list(runtime.execute(handle, inputs)))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _data(text: str) -> bytes:
    return base64.b64decode(text)
