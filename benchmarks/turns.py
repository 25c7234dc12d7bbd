"""Contenders of a benchmark in turns, so that a drift of the machine's speed hits all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

Run = Callable[[], object]
TURN = 0.01
"""Seconds that a contender's turn takes at least."""


def seconds(runs: Mapping[str, Run], rounds: int) -> dict[str, float]:
    """Processor time of a run: each contender's median over `rounds` turns, after one that is not counted."""
    taken: dict[str, list[float]] = {label: [] for label in runs}
    for _ in range(rounds + 1):
        for label, run in runs.items():
            taken[label].append(_turn(run))
    return {label: statistics.median(values[1:]) for label, values in taken.items()}


def _turn(run: Run) -> float:
    """Seconds of one run, by as many as fill a turn."""
    start, count, passed = time.process_time(), 0, 0.0
    while passed < TURN:
        run()
        count += 1
        passed = time.process_time() - start
    return passed / count
