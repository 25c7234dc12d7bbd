"""The runners as a run sees them: what each was given, what it takes, and how it ended."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from npu_assay.conformance.isolation.frames import STAGE
from npu_assay.conformance.isolation.limits import end, resident
from npu_assay.conformance.isolation.runner import take
from npu_assay.conformance.isolation.stopwatch import Stopwatch
from npu_assay.conformance.isolation.usage import taken
from npu_assay.conformance.isolation.wire import Wire

LOOK = 0.2  # seconds between two looks at memory


@dataclass
class Task:
    """A case to run. fault: how its first process ended, if that had run other cases before; else None."""

    name: str
    fault: tuple[str, str] | None = None


@dataclass
class Worker:
    """A runner and its judge as the run sees them. given: their cases; the first has been running since `since`.

    process, judge: their ids, 0 before the forkserver has told the runner's.
    """

    wire: Wire
    files: list[int]
    given: deque[Task] = field(default_factory=deque)
    process: int = 0
    judge: int = 0
    since: float = 0.0
    memory: int = 0
    measured: float = 0.0  # when its memory was, and that of what it started
    watch: Stopwatch = field(default_factory=Stopwatch)  # of the running case
    ran: int = 0
    retired: bool = False
    alone: float = 0.0  # when its judge was found to have ended
    verdict: tuple[str, str] | None = None  # check and message of a runner that the run itself ended

    def give(self, tasks: Sequence[Task]) -> None:
        """Add cases."""
        if not self.given:
            self.since = time.monotonic()
        self.given.extend(tasks)
        self.wire.send_text("".join(f"{task.name}\n" for task in tasks))

    @property
    def stage(self) -> str:
        """The stage of the running case."""
        return os.pread(self.files[0], STAGE, 0).decode("utf-8", "replace").strip(" \0") or "start"

    @property
    def last(self) -> str:
        """What it wrote to stderr before it died, as a suffix of a message."""
        text = take(self.files[2])
        return f", after writing {text!r}" if text else ""

    def is_late(self, seconds: float) -> bool:
        """True if the running case has used more than `seconds`, with its judge; see `Stopwatch`."""
        if self.watch.began != self.since:
            self.watch = Stopwatch(self.since)
        return self.watch.is_over(seconds, [self.process, *([self.judge] if self.judge else [])])

    def takes_more(self, limit: int) -> bool:
        """Whether it uses more bytes than `limit` beyond what was loaded.

        The runner's own memory is looked at each time; every LOOK seconds also its child processes, its files in memory
        and what it printed.
        """
        if resident(self.process) - self.memory > limit:
            return True
        if time.monotonic() - self.measured < LOOK:
            return False
        self.measured = time.monotonic()
        return taken(self.process, self.memory, limit) > limit

    def close(self) -> None:
        """Give back the connection and the files; the judge ends."""
        self.wire.close()
        for file in self.files:
            os.close(file)
        judge, self.judge = self.judge, 0
        if judge:
            end(judge)
            os.waitpid(judge, 0)

    def drain(self, seconds: float) -> None:
        """Wait for the judge to end, so that all its messages have arrived."""
        deadline = time.monotonic() + seconds
        while self.judge and time.monotonic() < deadline:
            if os.waitpid(self.judge, os.WNOHANG)[0]:
                self.judge = 0
            else:
                time.sleep(0.002)


def cause(code: int) -> str:
    """How a process ended, by the code that waiting for it gives."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
