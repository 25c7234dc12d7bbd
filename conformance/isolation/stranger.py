"""A process beside a runner that never compiles: it shows that a blob alone, not what its compiler left, runs.

It is forked before the runner's first case, loads a blob when it is asked to, and runs it on the inputs that come with
it. Its answer is a digest of the outputs: the runner has its own to compare.
"""

from __future__ import annotations

import json
import os
import socket
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from conformance.isolation.limits import die_with_parent
from conformance.packed import data_of, digest, packed, text_of, unpacked
from partitioners.exir import CompileSpec, Runtime

NOTHING = "which died"
DIGEST, REFUSED = "digest", "refused"


@dataclass
class Stranger:
    """The runner's end. `dead`: it answers no more, and another can only be forked with another runner."""

    process: int
    _socket: socket.socket
    dead: bool = False
    _lines: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._lines = self._socket.makefile("r", encoding="utf-8", newline="\n")

    def run(self, blob: bytes, specs: Sequence[CompileSpec], inputs: Sequence[torch.Tensor]) -> tuple[str, str | None]:
        """The digest of the outputs, or an empty one and what became of it instead."""
        job = {
            "blob": text_of(blob),
            "specs": [[spec.key, text_of(spec.value)] for spec in specs],
            "inputs": [packed(x) for x in inputs],
        }
        try:
            self._socket.sendall(json.dumps(job).encode() + b"\n")
            answer = json.loads(self._lines.readline() or "null")
        except (OSError, ValueError):
            answer = None
        if not isinstance(answer, dict):
            self.dead = True
            return "", NOTHING
        return str(answer.get(DIGEST, "")), answer.get(REFUSED)


def fork(runtime: Runtime, describe: Any) -> Stranger:
    """Start one. `describe` makes a line of an exception."""
    ours, theirs = socket.socketpair()
    with warnings.catch_warnings():  # as for the nursery's forks
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process:
        theirs.close()
        return Stranger(process, ours)
    try:
        ours.close()
        die_with_parent()
        _serve(theirs, runtime, describe)
    finally:
        os._exit(0)


def _serve(end: socket.socket, runtime: Runtime, describe: Any) -> None:
    process = os.getpid()
    with end, end.makefile("r", encoding="utf-8", newline="\n") as jobs:
        for line in jobs:
            try:
                answer = {DIGEST: _run(json.loads(line), runtime)}
            except BaseException as error:  # noqa: BLE001  (a backend may raise anything; the runner says what)
                answer = {REFUSED: describe(error)}
            if os.getpid() != process:  # the backend forked this process, which answers for itself
                return
            end.sendall(json.dumps(answer).encode() + b"\n")


def _run(job: dict[str, Any], runtime: Runtime) -> str:
    specs = [CompileSpec(key, data_of(value)) for key, value in job["specs"]]
    handle = runtime.load(data_of(job["blob"]), specs)
    return digest(list(runtime.execute(handle, [unpacked(*x) for x in job["inputs"]])))
