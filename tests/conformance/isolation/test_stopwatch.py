"""Limits of time: what a process uses counts, not how long a busy machine lets it wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from npu_assay.conformance.isolation import stopwatch
from npu_assay.conformance.isolation.limits import LINUX
from npu_assay.conformance.isolation.stopwatch import FAR, Stopwatch, in_time, processor_time

LIMIT = 2.0
WORK = "import time\nwhile time.process_time() < 0.8: pass"
SPIN = "while True: pass"
SLEEP = "import time; time.sleep(600)"
POLL = "import time\nwhile True: time.sleep(0.05); sum(range(200_000))"
BELOW = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPIN!r}])"
pytestmark = pytest.mark.skipif(not LINUX, reason="processor time of other processes is read from /proc")


@contextmanager
def running(program: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def ended(process: subprocess.Popen[bytes]) -> bool:
    def ready(seconds: float) -> bool:
        time.sleep(seconds)
        return process.poll() is not None

    return in_time(ready, LIMIT, process.pid)


def starve(process: subprocess.Popen[bytes], stop: threading.Event) -> None:
    """Give a process a fifth of a processor, as a machine with four others like it does."""
    while not stop.wait(0.1):
        process.send_signal(signal.SIGSTOP)
        stop.wait(0.4)
        process.send_signal(signal.SIGCONT)


def test_a_process_that_a_busy_machine_keeps_waiting_is_not_late() -> None:
    began, stop = time.monotonic(), threading.Event()
    with running(WORK) as process:
        busy = threading.Thread(target=starve, args=(process, stop))
        busy.start()
        try:
            assert ended(process)
        finally:
            stop.set()
            busy.join()
    assert time.monotonic() - began > LIMIT  # which the clock alone would have called late


@pytest.mark.parametrize("program", [SPIN, SLEEP, BELOW])
def test_a_process_that_uses_too_much_or_only_waits_is_late(program: str) -> None:
    began = time.monotonic()
    with running(program) as process:
        assert not ended(process)
    assert time.monotonic() - began < FAR * LIMIT


def test_what_looks_alive_without_working_is_late_by_the_clock() -> None:
    with running(POLL) as process:
        watch = Stopwatch(time.monotonic() - FAR * LIMIT + 1)
        while not watch.is_over(LIMIT, [process.pid]):
            time.sleep(0.05)
        assert watch.used < LIMIT and time.monotonic() - watch.moved < LIMIT


def test_children_that_were_waited_for_count() -> None:
    before = processor_time([os.getpid()])
    subprocess.run([sys.executable, "-c", WORK], check=True)
    assert processor_time([os.getpid()]) - before > 0.7


def test_where_processor_time_is_unknown_the_clock_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopwatch, "LINUX", False)
    now = time.monotonic()
    assert Stopwatch(now - 2).is_over(1, [os.getpid()]) and not Stopwatch(now).is_over(1, [os.getpid()])
