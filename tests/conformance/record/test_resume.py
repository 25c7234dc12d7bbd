"""A run that was killed, at whatever moment, certifies nothing, loses nothing, and is continued where it stood."""

from __future__ import annotations

import datetime
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import fake_backend
import pytest

from npu_assay.conformance.backend.environment import suite_sources
from npu_assay.conformance.isolation.forking import fork
from npu_assay.conformance.isolation.limits import Limits
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.names import CERTIFICATE, JOURNAL, RESULTS, PackageError
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.session import Request, assay
from npu_assay.conformance.verify.verification import verify

TODAY = datetime.date(2026, 6, 1)
MOMENTS = 50
CASES = 110


@pytest.fixture(autouse=True, scope="module")
def steady_sources() -> Iterator[None]:
    """Who edits the suite while this runs starts other runs, which must not continue the earlier ones."""
    sources = suite_sources()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("npu_assay.conformance.run.session.suite_sources", lambda: sources)
        yield


class Told:
    """Writes the name of each finished case to a file descriptor."""

    def __init__(self, file: int) -> None:
        self.file = file

    def started(self, cases: int) -> None:
        os.write(self.file, f"{cases} cases\n".encode())

    def finished(self, result: CaseResult) -> None:
        os.write(self.file, f"{result.case}\n".encode())


def request(folder: Path, **changes: object) -> Request:
    asked = Request("fake_backend:backend", None, Selection(), 2, folder, resume=True)
    return replace(asked, **changes)  # type: ignore[arg-type]  # names and values of its fields


def run(folder: Path, **changes: object) -> list[str]:
    """Run in this process; what it said: how many cases it began with, then the cases."""
    reading, writing = os.pipe()
    assay(request(folder, **changes), Told(writing), lambda: TODAY)
    os.close(writing)
    with open(reading) as told:
        return told.read().splitlines()


def killed(folder: Path, seconds: float, cases: int = CASES + 1) -> tuple[bool, list[str]]:
    """Run in a process group of its own and kill that after so many seconds, or so many cases: whether it ended by
    itself, and what it had said."""
    reading, writing = os.pipe()

    def action() -> None:
        os.setsid()
        os.close(reading)
        assay(request(folder), Told(writing), lambda: TODAY)

    process = fork(action)
    os.close(writing)
    os.set_blocking(reading, False)
    deadline, ended, said = time.monotonic() + seconds, 0, b""
    with open(reading, "rb") as told:
        while not ended and time.monotonic() < deadline and said.count(b"\n") <= cases:
            time.sleep(0.002)
            said += told.read() or b""
            ended, _ = os.waitpid(process, os.WNOHANG)
        if not ended:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
        said += told.read() or b""
    return bool(ended), said.decode().splitlines()


def journaled(folder: Path) -> list[str]:
    """The cases in a journal, but for a last line that was not written to its end."""
    if not (folder / JOURNAL).exists():
        return []
    return [json.loads(line)["case"] for line in (folder / JOURNAL).read_bytes().split(b"\n")[1:-1]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole")
    assert len(run(folder, resume=False)) == 1 + CASES
    return folder


def partial(whole: Path, folder: Path, lines: int) -> Path:
    """What an interrupted run of so many cases leaves."""
    folder.mkdir()
    seed = folder.parent / "seed"
    if not seed.exists():
        with pytest.raises(KeyboardInterrupt):
            assay(request(seed), Interrupts(lines), lambda: TODAY)
    shutil.copy(seed / JOURNAL, folder / JOURNAL)
    return folder


class Interrupts:
    """Ctrl-C after some cases."""

    def __init__(self, cases: int) -> None:
        self.left = cases

    def started(self, cases: int) -> None:
        pass

    def finished(self, result: CaseResult) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_killed_at_any_moment(whole: Path, tmp_path: Path) -> None:
    """Every other time while cases run, which is a small part of the time."""
    moments = random.Random(8)
    start = time.monotonic()
    killed(tmp_path / "timed", 60.0)
    longest = time.monotonic() - start
    folders, said = 0, list[str]()
    folder, kills = tmp_path / "0", 0
    while kills < MOMENTS:
        moment = (60.0, moments.randrange(CASES // 2)) if kills % 2 else (moments.uniform(0, longest),)
        ended, told = killed(folder, *moment)
        said += told[1:]
        kills += not ended
        assert len(set(said)) == len(said), "a finished case ran again"
        if (folder / CERTIFICATE).exists():
            assert (folder / RESULTS).read_bytes() == (whole / RESULTS).read_bytes()
            assert verify(folder, TODAY).certified
            folders, said = folders + 1, []
            folder = tmp_path / str(folders)
        else:
            assert not ended
            assert set(said) <= set(journaled(folder)), "a finished case is lost"
            assert not folder.exists() or not any(folder.iterdir()) or not verify(folder, TODAY).certified
    assert folders >= 2


def test_a_continued_run_runs_the_rest_and_ends_the_same(whole: Path, tmp_path: Path) -> None:
    folder = partial(whole, tmp_path / "out", 30)
    done = journaled(folder)
    assert len(done) == 30
    first, *told = run(folder)
    assert first == f"{CASES - 30} cases" and not set(told) & set(done)
    assert sorted(told + done) == sorted(
        json.loads(line)["case"] for line in (whole / RESULTS).read_text().splitlines()
    )
    for name in (RESULTS, CERTIFICATE):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    assert not (folder / JOURNAL).exists()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("cut", [-1, -40])
def test_a_last_line_without_its_end_runs_again(whole: Path, tmp_path: Path, cut: int) -> None:
    folder = partial(whole, tmp_path / "out", 30)
    (folder / JOURNAL).write_bytes((folder / JOURNAL).read_bytes()[:cut])
    assert run(folder)[0] == f"{CASES - 29} cases"
    assert (folder / RESULTS).read_bytes() == (whole / RESULTS).read_bytes()


@pytest.mark.long
def test_without_a_journal_or_its_first_line_a_run_begins(whole: Path, tmp_path: Path) -> None:
    folder = partial(whole, tmp_path / "out", 30)
    (folder / JOURNAL).write_bytes((folder / JOURNAL).read_bytes()[:50])
    assert run(folder)[0] == run(tmp_path / "new")[0] == f"{CASES} cases"


def test_a_run_that_ended_is_not_continued(whole: Path) -> None:
    with pytest.raises(PackageError, match="--resume: the run in it has ended; leave out --resume to run again"):
        run(whole)
    assert verify(whole, TODAY).certified


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"backend": "fake_backend:drifts"}, "backend: found fake_backend:backend, expected fake_backend:drifts"),
        ({"selection": Selection("neg")}, "selection: found all cases, expected -k 'neg'"),
        ({"selection": Selection(smoke=True)}, "selection: found all cases, expected --smoke"),
        ({"limits": Limits(5.0)}, "limits: found 120 s and 4096 MiB a case, expected 5 s and 4096 MiB a case"),
        ({"table": "other"}, "table: found fake@1.0 "),
    ],
)
@pytest.mark.sampled(2)
def test_the_journal_of_another_run_is_refused(
    whole: Path, tmp_path: Path, changes: dict[str, object], problem: str
) -> None:
    if "table" in changes:
        changes["table"] = str(tmp_path / "other.toml")
        (tmp_path / "other.toml").write_text(Path(fake_backend.TABLE).read_text() + "\n")
    refused(partial(whole, tmp_path / "out", 30), f": --resume: of another run: {problem}", **changes)


def refused(folder: Path, problem: str, **changes: object) -> None:
    before = (folder / JOURNAL).read_bytes()
    with pytest.raises(PackageError) as error:
        run(folder, **changes)
    assert problem in str(error.value) and str(error.value).endswith("leave out --resume to start from the beginning")
    assert (folder / JOURNAL).read_bytes() == before


def with_line(number: int, change: Callable[[str], str]) -> Callable[[list[str]], list[str]]:
    return lambda lines: [change(line) if index == number else line for index, line in enumerate(lines)]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (with_line(0, lambda line: line.replace("sources of the suite", "suite")), "of another run: sources of"),
        (with_line(0, lambda line: "{}"), "its first line does not say which run it is of"),
        (with_line(0, lambda line: "[1"), "its first line does not say which run it is of"),
        (with_line(4, lambda line: line[:-9]), "line 5: not a result record"),
        (with_line(4, lambda line: line.replace("aten.", "atem.")), "line 5: "),
        (lambda lines: [*lines[:4], lines[3], *lines[4:]], "the case stands there twice"),
    ],
)
@pytest.mark.sampled(2)
def test_a_damaged_journal_is_refused(
    whole: Path, tmp_path: Path, change: Callable[[list[str]], list[str]], problem: str
) -> None:
    folder = partial(whole, tmp_path / "out", 30)
    lines = (folder / JOURNAL).read_text().split("\n")
    (folder / JOURNAL).write_text("\n".join(change(lines)))
    refused(folder, problem)
