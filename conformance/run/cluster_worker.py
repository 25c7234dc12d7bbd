"""A process that runs cases for a worker of a cluster, with the same isolation as on one machine.

A cluster's worker has threads and open connections that a fork would copy, and modules that it loaded long ago. So the
worker starts this program, which loads suite and backend as they are now, says what it found, and runs what it is
given: `python -m npu_assay.conformance.run.cluster_worker`, one line of JSON in, one out. It ends with whoever started
it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from npu_assay.conformance.common.errors import UsageError


class DeputyError(RuntimeError):
    """The process ended without an answer."""


class Deputy:
    """The process, as the worker sees it. Raises UsageError when it cannot run this job's cases as they should be."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "npu_assay.conformance.run.cluster_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
            text=True,
            encoding="utf-8",
        )
        try:
            self._ask(job)
        except BaseException:
            self.close()
            raise

    def run(self, ids: Sequence[str]) -> list[str]:
        """The lines of these cases' results. Raises DeputyError when the process ends."""
        lines = self._ask(list(ids))
        return [str(line) for line in lines]

    def close(self) -> None:
        """Let the process end."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:  # what was not yet written to a process that is gone
                    continue
        self._process.wait()

    def _ask(self, question: Any) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(json.dumps(question) + "\n")
            stdin.flush()
            line = stdout.readline()
        except OSError as error:
            raise DeputyError(str(error)) from error
        if not line:
            raise DeputyError(f"the process that runs cases for a worker ended (exit code {self._process.wait()})")
        answer = json.loads(line)
        if "refused" in answer:
            raise UsageError(answer["refused"])
        return answer["lines"]


# ------------------------------------------------------------------------------------ in a worker

_LOCK = threading.Lock()
_KEPT: dict[int, tuple[str, Deputy]] = {}  # by the worker's threads, each with what it was started for


def run_lines(job: Mapping[str, Any], ids: Sequence[str]) -> list[str]:
    """What a worker is asked to do: the lines of these cases' results, from this thread's own process.

    A process that is ended from outside is replaced once; cases cannot end it, they run in processes of their own.
    """
    deputy = _own(job)
    try:
        return deputy.run(ids)
    except DeputyError:
        dismiss(deputy)
    deputy = _own(job)
    try:
        return deputy.run(ids)
    except DeputyError:
        dismiss(deputy)
        raise


def _own(job: Mapping[str, Any]) -> Deputy:
    key, thread = json.dumps(job, sort_keys=True), threading.get_ident()
    known, deputy = _KEPT.get(thread, ("", None))
    if deputy is not None and known == key:
        return deputy
    if deputy is not None:
        dismiss(deputy)
    deputy = Deputy(job)
    with _LOCK:
        _KEPT[thread] = key, deputy
    return deputy


def dismiss(deputy: Deputy) -> None:
    """End a process."""
    with _LOCK:
        for thread in [thread for thread, (_, kept) in _KEPT.items() if kept is deputy]:
            del _KEPT[thread]
    deputy.close()


def dismiss_all() -> None:
    """End the processes of this worker: the run is over."""
    for _, deputy in list(_KEPT.values()):
        dismiss(deputy)


# ------------------------------------------------------------------------------------ in the process


def main() -> None:
    """Answer until nobody asks any more."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def answer(data: Mapping[str, Any]) -> None:
        out.write(json.dumps(data) + "\n")
        out.flush()

    from npu_assay.conformance.table import TableError

    try:
        _serve(json.loads(sys.stdin.readline()), answer)
    except (UsageError, TableError) as error:
        answer({"refused": str(error)})


def _serve(data: Mapping[str, Any], answer: Any) -> None:
    from npu_assay.conformance.backend.environment import environment, suite_sources
    from npu_assay.conformance.backend.provenance import differences, statement
    from npu_assay.conformance.isolation.crew import Crew
    from npu_assay.conformance.isolation.limits import Limits
    from npu_assay.conformance.isolation.nursery import Subject
    from npu_assay.conformance.record.results import to_line
    from npu_assay.conformance.run.execution import Job, known_cases
    from npu_assay.conformance.table import held, load_table

    job = Job(data["backend"], data["table"], tuple(data["tools"]), Limits(**data["limits"]), seed=data["seed"])
    subject = Subject(job.backend, job.tools, job.limits)
    with held(job.table), Crew(subject, job.table) as crew:
        found = statement(crew.about, load_table(job.table), suite_sources(), environment())
        if data["made"] and (wrong := differences(found, dict(data["made"]))):
            raise UsageError(f"a worker is not as the machine that started the run: {wrong}")
        answer({"lines": []})
        case = known_cases(job.table, job.seed).case
        for line in sys.stdin:
            answer({"lines": [to_line(result) for result in crew.run_named(json.loads(line), case, 1)]})


def as_data(job: Any) -> dict[str, Any]:
    """A Job in JSON."""
    return {**asdict(job), "tools": list(job.tools), "made": dict(job.made)}


if __name__ == "__main__":
    main()
