"""Many cases: in isolated processes of this machine, or on any `concurrent.futures` executor.

Workers get ids and make the cases themselves, so nothing but ids and lines of results travels. Results come
back in any order; what a case shows does not depend on where it ran.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.memory import keep
from npu_assay.conformance.devices.place import HERE, Place, load_placed
from npu_assay.conformance.fuzz.programs import Known
from npu_assay.conformance.isolation.forkserver import Subject
from npu_assay.conformance.isolation.judge import load_judges
from npu_assay.conformance.isolation.limits import LIMITS, Limits
from npu_assay.conformance.isolation.pool import ProcessPool
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.levels import NUMBERS
from npu_assay.conformance.record.results import CaseResult, from_line
from npu_assay.conformance.run.cluster_worker import WorkerProcessError, as_data, run_lines
from npu_assay.conformance.run.one_case import failed, run_case
from npu_assay.conformance.run.selection import cases_of_run
from npu_assay.conformance.table import Table, load_table
from npu_assay.partitioners.exir import Backend

CHUNK = 32  # cases per task: large enough to hide the cost of a task, small enough to spread evenly
LOOK = 5.0  # seconds between two looks at an executor that says nothing
DEATH = "the process that ran the case died without an answer"

Chunk = tuple[str, ...]


class Progress(Protocol):
    """Is told about the run as it goes."""

    def started(self, cases: int) -> None: ...

    def finished(self, result: CaseResult) -> None: ...


@dataclass(frozen=True)
class Job:
    """What a worker needs to know: a backend (name or module:attribute), a table (name or path), blob checks' names.

    made: what results must be made with, see `statement`; nothing is compared when it is empty. run: tells two runs
    apart, so that no worker answers with what it loaded for an earlier one. seed: of the cases' random numbers.
    level: how far to look (`record.levels`).
    """

    backend: str
    table: str
    tools: tuple[str, ...] = ()
    limits: Limits = LIMITS
    made: tuple[tuple[str, str], ...] = ()
    run: str = ""
    seed: int = 0
    level: str = NUMBERS
    place: Place = HERE


@keep(1)
def _context(job: Job) -> tuple[Backend, Table, dict[str, Case]]:
    torch.set_num_threads(1)
    table = load_table(job.table)
    context = load_placed(job.backend, job.place), table, known_cases(job.table, job.seed).cases
    # What is loaded by now stays until the end, so the collector need not look at it: 10 % less time per case.
    gc.freeze()
    return context


def run_chunk(job: Job, ids: Chunk) -> list[CaseResult]:
    """Run some cases in this process."""
    backend, table, cases = _context(job)
    return [run_case(cases[name], backend, table, job.tools, job.level) for name in ids]


@keep(1)
def known_cases(table: str, seed: int = 0) -> Known:
    """The cases of a table, their random numbers of some seed, and its random programs. Loads no backend."""
    loaded = load_table(table)
    return Known(loaded, cases_of_run(loaded), seed)


def made_beforehand(job: Job) -> Known:
    """A job's cases. They are made, and what judges is loaded, before a process of the backend can write the files."""
    load_judges()
    return known_cases(job.table, job.seed)


# ------------------------------------------------------------------------------------ where cases run


class Pool:
    """An executor elsewhere, and how many tasks run there at once."""

    died: tuple[type[BaseException], ...] = ()
    """What a task raises when the workers that ran it died with it, again and again."""

    def __init__(self, connect: Callable[[], AbstractContextManager[Executor]], width: int) -> None:
        self._connect = connect
        self._width = width

    def open(self, job: Job) -> AbstractContextManager[Executor]:
        """Connect. Raises UsageError when that is not possible, or when results from there would not be the same."""
        return self._connect()

    def width(self) -> int:
        """Raises UsageError when nothing more can come from there."""
        return self._width


def run_all(job: Job, ids: Sequence[str], workers: int) -> Iterator[CaseResult]:
    """Run cases in so many isolated processes of this machine, and yield each result as it comes, each case's once.

    A case that ends its process fails, and the others go on. Raises UsageError when no process starts.
    """
    case = made_beforehand(job).case
    with ProcessPool(Subject(job.backend, job.tools, job.limits, job.place), job.table) as processes:
        yield from processes.run_named(ids, case, workers, level=job.level)


def run_on(executor: Executor, pool: Pool, job: Job, ids: Sequence[str]) -> Iterator[CaseResult]:
    """Run cases on an open executor. There are never more tasks than keep it busy."""
    queue = deque(_chunks(ids, max(1, pool.width())))
    flying: dict[Future[list[str]], Chunk] = {}
    while queue or flying:
        busy = 2 * max(1, pool.width())  # a scheduler keeps a task until there is a worker
        while queue and len(flying) < busy:
            chunk = queue.popleft()
            flying[executor.submit(run_lines, as_data(job), list(chunk))] = chunk
        for future in wait(flying, timeout=LOOK, return_when=FIRST_COMPLETED).done:
            chunk = flying.pop(future)
            if future.cancelled() or not isinstance(future.exception(), pool.died):
                yield from _results(future, chunk)
            elif len(chunk) > 1:  # one at a time, so that a dead worker names its case
                queue.extend((name,) for name in chunk)
            else:
                yield failed(known_cases(job.table, job.seed).case(chunk[0]), "crash", DEATH)


def _chunks(ids: Sequence[str], workers: int) -> Iterator[Chunk]:
    size = max(1, min(CHUNK, len(ids) // (4 * workers)))
    for start in range(0, len(ids), size):
        yield tuple(ids[start : start + size])


def _results(future: Future[list[str]], chunk: Chunk) -> list[CaseResult]:
    """A task's results, which are those of its cases. Raises UsageError when there are none."""
    try:
        results = [from_line(line) for line in future.result()]
    except (BrokenExecutor, CancelledError) as error:
        raise UsageError(f"the workers are gone ({type(error).__name__}); --resume goes on with others") from error
    except (WorkerProcessError, ImportError) as error:
        raise UsageError(f"a worker cannot run cases: {error}; --resume goes on with others") from error
    if sorted(result.case for result in results) != sorted(chunk):
        raise UsageError(f"a worker answered {len(results)} cases, not the {len(chunk)} that it was given")
    return results
