"""A process that runs cases one after another, and says of each what it left behind.

An answer is one line: `+` or `-`, then the result as in results.jsonl. After `-` the process ends: it was left in a
state that no other case should start from, and a new one is forked.
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
from dataclasses import dataclass, field, replace

from torch import Tensor

from npu_assay.conformance.certify import describe, failed, result_of, run_case, without_addresses
from npu_assay.conformance.fuzz.names import is_program
from npu_assay.conformance.fuzz.observe import observe
from npu_assay.conformance.fuzz.programs import Known
from npu_assay.conformance.graph import Case
from npu_assay.conformance.isolation import leaks
from npu_assay.conformance.isolation import stranger as strangers
from npu_assay.conformance.isolation.bindings import Bindings
from npu_assay.conformance.isolation.limits import (
    Limits,
    adopt_orphans,
    die_with_parent,
    is_out_of_memory,
    limit_memory,
)
from npu_assay.conformance.isolation.state import State
from npu_assay.conformance.isolation.stranger import Stranger
from npu_assay.conformance.isolation.text import encoded
from npu_assay.conformance.results import CaseResult, Failure
from npu_assay.conformance.table import Table
from npu_assay.partitioners.exir import Backend, CompileSpec

GOOD, LAST = "+", "-"
STAGE = 64  # bytes that hold the name of the stage
SHOWN = 80  # characters of what was printed
CONTAMINATING = frozenset({"leak", "memory", "state"})
COPIED = "forked this process, and the copy went on running cases"

Descriptors = Sequence[int]  # the stage, what is printed on stdout, and on stderr


@dataclass(frozen=True)
class Work:
    """What every case needs."""

    backend: Backend
    table: Table
    known: Known
    tools: tuple[str, ...]
    limits: Limits

    def result(self, case: Case, watch: Watch) -> CaseResult:
        """Run one."""
        if is_program(case.id):
            return result_of(case, watch, lambda seen: observe(case, self.backend, self.table, seen))
        return run_case(case, self.backend, self.table, self.tools, watch)


@dataclass
class Watch:
    """Follows a case: writes down its stage for whoever sees the process die, and knows how the process was before."""

    board: int
    state: State
    out_of_memory: str
    stranger: Stranger
    bindings: Bindings = field(default_factory=Bindings.now)
    process: int = field(default_factory=os.getpid)

    def end_copies(self) -> None:
        """End this process, and leave a mark for the other, if the backend forked it: it would answer in its name."""
        if os.getpid() != self.process:
            os.pwrite(self.board, b"x", STAGE)
            os._exit(1)

    @property
    def copied(self) -> bool:
        """Whether a copy of this process was ended, in this case or an earlier one."""
        return bool(os.pread(self.board, 1, STAGE))

    def entered(self, stage: str) -> None:
        """The case is in this stage now."""
        self.end_copies()
        os.pwrite(self.board, stage.encode()[:STAGE].ljust(STAGE), 0)

    def changes(self, numeric: bool = False) -> list[str]:
        """Changed settings; they are put back."""
        return self.state.changes(numeric)

    def refused(self, error: BaseException) -> str | None:
        """What to say when an error comes from the limit of memory."""
        return self.out_of_memory if is_out_of_memory(error) else None

    def elsewhere(self, blob: bytes, specs: Sequence[CompileSpec], inputs: Sequence[Tensor]) -> tuple[str, str | None]:
        """A digest of what the blob gives in a process that never compiled anything, or why there is none."""
        self.end_copies()
        return self.stranger.run(blob, specs, inputs)


def serve(end: socket.socket, descriptors: Descriptors, work: Work) -> None:
    """Run the cases whose ids arrive, line by line, until the other end closes."""
    _settle(descriptors)
    stranger = strangers.start(work.backend.runtime, describe)
    watch = Watch(descriptors[0], State.now(), work.limits.too_much, stranger)
    with end, end.makefile("r", encoding="utf-8", newline="\n") as names:
        for name in names:
            result = _watched(work.known.case(name.strip()), work, watch, descriptors)
            spoiled = stranger.dead or any(failure.check in CONTAMINATING for failure in result.failures)
            answer = encoded(result)
            watch.end_copies()
            end.sendall(b"%b%b\n" % ((LAST if spoiled else GOOD).encode(), answer))
            if spoiled:
                return


def _settle(descriptors: Descriptors) -> None:
    """Leave the terminal, keep what is printed, and leave warnings and logging, which are not output, alone."""
    os.setsid()
    die_with_parent()
    adopt_orphans()
    for number, stream in enumerate((os.open(os.devnull, os.O_RDONLY), *descriptors[1:])):
        os.dup2(stream, number)
    sys.stdin, sys.stdout, sys.stderr = streams()
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    logging.getLogger().handlers[:] = [logging.NullHandler()]


def streams() -> tuple[io.TextIOWrapper, io.TextIOWrapper, io.TextIOWrapper]:
    """stdin, stdout and stderr of this process, which may have had others while it was a part of its parent."""
    files = (io.FileIO(number, mode, closefd=False) for number, mode in enumerate("rww"))
    stdin, stdout, stderr = (io.TextIOWrapper(file, "utf-8", "replace", line_buffering=True) for file in files)
    return stdin, stdout, stderr


def _watched(case: Case, work: Work, watch: Watch, descriptors: Descriptors) -> CaseResult:
    limit_memory(work.limits.mebibytes)
    threads = leaks.threads()
    try:
        result = work.result(case, watch)
    except BaseException as error:  # noqa: BLE001  (what is left is KeyboardInterrupt: nobody presses Ctrl-C here)
        result = failed(case, "crash", describe(error))
    replaced = watch.bindings.changes()  # first, so that what follows runs with what was put back
    watch.entered("end")
    found = [
        *(Failure("state", change) for change in replaced),
        *(Failure("state", change) for change in watch.changes()),
        *_left(work.backend.processes, threads, watch),
        *_printed(descriptors),
    ]
    known = set(result.failures)
    fresh = [failure for failure in dict.fromkeys(found) if failure not in known]
    return replace(result, failures=(*result.failures, *fresh), status="fail") if fresh else result


def _left(allowed: int, threads: frozenset[int], watch: Watch) -> list[Failure]:
    """Processes and threads that the case started and did not end, and copies of this process, however they ended."""
    found = []
    processes = leaks.left(leaks.children, frozenset({watch.stranger.process}), allowed)
    if processes:
        found.append(Failure("leak", f"left child processes running: {len(processes)}, expected {allowed}"))
    if watch.copied:
        found.append(Failure("leak", COPIED))
    running = leaks.left(leaks.threads, threads)
    if running:
        found.append(Failure("leak", f"left threads running: {len(running)}"))
    return found


def _printed(descriptors: Descriptors) -> list[Failure]:
    """What the case wrote to stdout and stderr; it is removed."""
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
    return (line if len(line) <= SHOWN else f"{line[:SHOWN]}...") or "blank lines"
