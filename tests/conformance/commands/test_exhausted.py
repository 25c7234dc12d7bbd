"""Too little of what a process needs is one line and exit code 2, whoever took it away; other errors stay errors."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from places import PATH

from npu_assay.conformance.commands.exhausted import LACKING, exhausted
from npu_assay.conformance.commands.help_texts import Commands
from npu_assay.conformance.record.names import CERTIFICATE

SCANT: dict[str, Callable[[], BaseException]] = {
    **{errno.errorcode[number]: lambda number=number: OSError(number, os.strerror(number)) for number in LACKING},  # type: ignore[misc]
    "Python": MemoryError,
    "C++": lambda: RuntimeError("std::bad_alloc"),
    "torch": lambda: RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
    "the loader": lambda: ImportError("libtorch_cpu.so: failed to map segment from shared object"),
    "threads": lambda: RuntimeError("can't start new thread"),
}


def command(error: BaseException) -> click.Group:
    """A group of commands, of which `list` ends with this error."""
    group = Commands("main")

    @group.command("list")
    def fails() -> None:
        try:
            raise error
        except OSError as known:
            raise ValueError("on the way") from known

    return group


@pytest.mark.parametrize("make", SCANT.values(), ids=[*SCANT])
def test_it_is_one_line(make: Callable[[], BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # which is quiet from there on
    found = CliRunner().invoke(command(make()), ["list"])
    assert found.exit_code == 2, found.exception
    assert found.stderr.startswith("assay: found too little ") and found.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), OSError(errno.ENOENT, "x"), OSError(errno.EINVAL, "x"), SystemError("x"), ImportError("x")],
)
def test_other_errors_are_shown_as_they_are(error: Exception) -> None:
    assert exhausted(error) is None
    assert isinstance(CliRunner().invoke(command(error), ["list"]).exception, type(error) | ValueError)


def assay(*arguments: str, limit: Callable[[], None] = lambda: None) -> tuple[int, str]:
    """Exit code and stderr of a command in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "npu_assay", *arguments],
        env={**os.environ, "PYTHONPATH": PATH},
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("mebibytes", [100, 300])
def test_a_limited_address_space(mebibytes: int, tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (mebibytes * 2**20,) * 2)

    code, said = assay("certify", "fake_backend:backend", "--out", str(tmp_path / "out"), limit=limit)
    assert code == 2 and said.startswith("assay: found too little memory") and said.count("\n") == 1, said
    assert not (tmp_path / "out").exists()


@pytest.mark.long
@pytest.mark.parametrize("name", ["few_files", "no_files", "no_writing", "no_space"])
def test_a_backend_that_limits_the_run(name: str, tmp_path: Path) -> None:
    """It may, with the rights of the same user; no certificate comes of it, and no traceback."""
    code, said = assay("certify", f"limiting_backends:{name}", "-n", "1", "--out", str(tmp_path / "out"))
    lines = [line for line in said.splitlines() if " cases" not in line]
    assert code == 2 and len(lines) == 1 and lines[0].startswith("assay: "), said
    assert not (tmp_path / "out" / CERTIFICATE).exists()
