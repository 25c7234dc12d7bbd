"""Files are written whole or not at all: on a disk that takes no more, what stood there stays and no draft is left.

The disk is a real one with a real limit on the size of a file, in a process of its own.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import fake_backend
import numpy as np
import pytest
from click.testing import CliRunner
from pte_programs import added

from npu_assay.conformance.cli import main
from npu_assay.conformance.common.files import new_folder
from npu_assay.conformance.record.names import JOURNAL
from npu_assay.files import replacing, write_whole
from npu_assay.partitioners.exir.pte import write

NEG = "aten.neg.default/operator/accept/baseline"
CERTIFY = ("certify", "fake_backend:backend", "-k", NEG, "-n", "1", "--out", "run")
CODE = "from npu_assay.conformance.cli import main; main(prog_name='assay')"


def limited(folder: Path, size: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command where no file may hold more than `size` bytes."""
    return subprocess.run(
        [sys.executable, "-c", CODE, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(fake_backend.__file__).parent)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def refused(found: subprocess.CompletedProcess[str], file: str) -> None:
    assert found.returncode == 2, found.stdout + found.stderr
    assert found.stderr == f"assay: {file}: cannot be written: File too large\n"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.slow
def test_a_run_leaves_its_journal_and_goes_on_later(tmp_path: Path) -> None:
    refused(limited(tmp_path, 8 * 1024, *CERTIFY), "run")
    assert names(tmp_path / "run") == [JOURNAL]
    more = limited(tmp_path, 2**20, *CERTIFY, "--resume")
    assert more.returncode == 0, more.stderr
    assert JOURNAL not in names(tmp_path / "run")


def test_an_archive_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, CERTIFY).exit_code == 0
    refused(limited(tmp_path, 8 * 1024, "package", "run"), "run.zip")
    assert names(tmp_path) == ["run"]
    Path("run.zip").write_text("mine")
    refused(limited(tmp_path, 8 * 1024, "package", "run"), "run.zip")
    assert names(tmp_path) == ["run", "run.zip"] and Path("run.zip").read_text() == "mine"


@pytest.mark.long
def test_outputs_are_whole_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "model.pte").write_bytes(write(added()))
    (tmp_path / "out.npz").write_text("mine")
    refused(limited(tmp_path, 100, "run", "model.pte", "--random", "0", "--force", "--out", "out.npz"), "out.npz")
    assert names(tmp_path) == ["model.pte", "out.npz"] and (tmp_path / "out.npz").read_text() == "mine"
    done = limited(tmp_path, 2**20, "run", "model.pte", "--random", "0", "--force", "--out", "out.npz")
    assert done.returncode == 0 and list(np.load(tmp_path / "out.npz")) == ["output_0"]


# ------------------------------------------------------------------------------------ the function itself


def test_files_take_their_places_together(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "a", tmp_path / "b") as drafts:
        drafts[0].write_text("new")
        raise KeyboardInterrupt
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_text() == "old"
    with replacing(tmp_path / "a", tmp_path / "b") as drafts:
        for draft in drafts:
            draft.write_text("new")
    assert names(tmp_path) == ["a", "b"] and (tmp_path / "a").read_text() == "new"


def test_a_folder_takes_its_place_whole(tmp_path: Path) -> None:
    """Also where a process of the same number was killed while it wrote, as in containers."""
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "a") as draft:
        (draft / "x").write_text("new")
        raise KeyboardInterrupt
    assert names(tmp_path) == []
    draft.mkdir()
    (draft / "old").write_text("of a killed process")
    with new_folder(tmp_path / "a") as again:
        (again / "x").write_text("new")
    assert again == draft and names(tmp_path) == ["a"] and names(tmp_path / "a") == ["x"]


def test_what_is_no_file_stays(tmp_path: Path) -> None:
    """A device or a pipe is not replaced by a file, not even for root."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(OSError, match="not a regular file"):
            write_whole(tmp_path / name, b"new")
    assert names(tmp_path) == ["folder", "pipe"] and (tmp_path / "pipe").is_fifo()
