"""Cases for a worker of a cluster, in a process of its own, with the same isolation as on one machine.

A cluster's worker has threads and open connections that a fork would copy, and modules that it loaded long ago. So the
worker starts `cluster_process`, which loads suite and backend as they are now.
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


class WorkerProcessError(RuntimeError):
    """The process ended without an answer."""


class WorkerProcess:
    """The process, as the worker sees it. Raises UsageError when it cannot run this job's cases as they should be."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "npu_assay.conformance.run.cluster_process"],
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
        """The lines of these cases' results. Raises WorkerProcessError when the process ends."""
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
            raise WorkerProcessError(str(error)) from error
        if not line:
            raise WorkerProcessError(
                f"the process that runs cases for a worker ended (exit code {self._process.wait()})"
            )
        answer = json.loads(line)
        if "refused" in answer:
            raise UsageError(answer["refused"])
        return answer["lines"]


# ------------------------------------------------------------------------------------ in a worker

_LOCK = threading.Lock()
_KEPT: dict[int, tuple[str, WorkerProcess]] = {}  # by the worker's threads, each with what it was started for


def run_lines(job: Mapping[str, Any], ids: Sequence[str]) -> list[str]:
    """What a worker is asked to do: the lines of these cases' results, from this thread's own process.

    A process that is ended from outside is replaced once; cases cannot end it, they run in processes of their own.
    """
    process = _own(job)
    try:
        return process.run(ids)
    except WorkerProcessError:
        dismiss(process)
    process = _own(job)
    try:
        return process.run(ids)
    except WorkerProcessError:
        dismiss(process)
        raise


def _own(job: Mapping[str, Any]) -> WorkerProcess:
    key, thread = json.dumps(job, sort_keys=True), threading.get_ident()
    known, process = _KEPT.get(thread, ("", None))
    if process is not None and known == key:
        return process
    if process is not None:
        dismiss(process)
    process = WorkerProcess(job)
    with _LOCK:
        _KEPT[thread] = key, process
    return process


def dismiss(process: WorkerProcess) -> None:
    """End a process."""
    with _LOCK:
        for thread in [thread for thread, (_, kept) in _KEPT.items() if kept is process]:
            del _KEPT[thread]
    process.close()


def dismiss_all() -> None:
    """End the processes of this worker: the run is over."""
    for _, process in list(_KEPT.values()):
        dismiss(process)


def as_data(job: Any) -> dict[str, Any]:
    """A Job in JSON."""
    return {**asdict(job), "tools": list(job.tools), "made": dict(job.made)}
