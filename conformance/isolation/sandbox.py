"""Works on untrusted files in a process of its own: any crash, error or exceeded limit there is a UsageError here.

The process has no terminal and none of its parent's open files except a pipe. On that it says that it is ready, then it
sends its answer: bytes, which are as untrusted as the file.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator

from npu_assay.conformance.common.describing import message, type_name
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.escaped import beginning
from npu_assay.conformance.isolation.forking import close_files, fork
from npu_assay.conformance.isolation.limits import (
    MEBI,
    Limits,
    die_with_parent,
    end,
    is_out_of_memory,
    limit_memory,
    resident,
)
from npu_assay.conformance.isolation.stopwatch import Stopwatch

Work = Callable[[], bytes]
Prepare = Callable[[], Work]
"""Loads what the work needs, before the limits of time and memory begin; it must not open an untrusted file."""

READY, ANSWER, REFUSED, FAILED = b"R", b"A", b"E", b"F"
PREPARING = 600.0  # seconds, for loading what the user has installed
BLOCK = 2**16
LOOK = 0.05  # seconds between two looks at the memory
LONGEST = 2_000  # characters of an error that are shown


class _Failure(Exception):
    """How the process ended, without an answer."""


def confined(prepare: Prepare, limits: Limits, what: str) -> bytes:
    """The bytes that the work returns, from a process that is ended when it exceeds the limits.

    The limits hold for the work, not for `prepare`. what: the beginning of errors, such as `model.pte`.
    Raises UsageError for what the work raises, and when the process ends or is ended without an answer.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = fork(lambda: _serve(prepare, limits, writing))
    os.close(writing)
    try:
        return _answer(process, reading, limits)
    except _Failure as failure:
        raise UsageError(f"{what}: {failure}") from None
    finally:
        os.close(reading)
        _end(process)


# ------------------------------------------------------------------------------------------------ the parent


def _answer(process: int, reading: int, limits: Limits) -> bytes:
    """The answer. Raises UsageError for an error that the work raised, and _Failure."""
    first = _read(process, reading, 1, Limits(PREPARING, limits.mebibytes), bound=None)
    bound = resident(process) + limits.mebibytes * MEBI
    answer = _read(process, reading, None, limits, bound)
    if first != READY:  # it failed before it was
        answer = first + answer
    kind, text = answer[:1], answer[1:]
    if kind == ANSWER:
        return text
    if kind == REFUSED:
        raise UsageError(beginning(text.decode("utf-8", "replace"), LONGEST))
    if kind == FAILED:
        raise _Failure(beginning(text.decode("utf-8", "replace"), LONGEST))
    raise _Failure(_ended(process))


def _read(process: int, reading: int, size: int | None, limits: Limits, bound: int | None) -> bytes:
    """`size` bytes, or all until the pipe closes (None). The time limit starts now. bound: most bytes of memory."""
    pieces, length, watch = list[bytes](), 0, Stopwatch()
    while size is None or length < size:
        if watch.is_over(limits.seconds, [process]):
            raise _Failure(f"{limits.too_long}: give a larger --timeout")
        if (bound is not None and resident(process) > bound) or length > limits.mebibytes * MEBI:
            raise _Failure(_too_much(limits))
        if not select.select([reading], [], [], LOOK)[0]:
            continue
        piece = os.read(reading, BLOCK if size is None else size - length)
        if not piece:
            break
        pieces.append(piece)
        length += len(piece)
    return b"".join(pieces)


def _too_much(limits: Limits) -> str:
    return f"{limits.too_much} (--memory)"


def _ended(process: int) -> str:
    """How a process ended that closed its pipe without an answer, in words."""
    for _ in range(20):  # it may close the pipe a little before it ends
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            code = os.waitstatus_to_exitcode(status)
            if code < 0:
                return f"its process was ended by signal {signal.Signals(-code).name}"
            return f"its process ended without an answer, with exit code {code}"
        time.sleep(LOOK)
    return "its process closed the connection without an answer"


def _end(process: int) -> None:
    """End the process and its group, and reap it."""
    end(process)
    try:
        os.waitpid(process, 0)
    except ChildProcessError:  # it was reaped before
        return


# ------------------------------------------------------------------------------------------------ the process


def _serve(prepare: Prepare, limits: Limits, writing: int) -> None:
    _leave(writing)
    try:
        work = prepare()
        os.write(writing, READY)
        limit_memory(limits.mebibytes)
        kind, answer = ANSWER, work()
    except BaseException as error:  # noqa: BLE001  (a file may make anything raise, SystemExit included)
        kind, answer = _described(error, limits)
    for part in (kind, answer):  # not together: there may be no memory for a copy
        _write(writing, part)


def _leave(writing: int) -> None:
    """Detach from the terminal and close all the parent's files except the pipe; write no core file; use one thread."""
    os.setsid()
    die_with_parent()
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    close_files(but={writing})
    if "torch" in sys.modules:  # whose other threads are not in this copy
        sys.modules["torch"].set_num_threads(1)


def _described(error: BaseException, limits: Limits) -> tuple[bytes, bytes]:
    """Kind and text of the error."""
    if any(map(is_out_of_memory, _causes(error))):
        kind, text = FAILED, _too_much(limits)
    elif isinstance(error, UsageError):
        kind, text = REFUSED, message(error)
    else:
        kind, text = FAILED, f"{type_name(error)}: {next(iter(message(error).splitlines()), '')}"
    return kind, text.encode()


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _write(writing: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(writing, view) :]
