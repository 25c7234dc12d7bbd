"""Many cases: in this process, in worker processes, or on any `concurrent.futures` executor.

Workers get ids and make the cases themselves, so nothing but ids and results travels. Results come
back in any order; what a case shows does not depend on where it ran.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.process import BaseProcess

import torch

from conformance.backends import load_backend
from conformance.certify import died, run_case
from conformance.errors import UsageError
from conformance.graph import Case
from conformance.results import CaseResult
from conformance.selection import all_cases
from conformance.table import Table, load_table
from partitioners.exir import Backend

CHUNK = 32  # cases per task: large enough to hide the cost of a task, small enough to spread evenly
DEATH = "the process that ran the case died without an answer"
# What takes long to load. None of it is ours: the server of a forked worker looks in the current folder first,
# the worker itself where its parent looks, and both must not find different copies of the suite.
PRELOADED = ["torch._dynamo", "onnx.reference"]

Chunk = tuple[str, ...]
Pool = Callable[[int], AbstractContextManager[Executor]]


@dataclass(frozen=True)
class Job:
    """What a worker needs to know: a backend (name or module:attribute), a table (name or path), blob checks' names."""

    backend: str
    table: str
    tools: tuple[str, ...] = ()


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


def run_all(job: Job, ids: Sequence[str], workers: int, pool: Pool | None = None) -> Iterator[CaseResult]:
    """Run cases and yield each result as it comes.

    workers: 1 runs in this process (unless `pool` is given), more start that many processes. A case
    that ends its process fails, and the others go on. Raises UsageError when no process starts.
    """
    if workers == 1 and pool is None:
        for name in ids:
            yield from run_chunk(job, (name,))
        return
    queue = deque(_chunks(ids, workers))
    while queue:
        suspects = yield from _drain(job, queue, workers, pool or processes)
        yield from _one_by_one(job, suspects, pool or processes)


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
                    flying[executor.submit(run_chunk, job, queue[0])] = queue[0]
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
        raise UsageError(
            "the worker processes end before they run a case; "
            "-n 1 runs all cases in this process (a script that starts a run needs if __name__ == '__main__')"
        ) from error


def _one_by_one(job: Job, suspects: Sequence[str], pool: Pool) -> Iterator[CaseResult]:
    """Run cases one at a time, so that a dead process names its case."""
    queue = deque(suspects)
    while queue:
        with pool(1) as executor:
            _check_start(executor)
            while queue:
                name = queue.popleft()
                try:
                    yield from executor.submit(run_chunk, job, (name,)).result()
                except BrokenProcessPool:
                    yield died(_context(job)[2][name], DEATH)
                    break


# ------------------------------------------------------------------------------------ pools


@contextmanager
def processes(workers: int) -> Iterator[Executor]:
    """Worker processes on this machine; they start with torch loaded where the system can fork servers."""
    pool = ProcessPoolExecutor(workers, mp_context=_multiprocessing(), initializer=_start_worker)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _multiprocessing() -> multiprocessing.context.BaseContext:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _start_worker() -> None:
    """One thread for torch; Ctrl-C is the parent's to handle; no worker outlives a killed parent."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()


def _exit_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


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
