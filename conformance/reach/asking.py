"""Runs many cases in child processes, which may die, hang or print without harm to other cases."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import numpy as np

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.devices.machine import Machine, MachineError
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.reach.flow import flow_of
from npu_assay.conformance.reach.walk import ERROR, Met, walk
from npu_assay.conformance.run.execution import known_cases


def ask(backend: str, table: str, cases: Sequence[Case], workers: int, timeout: float) -> Iterator[Met]:
    """What a user meets in each case, in the order of the cases.

    workers: the number of child processes, each of which takes one case after another. If one dies, or does not answer
    for `timeout` seconds, that is an error of its case; the next case gets a new one.
    """
    machines = [Machine(f"{__name__}:answer", timeout) for _ in range(workers)]
    free = SimpleQueue[Machine]()
    for machine in machines:
        free.put(machine)

    def asked(case: Case) -> Met:
        machine = free.get()
        try:
            (said,) = machine.run(json.dumps([backend, table, case.id]).encode(), ())
        except MachineError as error:
            return Met(case.id, ERROR, "process", str(error))
        finally:
            free.put(machine)
        return Met.from_data(json.loads(bytes(said.tolist())))

    threads = ThreadPoolExecutor(workers)
    try:
        yield from threads.map(asked, cases)
    finally:
        threads.shutdown(cancel_futures=True)
        for machine in machines:
            machine.close()


def answer(question: bytes, _: Sequence[object]) -> list[np.ndarray[Any, Any]]:
    """In the child: what a user meets in one case, as JSON in an array of bytes."""
    backend, table, name = json.loads(question)
    met = walk(known_cases(table).case(name), flow_of(load_backend(backend)))
    return [np.frombuffer(json.dumps(met.as_data()).encode(), np.uint8)]
