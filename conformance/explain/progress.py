"""How far each backend's process is, while the command waits: a byte for each in memory that the processes share."""

from __future__ import annotations

import mmap
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

STEPS = ("waiting", "reading the model", "quantizing", "lowering", "looking for causes", "running", "done")
Step = Callable[[str], None]
"""Tells one of STEPS."""
LOOK = 0.1  # seconds between two looks


def silent(_: str) -> None:
    """Tell nobody."""


@dataclass
class Progress:
    """The steps of backends. show: is told all of them at each look, and the seconds since the start."""

    backends: Sequence[str]
    show: Callable[[Sequence[str], float], None]
    shared: mmap.mmap = field(init=False)

    def __post_init__(self) -> None:
        self.shared = mmap.mmap(-1, max(1, len(self.backends)))  # processes made later have the same

    def of(self, backend: str) -> Step:
        """The function that the process of a backend tells its steps with."""
        place = self.backends.index(backend)

        def told(step: str) -> None:
            self.shared[place] = STEPS.index(step)

        return told

    def watch(self, answers: Collection[Future[Any]]) -> None:
        """Show the steps until every answer is there."""
        start, left = time.monotonic(), set(answers)
        while left:
            left = wait(left, LOOK).not_done
            steps = [STEPS[each % len(STEPS)] for each in self.shared[: len(self.backends)]]  # a backend may write any
            self.show(steps, time.monotonic() - start)


class _Unbuffered:
    """The terminal without a lock: a process that is copied while another thread writes would never get it."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        """Write it."""
        return os.write(2, text.encode(errors="replace"))

    def flush(self) -> None:
        """Nothing waits."""

    def isatty(self) -> bool:
        """As this is for terminals."""
        return True


@contextmanager
def shown(backends: Sequence[str], begin: str, verbose: bool) -> Iterator[Progress]:
    """Say on stderr how far the backends are: in a line of a terminal that goes away, else with `verbose` in lines."""
    if not sys.stderr.isatty():
        yield Progress(backends, _in_lines(backends) if verbose else lambda steps, seconds: None)
        return
    from rich.console import Console  # a log needs none

    with Console(file=_Unbuffered(), emoji=False, markup=False).status(begin) as status:  # type: ignore[arg-type]

        def show(steps: Sequence[str], seconds: float) -> None:
            now = ", ".join(f"{name}: {step}" for name, step in zip(backends, steps, strict=True))
            status.update(f"{seconds:.0f} s  {now}")

        yield Progress(backends, show)


def _in_lines(backends: Sequence[str]) -> Callable[[Sequence[str], float], None]:
    known = dict.fromkeys(backends, STEPS[0])

    def show(steps: Sequence[str], seconds: float) -> None:
        for name, step in zip(backends, steps, strict=True):
            if known[name] != step:
                known[name] = step
                os.write(2, f"{seconds:.1f} s  {name}: {step}\n".encode())

    return show
