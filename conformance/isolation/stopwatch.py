"""Time limits that a busy machine does not shorten: they count the processor time of processes.

A process that only waits uses none, so the clock counts while no processor time is used; and as a last resort always.
Where processor time is not known, which is everywhere but on Linux, the clock is all there is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from npu_assay.conformance.isolation.limits import LINUX
from npu_assay.conformance.isolation.usage import tree

FAR = 10.0
"""How many times a limit may pass on the clock, however little processor time was used."""
LOOK = 0.2  # seconds between two looks at the processes
_TICKS = os.sysconf("SC_CLK_TCK")
_USER_TIME, _TIMES = 11, 4  # in /proc/PID/stat after the name: its own two times, and those of children it waited for


@dataclass
class Stopwatch:
    """Counts the time that processes and their descendants take, from its first look on, LOOK seconds after `began`.

    began: by `time.monotonic`. used: seconds of processor time. moved: when `used` was last seen to grow.
    """

    began: float = field(default_factory=time.monotonic)
    used: float = 0.0
    moved: float = 0.0
    _before: float | None = None
    _looked: float = 0.0

    def __post_init__(self) -> None:
        self.moved = self._looked = self.began  # most cases are over before anybody looks

    def is_over(self, seconds: float, processes: Sequence[int]) -> bool:
        """True if the processes used more than `seconds`, waited for so long, or passed FAR times that on the clock."""
        now = time.monotonic()
        if not LINUX or now - self.began > FAR * seconds:
            return now - self.began > seconds
        if now - self._looked >= LOOK:
            self._look(now, processes)
        return self.used > seconds or now - self.moved > seconds

    def _look(self, now: float, processes: Sequence[int]) -> None:
        self._looked, total = now, processor_time(processes)
        if self._before is None:
            self._before, self.moved = total, now
        if total - self._before > self.used:
            self.used, self.moved = total - self._before, now


def processor_time(processes: Sequence[int]) -> float:
    """Seconds of processor time that processes, their descendants and the children they waited for have used."""
    return sum(map(_used, {each for process in processes for each in tree(process)}))


def _used(process: int) -> float:
    try:
        with open(f"/proc/{process}/stat", "rb", buffering=0) as file:
            times = file.read(400).rpartition(b")")[2].split()[_USER_TIME : _USER_TIME + _TIMES]
    except OSError:  # it has just ended
        return 0.0
    return sum(map(int, times)) / _TICKS


def in_time(ready: Callable[[float], bool], seconds: float, process: int) -> bool:
    """Wait until `ready`, which waits for so many seconds at most, is true; False when the process's time is over."""
    watch = Stopwatch()
    while not ready(min(seconds, LOOK)):
        if watch.is_over(seconds, [process]):
            return ready(0.0)
    return True
