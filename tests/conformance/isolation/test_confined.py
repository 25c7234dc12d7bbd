"""`assay run` and `assay inspect` of hostile files: one clear error each, and nothing else on the terminal."""

from __future__ import annotations

import os
import pty
import resource
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from places import SHARED
from pte_programs import added, delegated, plan

from npu_assay.conformance.backend.loading import by_delegate
from npu_assay.conformance.cli import main
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.isolation.limits import Limits
from npu_assay.conformance.isolation.sandbox import confined
from npu_assay.partitioners.exir.pte import KernelCall, Operator, Program, write


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Installed backends are loaded once here, and not in every process that is forked."""
    by_delegate()


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "npu_assay", *map(str, arguments)]


def assay(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def real(*arguments: str | Path) -> tuple[int, str, str]:
    """The same of the command in a new process."""
    environment = {**os.environ, "PYTHONPATH": str(SHARED)}
    run = subprocess.run(command(*arguments), capture_output=True, text=True, env=environment, timeout=300, check=False)
    return run.returncode, run.stdout, run.stderr


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.pte"
    path.write_bytes(write(delegated()))
    return path


@pytest.mark.long
@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("crash", "its process was ended by signal SIGSEGV"),
        ("abort", "its process was ended by signal SIGABRT"),
        ("hang", "no answer in 3 s: give a larger --timeout"),
        ("spin", "no answer in 3 s: give a larger --timeout"),
        ("stop", "no answer in 3 s: give a larger --timeout"),
        ("hoard", "needs more than 256 MiB (--memory)"),
        ("leave", "its process ended without an answer, with exit code 0"),
        ("close", "its process closed the connection without an answer"),
        ("nonsense", "its process gave no valid answer"),
        ("system_exit", r"SystemExit: \x1b[31mnews"),
        ("odd", r"OddError: \x1b[31mnews"),
    ],
)
def test_whatever_happens_in_the_process_is_one_line_and_exit_2(name: str, message: str, model: Path) -> None:
    out = model.with_name("out.npz")
    out.write_bytes(b"as it was")
    arguments = ("--random", "0", "--timeout", "3", "--memory", "256", "--out", out, "--force")
    code, shown, told = assay("run", model, "--backend", f"hostile_runtimes:{name}", *arguments)
    assert (code, shown) == (2, ""), told
    assert told.startswith("assay: ") and message in told and len(told.splitlines()) == 1
    assert sorted(path.name for path in model.parent.iterdir()) == ["model.pte", "out.npz"]
    assert out.read_bytes() == b"as it was"


def test_the_command_outlives_what_it_runs(model: Path) -> None:
    code, shown, told = real("run", model, "--random", "0", "--backend", "hostile_runtimes:crash")
    assert (code, shown, told) == (2, "", f"assay: {model}: its process was ended by signal SIGSEGV\n")


def test_nothing_of_the_process_reaches_the_terminal(model: Path) -> None:
    process, terminal = pty.fork()
    if not process:
        os.environ["PYTHONPATH"] = str(SHARED)
        arguments = command("run", model, "--random", "0", "--backend", "hostile_runtimes:shout")
        os.execv(arguments[0], arguments)
    shown = _read(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0, shown
    assert b"float32[2, 3]" in shown and b"certified" not in shown


def _read(terminal: int) -> bytes:
    pieces = list[bytes]()
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the other end is closed, as Linux says it
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(terminal)
    return b"".join(pieces)


@pytest.mark.parametrize("name", ["aten::from_file", "aten::_print", "prim::RaiseException"])
def test_a_file_cannot_call_what_reads_files_or_prints(name: str, tmp_path: Path) -> None:
    (method,) = added().plans
    secret, model = tmp_path / "secret", tmp_path / "model.pte"
    secret.write_bytes(b"secret")
    values = (str(secret), True, 6, 0, None, None, None, method.values[3])
    calls = [KernelCall(0, (0, 1, 2, 3, 4, 5, 6, 7, 7))]
    operator = Operator(name, "out" if name == "aten::from_file" else "")
    model.write_bytes(write(Program((plan(values, [operator], calls, [], [7]),))))
    code, shown, told = assay("run", model, "--random", "0")
    assert (code, shown) == (2, "") and f"operator: found '{name}." in told and len(told.splitlines()) == 1
    assert secret.read_bytes() == b"secret"


def test_names_in_a_file_are_shown_as_escapes(tmp_path: Path) -> None:
    (method,) = added().plans
    model = tmp_path / "model.pte"
    escaped = replace(method, name="\x1b[31m\u202eforward", operators=(Operator("aten::\x1b[2Jadd", "out"),))
    model.write_bytes(write(Program((escaped,))))
    code, shown, told = assay("inspect", model)
    assert (code, told) == (0, "") and "\x1b" not in shown and "\u202e" not in shown
    assert r"\x1b[31m\u202eforward" in shown and r"aten::\x1b[2Jadd.out" in shown


def test_a_model_that_is_an_endless_file_ends() -> None:
    code, shown, told = assay("inspect", "/dev/zero", "--memory", "200", "--timeout", "60")
    assert (code, shown, told) == (2, "", "assay: /dev/zero: cannot be read: found a device, expected a regular file\n")


def test_a_model_that_nobody_writes_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "model.pte"
    os.mkfifo(pipe)
    code, shown, told = assay("inspect", pipe, "--timeout", "2")
    assert (code, shown, told) == (2, "", f"assay: {pipe}: cannot be read: found a pipe, expected a regular file\n")


def test_what_the_work_returns_or_raises_arrives() -> None:
    with pytest.raises(UsageError, match=r"^mine$"):
        confined(lambda: _refuse, Limits(60, 100), "x")
    assert confined(lambda: lambda: b"\0" * 2**20, Limits(60, 100), "x") == b"\0" * 2**20


def _refuse() -> bytes:
    raise UsageError("mine")


def test_answers_are_limited() -> None:
    with pytest.raises(UsageError, match=r"^x: needs more than 4 MiB"):
        confined(lambda: lambda: np.zeros(2**25, np.uint8).tobytes(), Limits(60, 4), "x")


class Uncopied(bytes):
    """An answer that there is no memory to put together with anything."""

    def __radd__(self, other: bytes) -> bytes:
        raise MemoryError


def test_an_answer_is_sent_as_it_is() -> None:
    assert confined(lambda: lambda: Uncopied(b"x"), Limits(60, 64), "x") == b"x"


def test_arenas_that_are_too_large_together_are_never_made(tmp_path: Path) -> None:
    """A few hundred bytes that ask for four arenas, each within the limit."""
    (method,) = added().plans
    model = tmp_path / "model.pte"
    model.write_bytes(write(Program((replace(method, buffer_sizes=(0, *[2**31] * 4)),))))
    assert model.stat().st_size < 2000
    code, shown, told = assay("run", model, "--random", "0")
    assert (code, shown) == (2, "") and "memory in all: found 8589934592 bytes, expected at most 4294967296" in told


def test_arenas_within_the_limit_take_no_memory_before_they_are_used(tmp_path: Path) -> None:
    (method,) = added().plans
    model = tmp_path / "model.pte"
    model.write_bytes(write(Program((replace(method, buffer_sizes=(0, *[2**28] * 3)),))))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    code, _, told = assay("run", model, "--random", "0")
    assert code == 0, told
    mine = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < max(before, mine) + 2**18  # KiB on Linux


def test_arrays_that_unpack_to_far_more_are_not_unpacked(tmp_path: Path) -> None:
    bomb, model = tmp_path / "bomb.npz", tmp_path / "model.pte"
    model.write_bytes(write(added()))
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as member:
        for _ in range(128):
            member.write(bytes(2**20))
    code, shown, told = assay("run", model, "--inputs", bomb, "--memory", "64")
    assert (code, shown) == (2, "") and "bomb.npz: not an .npy or .npz file of plain arrays: 'x.npy': " in told
    assert "bytes that unpack to 134217728" in told and len(told.splitlines()) == 1
