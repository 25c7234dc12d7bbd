"""Runs all faults, one process per core. The processes get names of faults and make the broken backends.

The process of the command runs no broken backend: one may end its process or never return.
"""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess

import torch

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.common.memory import keep
from npu_assay.conformance.mutation.catalogue import load_faults
from npu_assay.conformance.mutation.trial import Outcome, Right, trial
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import Table, load_table
from npu_assay.faults import Fault

DEATH = "the process that tried the fault ended without an answer, or gave none within {:g} s"


@dataclass(frozen=True)
class Job:
    """What a process needs to know.

    limit: how many cases a fault gets in addition to the named ones. timeout: how many seconds for all its cases.
    """

    backend: str
    table: str
    catalogue: str
    limit: int
    timeout: float = 600.0


@dataclass(frozen=True)
class _Context:
    table: Table
    cases: tuple[Case, ...]
    faults: dict[str, Fault]
    right: Right


@keep(1)
def _context(job: Job) -> _Context:
    torch.set_num_threads(1)
    table, backend = load_table(job.table), load_backend(job.backend)
    by_id = {case.id: case for case in all_cases(table)}
    right = keep(len(by_id))(lambda name: run_case(by_id[name], backend, table))
    faults = {fault.id: fault for fault in load_faults(job.backend, job.catalogue)}
    context = _Context(table, tuple(by_id.values()), faults, lambda case: right(case.id))
    gc.freeze()  # what is loaded by now stays, so the collector need not look at it
    return context


def run_fault(job: Job, name: str) -> Outcome:
    """Try one fault in this process, which ends when that takes too long."""
    context = _context(job)
    with _ending_after(job.timeout):
        return trial(context.faults[name], context.table, context.cases, context.right, job.limit)


@contextmanager
def _ending_after(seconds: float) -> Iterator[None]:
    """End this process unless the body ends in time, even if the body never releases the interpreter lock."""
    with tempfile.TemporaryFile() as nobodys:  # where it hangs is not asked
        faulthandler.dump_traceback_later(seconds, exit=True, file=nobodys)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


def run_faults(job: Job, names: Sequence[str], workers: int) -> Iterator[Outcome]:
    """Try faults and yield each outcome as it comes. A fault that ends its process or hangs counts as noticed."""
    queue = deque(names)
    while queue:
        suspects = yield from _drain(job, queue, workers)
        for name in suspects:
            yield _alone(job, name)


def _drain(job: Job, queue: deque[str], workers: int) -> Generator[Outcome, None, list[str]]:
    """Try faults until none is left or a process ends; returns the names that were being tried then."""
    flying: dict[Future[Outcome], str] = {}
    with _processes(workers) as executor:
        try:
            while queue or flying:
                while queue and len(flying) < 2 * workers:
                    flying[executor.submit(run_fault, job, queue[0])] = queue[0]
                    queue.popleft()  # not before: a pool that broke takes nothing
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    yield future.result()
                    del flying[future]
        except BrokenProcessPool:
            return list(flying.values())
    return []


def _alone(job: Job, name: str) -> Outcome:
    with _processes(1) as executor:
        try:
            return executor.submit(run_fault, job, name).result()
        except BrokenProcessPool:
            stage, kind, short = name.split("/", 2)
            return Outcome(name, stage, kind, short, (), {"crash": ""}, 0, DEATH.format(job.timeout))


def _processes(workers: int) -> ProcessPoolExecutor:
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_start)


def _start() -> None:
    """Leave Ctrl-C to the parent, and end this process when the parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()


def _exit_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
