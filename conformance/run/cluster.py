"""Cases on the workers of a Dask scheduler, which need the suite and the backend installed, and the same ones."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import Any

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.record.provenance import differences, made_with
from npu_assay.conformance.run.cluster_worker import dismiss_all
from npu_assay.conformance.run.execution import Job, Pool

CONNECT = 10.0  # seconds that a scheduler may take to answer
PLAIN = ("", "tcp", "ucx", "ws")  # kinds of addresses that are not encrypted; tcp where none is named
ALONE = 60.0  # seconds that a run waits for a first, or for another, worker


def is_exposed(address: str) -> bool:
    """True for another machine's address without encryption: whoever reaches it runs code there, and reads along."""
    kind, _, rest = address.rpartition("://")
    host, port, _ = rest.rpartition(":")
    if kind not in PLAIN or not port:
        return False
    with suppress(ValueError):
        return not ip_address(host.strip("[]")).is_loopback
    return host != "localhost"


class Scheduler(Pool):
    """The workers of the scheduler at an address like tcp://host:8786 or tls://host:8786.

    Certificates and keys for tls:// are those of Dask's own configuration. Raises UsageError without the `dask` extra.
    """

    def __init__(self, address: str, alone: float = ALONE) -> None:
        try:
            from distributed import KilledWorker  # optional
        except ModuleNotFoundError as error:
            raise UsageError("--scheduler needs the package distributed: pip install 'npu-assay[dask]'") from error
        self.died = (KilledWorker,)
        self._address = address
        self._alone = alone
        self._client: Any = None
        self._seen = 0.0  # when there was a worker

    @contextmanager
    def _connected(self, job: Job) -> Iterator[Executor]:
        from distributed import Client  # optional

        for name in ("distributed", "tornado"):  # what went wrong is said once, by this module
            logging.getLogger(name).setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # versions are compared below
            try:
                self._client = Client(self._address, timeout=CONNECT, set_as_default=False)
            except (OSError, ValueError, TypeError, RuntimeError) as error:
                raise UsageError(f"{self}: no scheduler answers there ({_short(error)})") from error
        with self._client:
            self._seen = time.monotonic()
            while not self.width():
                time.sleep(0.2)
            self._compare(job)
            yield self._client.get_executor(pure=False)
            self._client.run(dismiss_all)

    def open(self, job: Job) -> Any:
        return self._connected(job)

    def __str__(self) -> str:
        return f"--scheduler {self._address}"

    def width(self) -> int:
        if self._client.status not in ("running", "connecting"):
            raise UsageError(f"{self}: the scheduler is gone; --resume goes on when there is one")
        threads = sum(int(worker["nthreads"]) for worker in self._workers().values())
        if threads:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > self._alone:
            raise UsageError(f"{self}: no worker in {self._alone:g} s; --resume goes on when there are some")
        return threads

    def _workers(self) -> dict[str, Any]:
        found: dict[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        return found

    def _compare(self, job: Job) -> None:
        """Refuse workers that would make other results, before any case runs. Later ones are refused as they come."""
        try:
            found = self._client.run(made_with)
        except ImportError as error:
            raise UsageError(f"{self}: a worker lacks the suite ({_short(error)})") from error
        expected = made_with()
        for worker, made in found.items():
            wrong = differences(made, expected)
            if wrong:
                raise UsageError(f"{self}: the environment of worker {worker} differs from this machine's: {wrong}")


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
