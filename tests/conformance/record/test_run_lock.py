"""One folder, one run at a time: a second one is refused, and the lock ends with the process that has it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from calling import assay

from npu_assay.conformance.isolation.forking import fork
from npu_assay.conformance.record.journal import journal
from npu_assay.conformance.record.names import CERTIFICATE, JOURNAL, RESULTS, PackageError
from tests.conformance.commands.test_cli import child

IDENTITY = {"backend": "fake"}
ASKED = ("certify", "fake_backend:slow", "-n", "1", "-k", "neg and accept", "--out")


def cases_in(path: Path) -> list[str]:
    """The cases in a journal or in results."""
    records = map(json.loads, path.read_text().splitlines())
    return [record["case"] for record in records if "case" in record]


def await_cases(run: subprocess.Popen[str], folder: Path, count: int) -> list[str]:
    """The cases in the journal of a run that goes on, as soon as there are so many."""
    path = folder / JOURNAL
    while not path.exists() or path.read_bytes().count(b"\n") <= count:
        assert run.poll() is None
        time.sleep(0.02)
    return cases_in(path)


@pytest.mark.slow
def test_a_second_run_into_the_same_folder_is_refused_and_the_first_is_unharmed(tmp_path: Path) -> None:
    """The first goes on; when it is killed its lock is gone at once, and nothing of it is lost."""
    folder = tmp_path / "out"
    with child(*ASKED, str(folder)) as run:
        try:
            before = await_cases(run, folder, 2)
            os.kill(run.pid, signal.SIGSTOP)  # it does not end before the others have started
            for more in ((), ("--resume",)):
                code, text = assay(*ASKED, str(folder), *more)
                assert code == 2 and text.count("\n") == 1
                assert f"{folder}: another run is writing into it; expected another --out DIR" in text
            os.kill(run.pid, signal.SIGCONT)
            after = await_cases(run, folder, len(before) + 1)
            assert after[: len(before)] == before
        finally:
            os.killpg(run.pid, signal.SIGKILL)
    assert assay(*ASKED, str(folder), "--resume")[0] == 0
    finished = cases_in(folder / RESULTS)
    assert set(after) < set(finished) and len(set(finished)) == len(finished)
    assert not (folder / JOURNAL).exists()


def test_a_copy_of_the_process_does_not_keep_the_lock(tmp_path: Path) -> None:
    """The run forks the process that loads backends again when that died, which may outlive it."""
    with journal(tmp_path, IDENTITY, ()):
        copy = fork(lambda: time.sleep(60))
        with pytest.raises(PackageError, match="another run is writing into it"), journal(tmp_path, IDENTITY, ()):
            pass
    try:
        with journal(tmp_path, IDENTITY, (), resume=True) as again:
            assert again.finished == ()
    finally:
        os.kill(copy, signal.SIGKILL)
        os.waitpid(copy, 0)


def test_a_refused_resume_leaves_no_journal(tmp_path: Path) -> None:
    (tmp_path / CERTIFICATE).write_text("{}")
    with pytest.raises(PackageError, match="the run in it has ended"), journal(tmp_path, IDENTITY, (), resume=True):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [CERTIFICATE]
