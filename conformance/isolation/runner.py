"""A process that answers questions with a backend, one after another, and reports what each left behind.

It asks for inputs (`?`) when it has compiled. An answer begins with `+` or `-`. After `-` the process ends, as its
state is spoiled for other programs, and a new one is forked.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import logging
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from npu_assay.conformance.common.describing import describe, without_addresses
from npu_assay.conformance.common.escaped import beginning
from npu_assay.conformance.fuzz import answering as random_answering
from npu_assay.conformance.isolation import clean_process, frames, leaks
from npu_assay.conformance.isolation.bindings import Bindings
from npu_assay.conformance.isolation.frames import DRAW, GOOD, LAST, STAGE
from npu_assay.conformance.isolation.limits import (
    Limits,
    adopt_orphans,
    die_with_parent,
    is_out_of_memory,
    limit_memory,
)
from npu_assay.conformance.isolation.state import State
from npu_assay.conformance.record.results import Failure
from npu_assay.conformance.run import answering, wire_format
from npu_assay.conformance.run.question import Answer, Draw, Inputs, Question
from npu_assay.partitioners.exir import Backend

SHOWN = 80  # characters of what was printed
CONTAMINATING = frozenset({"leak", "memory", "state"})
COPIED = "forked this process, and the copy went on running cases"

Descriptors = Sequence[int]  # the stage, what is printed on stdout, and on stderr


@dataclass(frozen=True)
class Work:
    """What is needed to answer a question."""

    backend: Backend
    limits: Limits

    def answer(self, question: Question, draw: Draw, watch: Watch) -> Answer:
        """The answer to a question."""
        act = random_answering.answer if question.random else answering.answer
        return act(question, self.backend, draw, watch)


@dataclass
class Watch:
    """Follows the work: records its stage, in case the process dies, and the settings of the process before it."""

    board: int
    state: State
    out_of_memory: str
    clean: int
    bindings: Bindings = field(default_factory=Bindings.now)
    process: int = field(default_factory=os.getpid)

    def end_copies(self) -> None:
        """End this process if the backend forked it, as it would answer twice; leave a mark for the original."""
        if os.getpid() != self.process:
            os.pwrite(self.board, b"x", STAGE)
            os._exit(1)

    @property
    def copied(self) -> bool:
        """Whether a fork of this process was ended, in this case or an earlier one."""
        return bool(os.pread(self.board, 1, STAGE))

    def entered(self, stage: str) -> None:
        """Record that the work is in this stage now."""
        self.end_copies()
        os.pwrite(self.board, stage.encode()[:STAGE].ljust(STAGE), 0)

    def changes(self, numeric: bool = False) -> list[str]:
        """The changed settings, in words; they are put back."""
        return self.state.changes(numeric)

    def refused(self, error: BaseException) -> str | None:
        """The message for an error that the memory limit caused; None for any other."""
        return self.out_of_memory if is_out_of_memory(error) else None


def serve(judge: socket.socket, clean_judge: socket.socket, descriptors: Descriptors, work: Work) -> None:
    """Answer the judge's questions until its end closes."""
    _settle(descriptors)
    process = clean_process.start(work.backend.runtime, clean_judge)
    watch = Watch(descriptors[0], State.now(), work.limits.too_much, process)
    while (text := frames.receive(judge)) is not None:
        question = wire_format.read_question(text)
        answer = _watched(question, work, partial(_drawn, judge, watch), watch, descriptors)
        spoiled = any(failure.check in CONTAMINATING for failure in _all(answer))
        message = _encoded(question, answer)
        watch.end_copies()
        frames.send(judge, (LAST if spoiled else GOOD).encode() + message)
        if spoiled:
            judge.recv(1)  # the process beside this one is there until the judge has asked it
            return


def _drawn(judge: socket.socket, watch: Watch, blobs: str) -> Inputs:
    """What the judge draws for these blobs."""
    watch.end_copies()
    frames.send(judge, f"{DRAW}{blobs}".encode())
    text = frames.receive(judge)
    if text is None:  # the judge has ended, and so does this process
        os._exit(1)
    return wire_format.read_inputs(text)


def _all(answer: Answer) -> list[Failure]:
    error = [] if answer.error is None else [answer.error]
    return [*answer.early, *answer.ran, *answer.late, *answer.behind, *error]


def _encoded(question: Question, answer: Answer) -> bytes:
    """The answer as bytes; one that cannot be encoded becomes a failure that says so."""
    try:
        return wire_format.answer_bytes(question.name, answer)
    except Exception as error:  # noqa: BLE001  (a backend may return anything)
        answer.runs, answer.handed, answer.expected, answer.finished = {}, [], None, False
        answer.error = Failure("crash", f"run: {describe(error)}")
        return wire_format.answer_bytes(question.name, answer)


def _settle(descriptors: Descriptors) -> None:
    """Detach from the terminal and capture what is printed; warnings and logging do not count as output."""
    os.setsid()
    die_with_parent()
    adopt_orphans()
    for number, stream in enumerate((os.open(os.devnull, os.O_RDWR), *descriptors[1:])):
        os.dup2(stream, number)
    sys.stdin, sys.stdout, sys.stderr = streams()
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    logging.getLogger().handlers[:] = [logging.NullHandler()]


def streams() -> tuple[io.TextIOWrapper, io.TextIOWrapper, io.TextIOWrapper]:
    """New stdin, stdout and stderr, in place of those that this process inherited."""
    files = (io.FileIO(number, mode, closefd=False) for number, mode in enumerate("rww"))
    stdin, stdout, stderr = (io.TextIOWrapper(file, "utf-8", "replace", line_buffering=True) for file in files)
    return stdin, stdout, stderr


def _watched(question: Question, work: Work, draw: Draw, watch: Watch, descriptors: Descriptors) -> Answer:
    limit_memory(work.limits.mebibytes)
    threads = leaks.threads()
    try:
        answer = work.answer(question, draw, watch)
    except BaseException as error:  # noqa: BLE001  (what is left is KeyboardInterrupt: nobody presses Ctrl-C here)
        answer = Answer(error=Failure("crash", describe(error)))
    replaced = watch.bindings.changes()  # first, so that what follows runs with what was put back
    watch.entered("end")
    answer.behind += [
        *(Failure("state", change) for change in replaced),
        *(Failure("state", change) for change in watch.changes()),
        *_left(work.backend.processes, threads, watch),
        *_printed(descriptors),
    ]
    return answer


def _left(allowed: int, threads: frozenset[int], watch: Watch) -> list[Failure]:
    """Processes and threads that the case started and did not end, and copies of this process, however they ended."""
    found = []
    processes = leaks.left(leaks.children, frozenset({watch.clean}), allowed)
    if processes:
        found.append(Failure("leak", f"left child processes running: {len(processes)}, expected {allowed}"))
    if watch.copied:
        found.append(Failure("leak", COPIED))
    running = leaks.left(leaks.threads, threads)
    if running:
        found.append(Failure("leak", f"left threads running: {len(running)}, expected 0"))
    return found


def _printed(descriptors: Descriptors) -> list[Failure]:
    """Failures for what the case wrote to stdout and stderr, which are then emptied."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed, which is said elsewhere
            stream.flush()
    _FLUSH(None)
    return [
        Failure("noise", f"wrote to {name}: {printed!r}")
        for name, file in zip(("stdout", "stderr"), descriptors[1:], strict=True)
        if (printed := take(file))
    ]


_FLUSH: Callable[[None], int] = ctypes.CDLL(None).fflush


def take(file: int) -> str:
    """The first line that was written to a file, without addresses; the file is emptied."""
    if not os.fstat(file).st_size:
        return ""
    data = os.pread(file, 4 * SHOWN, 0).decode("utf-8", "replace").strip()
    os.ftruncate(file, 0)
    line = without_addresses(data.splitlines()[0]) if data else ""
    return beginning(line, SHOWN) or "blank lines"
