"""A run on a real Dask scheduler and two workers: the same results, whoever dies on the way."""

from __future__ import annotations

import datetime
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import fake_backend
import pytest
from click.testing import CliRunner
from places import PATH, ROOT, SHARED
from scheduler_keys import environment

from npu_assay.conformance.backend.environment import suite_sources
from npu_assay.conformance.cli import main
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.isolation.limits import Limits
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.names import CERTIFICATE, FUZZ, JOURNAL, RESULTS
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.cluster import Scheduler
from npu_assay.conformance.run.cluster_worker import WorkerProcess, as_data
from npu_assay.conformance.run.execution import Job
from npu_assay.conformance.run.session import Request, assay

TODAY = datetime.date(2026, 6, 1)
CASES = 110


def started(*arguments: str, path: str = "") -> subprocess.Popen[bytes]:
    """A Python process that finds the suite, and `path` before it."""
    places = [*([path] if path else []), str(ROOT), str(SHARED)]
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH": "0"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


@dataclass
class Cluster:
    """A scheduler and its workers, each a process."""

    scheduler: subprocess.Popen[bytes]
    address: str
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @classmethod
    def start(cls, protocol: str = "tcp") -> Cluster:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        address = f"{protocol}://127.0.0.1:{port}"
        arguments = ("--host", f"{protocol}://127.0.0.1", "--port", str(port), "--no-dashboard")
        return cls(started("-m", "distributed.cli.dask_scheduler", *arguments), address)

    def add(self, path: str = "") -> None:
        """One more worker, without a nanny who would replace it."""
        options = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--death-timeout", "30")
        self.workers.append(started("-m", "distributed.cli.dask_worker", self.address, *options, path=path))

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            if process.poll() is None:
                kill(process)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster.start()
    try:
        cluster.add()
        cluster.add()
        yield cluster
    finally:
        cluster.end()


@pytest.fixture(scope="module")
def single() -> Iterator[Cluster]:
    """One worker."""
    cluster = Cluster.start()
    try:
        cluster.add()
        yield cluster
    finally:
        cluster.end()


class Told:
    """Does something after so many cases."""

    def __init__(self, cases: int = 0, action: Callable[[], object] = lambda: None) -> None:
        self.left, self.action = cases, action

    def started(self, cases: int) -> None:
        pass

    def finished(self, result: CaseResult) -> None:
        self.left -= 1
        if self.left == 0:
            self.action()


def run(folder: Path, cluster: Cluster | None, told: Told | None = None, **changes: object) -> Path:
    pool = None if cluster is None else Scheduler(cluster.address, alone=1.0 if not cluster.workers else 60.0)
    asked = Request("fake_backend:slow", None, Selection(), 2, folder, pool=pool)
    assay(replace(asked, **changes), told or Told(), lambda: TODAY)  # type: ignore[arg-type]  # its fields
    return folder


def names(folder: Path, file: str = JOURNAL) -> list[str]:
    """The cases in a journal or in the results."""
    whole = (folder / file).read_text().split("\n")[:-1]
    return [json.loads(line)["case"] for line in whole if not line.startswith('{"run"')]


@pytest.fixture(scope="module", autouse=True)
def steady_sources() -> Iterator[None]:
    """Who edits the suite while this runs makes the workers differ from this process."""
    sources = suite_sources()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("npu_assay.conformance.run.session.suite_sources", lambda: sources)
        yield


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on this machine."""
    return run(tmp_path_factory.mktemp("local"), None)


def assert_same(folder: Path, local: Path) -> None:
    """Byte for byte, each case once."""
    found = names(folder, RESULTS)
    assert len(found) == len(set(found)) == CASES
    for name in (RESULTS, CERTIFICATE):
        assert (folder / name).read_bytes() == (local / name).read_bytes()


@pytest.mark.slow
def test_one_of_two_workers_is_killed(cluster: Cluster, local: Path, tmp_path: Path) -> None:
    told = Told(CASES // 4, lambda: kill(cluster.workers[0]))
    assert_same(run(tmp_path / "out", cluster, told), local)
    assert told.left == CASES // 4 - CASES and cluster.workers[0].returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_scheduler_is_killed_and_another_goes_on(cluster: Cluster, local: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UsageError, match="--resume goes on"):
        run(out, cluster, Told(30, lambda: kill(cluster.scheduler)))
    done = names(out)
    assert 30 <= len(done) < CASES and not (out / CERTIFICATE).exists()
    cluster.end()
    other = Cluster.start()
    try:
        other.add()
        told = Told()
        assert_same(run(out, other, told, resume=True), local)
        assert told.left == len(done) - CASES
    finally:
        other.end()


def test_without_workers(tmp_path: Path) -> None:
    cluster = Cluster.start()
    try:
        with pytest.raises(UsageError, match="no worker in 1 s; --resume goes on when there are some"):
            run(tmp_path / "out", cluster)
    finally:
        cluster.end()


@pytest.mark.long
@pytest.mark.parametrize(("name", "failure"), [("segfaults", "SIGSEGV"), ("hangs", "no answer in 1.5 s")])
def test_a_case_is_isolated_on_a_worker(single: Cluster, tmp_path: Path, name: str, failure: str) -> None:
    asked: dict[str, Any] = {
        "backend": f"hostile_backends:{name}",
        "selection": Selection("neg and baseline or abs and size"),
        "limits": Limits(1.5, 256),
    }
    here, there = (run(tmp_path / str(bool(where)), where, None, **asked) / RESULTS for where in (None, single))
    assert there.read_bytes() == here.read_bytes()
    assert failure in there.read_text()


@pytest.mark.long
def test_random_numbers_and_programs_are_the_same_on_a_worker(single: Cluster, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"backend": "fake_backend:drifts", "selection": Selection("baseline", seed=4), "fuzz": 12}
    here, there = (run(tmp_path / str(bool(where)), where, None, **asked) for where in (None, single))
    for name in (RESULTS, FUZZ):
        assert (there / name).read_bytes() == (here / name).read_bytes()
    assert '"status":"fail"' in (here / FUZZ).read_text()
    usual = run(tmp_path / "usual", None, None, **{**asked, "selection": Selection("baseline")})
    assert (usual / RESULTS).read_bytes() != (here / RESULTS).read_bytes()


def test_a_worker_with_another_library_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other" / "numpy-1.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 1.0\n")
    cluster = Cluster.start()
    try:
        cluster.add(path=str(other.parent))
        with pytest.raises(
            UsageError, match=r"differs from this machine's: version of numpy: found 1\.0, expected 2\."
        ):
            run(tmp_path / "out", cluster)
    finally:
        cluster.end()
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_a_worker_that_comes_later_is_compared_too() -> None:
    job = Job("fake_backend:backend", fake_backend.TABLE, made=(("version of torch", "1.0"),))
    with pytest.raises(UsageError, match=r"version of torch: found 2\S*, expected 1\.0"):
        WorkerProcess(as_data(job))


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("tcp://127.0.0.1:1", "no scheduler answers there"),
        ("nonsense", "no scheduler answers there"),
        ("carrier-pigeon://home:1", "no scheduler answers there"),
    ],
)
def test_no_scheduler(address: str, problem: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("npu_assay.conformance.run.cluster.CONNECT", 0.5)
    arguments = ("certify", "fake_backend:backend", "--scheduler", address, "--out", str(tmp_path / "out"))
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
    assert result.output.startswith(f"assay: --scheduler {address}: {problem}")
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------------------------ who is kept out

TLS = """
import sys
from npu_assay.conformance.cli import main
main(["certify", "fake_backend:backend", "-k", "baseline", "--scheduler", sys.argv[1], "--out", sys.argv[2]])
"""


def certified(address: str, folder: Path, keys: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """`assay certify` in a process of its own: Dask reads its configuration when it is imported."""
    return subprocess.run(
        [sys.executable, "-c", TLS, address, str(folder)],
        env={**os.environ, "PYTHONPATH": PATH, **keys},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.long
def test_tls_takes_those_with_a_key_and_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, others = (environment(tmp_path / name, name) for name in ("ours", "others"))
    with monkeypatch.context() as patch:
        for key, path in ours.items():
            patch.setenv(key, path)
        cluster = Cluster.start("tls")
        cluster.add()
    try:
        done = certified(cluster.address, tmp_path / "out", ours)
        assert done.returncode == 0 and (tmp_path / "out" / RESULTS).exists(), done.stderr
        assert "warning" not in done.stderr
        for name, keys in (("others", others), ("none", {})):
            refused = certified(cluster.address, tmp_path / f"of_{name}", keys)
            assert refused.returncode == 2 and not (tmp_path / f"of_{name}").exists(), refused.stderr
            assert refused.stderr.startswith(f"assay: --scheduler {cluster.address}: no scheduler answers there")
            assert refused.stderr.count("\n") == 1, refused.stderr
    finally:
        cluster.end()


@pytest.mark.parametrize(
    ("address", "exposed"),
    [
        ("tcp://127.0.0.1:8786", False),
        ("127.0.0.1:8786", False),
        ("tcp://127.8.9.10:8786", False),
        ("tcp://[::1]:8786", False),
        ("localhost:8786", False),
        ("tls://10.0.0.1:8786", False),
        ("wss://host:8786", False),
        ("tcp://10.0.0.1:8786", True),
        ("10.0.0.1:8786", True),
        ("tcp://0.0.0.0:8786", True),
        ("tcp://[2001:db8::1]:8786", True),
        ("tcp://host:8786", True),
        ("ws://host:8786", True),
        ("host", False),  # no port, which is refused
        ("carrier-pigeon://host:1", False),
        ("tcp://localhost.example:8786", True),
        ("tcp://127.0.0.1.example:8786", True),
    ],
)
def test_plain_tcp_to_another_machine_is_warned_of_once(
    address: str, exposed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connected(*_: object) -> None:
        raise UsageError("asked")

    monkeypatch.setattr(Scheduler, "open", connected)
    found = CliRunner().invoke(
        main, ["certify", "fake_backend:backend", "--scheduler", address, "--out", str(tmp_path / "out")]
    )
    assert found.exit_code == 2 and "assay: asked" in found.stderr
    warned = f"warning: --scheduler {address}: plain tcp to another machine; whoever reaches it runs code as the"
    assert found.stderr.count("warning: ") == found.stderr.count(warned) == int(exposed), found.stderr
