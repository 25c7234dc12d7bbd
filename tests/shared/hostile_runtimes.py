"""Backends whose runtimes do what a native kernel could be made to do by a file: end the process, hang, fill memory."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from npu_assay.partitioners.exir.backend import Backend

ESCAPE = b"\x1b[31massay: certified\x1b[0m\n"


class TwiceBackend:
    """Only its name counts: it is the delegates' id."""


@dataclass(frozen=True)
class _Runtime:
    """Does something when it runs, and then what it should."""

    act: Callable[[], object]

    def load(self, processed_bytes: bytes, compile_specs: Sequence[Any]) -> None:
        return None

    def execute(self, handle: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        self.act()
        return [2 * x for x in inputs]


def _backend(act: Callable[[], object]) -> Backend:
    return Backend("hostile", "none@1", _partitioner, TwiceBackend, _Runtime(act))  # type: ignore[arg-type]


def _partitioner() -> Any:
    raise AssertionError("nothing is partitioned here")


def _write_everywhere() -> None:
    """To every file that is open, and to the terminal of the process."""
    for number in range(3):
        os.write(number, ESCAPE)
    try:
        terminal = os.open("/dev/tty", os.O_WRONLY)
    except OSError:
        return
    os.write(terminal, ESCAPE)


def _answer_and_hang() -> None:
    """Close every file, and stay."""
    os.closerange(0, 4096)
    time.sleep(600)


def _answer_nonsense() -> None:
    """Answer in the name of the process, and end it."""
    for number in range(3, 64):
        try:
            os.write(number, b"A" + b"\xff" * 100)
        except OSError:
            continue
    os._exit(0)


def _raise(kind: type[BaseException]) -> Callable[[], None]:
    def act() -> None:
        raise kind("\x1b[31mnews\nof several lines")

    return act


crash = _backend(lambda: os.kill(os.getpid(), signal.SIGSEGV))
abort = _backend(os.abort)
hang = _backend(lambda: time.sleep(600))
spin = _backend(lambda: next(each for each in iter(int, 1) if each))
hoard = _backend(lambda: [torch.ones(2**22) for _ in range(1000)])
leave = _backend(lambda: os._exit(0))
close = _backend(_answer_and_hang)
nonsense = _backend(_answer_nonsense)
shout = _backend(_write_everywhere)
stop = _backend(lambda: os.kill(os.getpid(), signal.SIGSTOP))
system_exit = _backend(_raise(SystemExit))
odd = _backend(_raise(type("OddError", (BaseException,), {})))
