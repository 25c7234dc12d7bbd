"""Many cases: in isolated processes of this machine, or on any `concurrent.futures` executor.

Workers get ids and make the cases themselves, so nothing but ids and results travels. Results come
back in any order; what a case shows does not depend on where it ran.
"""

from __future__ import annotations

import gc
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache

import torch

from conformance.backends import load_backend
from conformance.certify import failed, run_case
from conformance.errors import UsageError
from conformance.graph import Case
from conformance.isolation import LIMITS, Crew, Limits, Subject
from conformance.results import CaseResult
from conformance.selection import all_cases
from conformance.table import Table, load_table
from partitioners.exir import Backend

CHUNK = 32  # cases per task: large enough to hide the cost of a task, small enough to spread evenly
DEATH = "the process that ran the case died without an answer"

Chunk = tuple[str, ...]
Pool = Callable[[int], AbstractContextManager[Executor]]


@dataclass(frozen=True)
class Job:
    """What a worker needs to know: a backend (name or module:attribute), a table (name or path), blob checks' names."""

    backend: str
    table: str
    tools: tuple[str, ...] = ()
    limits: Limits = LIMITS


@lru_cache(maxsize=1)
def _context(job: Job) -> tuple[Backend, Table, dict[str, Case]]:
    torch.set_num_threads(1)
    table = load_table(job.table)
    context = load_backend(job.backend), table, {case.id: case for case in all_cases(table)}
    # What is loaded by now stays until the end, so the collector need not look at it: 10 % less time per case.
    gc.freeze()
    return context


def run_chunk(job: Job, ids: Chunk) -> list[CaseResult]:
    """Run some cases in this process."""
    backend, table, cases = _context(job)
    return [run_case(cases[name], backend, table, job.tools) for name in ids]


def run_isolated(job: Job, ids: Chunk) -> list[CaseResult]:
    """Run some cases in a process that this one forks and keeps for the next ones: what a worker elsewhere does."""
    with _LOCK:
        return list(_kept_crew(job).run(_cases(job, ids), 1))


def _crew(job: Job) -> Crew:
    return Crew(Subject(job.backend, job.table, job.tools, job.limits))


_LOCK = threading.Lock()
_kept_crew = lru_cache(maxsize=1)(_crew)


def _cases(job: Job, ids: Sequence[str]) -> list[Case]:
    """Cases by their ids. The backend is not loaded for that."""
    known = {case.id: case for case in all_cases(load_table(job.table))}
    return [known[name] for name in ids]


def run_all(job: Job, ids: Sequence[str], workers: int, pool: Pool | None = None) -> Iterator[CaseResult]:
    """Run cases and yield each result as it comes.

    workers: so many isolated processes of this machine, unless a `pool` is given. A case that ends its process
    fails, and the others go on. Raises UsageError when no process starts.
    """
    if pool is None:
        with _crew(job) as crew:
            yield from crew.run(_cases(job, ids), workers)
        return
    queue = deque(_chunks(ids, workers))
    while queue:
        suspects = yield from _drain(job, queue, workers, pool)
        yield from _one_by_one(job, suspects, pool)


def _chunks(ids: Sequence[str], workers: int) -> Iterator[Chunk]:
    size = max(1, min(CHUNK, len(ids) // (4 * workers)))
    for start in range(0, len(ids), size):
        yield tuple(ids[start : start + size])


def _drain(job: Job, queue: deque[Chunk], workers: int, pool: Pool) -> Generator[CaseResult, None, list[str]]:
    """Run chunks until none is left or the pool breaks; returns the ids that were in flight then."""
    flying: dict[Future[list[CaseResult]], Chunk] = {}
    with pool(workers) as executor:
        _check_start(executor)
        try:
            while queue or flying:
                while queue and len(flying) < 2 * workers:
                    flying[executor.submit(run_isolated, job, queue[0])] = queue[0]
                    queue.popleft()  # not before: a pool that broke takes nothing
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    yield from future.result()
                    del flying[future]
        except BrokenProcessPool:
            return [name for chunk in flying.values() for name in chunk]
    return []


def _check_start(executor: Executor) -> None:
    """Raise UsageError when no worker answers before any case is sent: that says nothing about a case."""
    try:
        executor.submit(os.getpid).result()
    except BrokenProcessPool as error:
        raise UsageError("the worker processes end before they run a case") from error


def _one_by_one(job: Job, suspects: Sequence[str], pool: Pool) -> Iterator[CaseResult]:
    """Run cases one at a time, so that a dead process names its case."""
    queue = deque(suspects)
    while queue:
        with pool(1) as executor:
            _check_start(executor)
            while queue:
                name = queue.popleft()
                try:
                    yield from executor.submit(run_isolated, job, (name,)).result()
                except BrokenProcessPool:
                    yield failed(_cases(job, [name])[0], "crash", DEATH)
                    break


# ------------------------------------------------------------------------------------ pools


def dask(address: str) -> Pool:
    """The workers of a Dask scheduler, which need the suite and the backend installed.

    Raises UsageError without the `dask` extra and, when used, if nobody answers at the address.
    """
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise UsageError("--dask needs the package distributed: pip install 'npu-assay[dask]'") from error

    @contextmanager
    def connect(workers: int) -> Iterator[Executor]:
        try:
            client = Client(address)
        except (OSError, ValueError) as error:
            raise UsageError(f"--dask {address}: no scheduler answers ({error})") from error
        with client:
            yield client.get_executor()

    return connect
