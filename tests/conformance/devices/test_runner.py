"""The runner that `assay new --device` writes, built and called as a board's: here, over ssh, and in whole runs."""

from __future__ import annotations

import getpass
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from npu_assay.conformance.backend import scaffold
from npu_assay.conformance.devices.call import Job
from npu_assay.conformance.devices.command import Command
from npu_assay.partitioners.exir.blob import pack

pytestmark = pytest.mark.long
SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
CODES = torch.arange(-128, 128, dtype=torch.int64).to(torch.int8)
X, Y = CODES.reshape(1, 256), CODES.reshape(256, 1)
Q = {"scale": 0.5, "zero_point": 3}


def model(
    op: str, arguments: dict[str, object], output: float, *operands: int, weight: torch.Tensor | None = None
) -> bytes:
    """An operator as the skeleton's compiler writes it, with inputs and perhaps a constant."""
    told = [{**Q, "input": number} for number in operands]
    told += [] if weight is None else [{"scale": 0.01, "zero_point": 0, "constant": 0}]
    y = {"scale": output, "zero_point": -7, "qmin": -128, "qmax": 127, "dtype": "int8"}
    return pack({"op": op, "arguments": arguments, "operands": told, "output": y}, [] if weight is None else [weight])


WEIGHT = (37 * torch.arange(256 * 9) % 255 - 127).to(torch.int8).reshape(256, 9)
IMAGE = CODES.repeat(3).reshape(2, 3, 8, 16)
# Every pair of codes in a sum, every code elsewhere; scales that round up and down.
MODELS = {
    "sum": (model("aten.add.Tensor", {"alpha": 1}, 0.977, 0, 1), (X, Y)),
    "product": (model("aten.mm.default", {}, 3.1, 0, weight=WEIGHT), (X,)),
    "mean": (model("aten.mean.dim", {"dim": [-1, 1], "keepdim": False}, 0.4, 0), (IMAGE,)),
    "mean, kept": (model("aten.mean.dim", {"dim": [2], "keepdim": True}, 0.3, 0), (IMAGE,)),
    "transposition": (model("aten.permute_copy.default", {"dims": [0, -1, 1, 2]}, 0.5, 0), (IMAGE,)),
    "table": (model("aten.sigmoid.default", {"first": -131}, 0.01, 0, weight=CODES.flip(0).contiguous()), (IMAGE,)),
}


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new backend's folder, its runner built."""
    folder = tmp_path_factory.mktemp("kit") / "my_npu"
    scaffold.write_kit("my_npu", folder, device=True)
    built(folder / "runner")
    return folder


def built(runner: Path) -> Path:
    """The program that CMake makes of a runner's folder."""
    build = runner / "build"
    for words in (["-S", str(runner), "-B", str(build)], ["--build", str(build)]):
        subprocess.run(["cmake", *words], check=True, capture_output=True)
    return build / "runner"


def certify(kit: Path, out: Path, *options: str, expected: int = 0) -> list[dict[str, object]]:
    """The results of a run of the kit's backend."""
    done = subprocess.run(command(out, *options), env=environment(kit), capture_output=True, text=True)
    assert done.returncode == expected, done.stdout + done.stderr
    return read(out / "results.jsonl")


def rerun(kit: Path, out: Path, *options: str) -> str:
    """What `assay verify` says of some cases that it runs again."""
    words = [sys.executable, "-m", "npu_assay", "verify", str(out), "--rerun", "3", *options]
    done = subprocess.run(words, env=environment(kit), capture_output=True, text=True)
    return done.stdout + done.stderr


def command(out: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "npu_assay", "certify", "my_npu:backend", "--out", str(out), *options]


def environment(kit: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(kit), os.environ.get("PYTHONPATH", "")))}


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", MODELS)
def test_it_computes_what_the_skeletons_python_computes(name: str, kit: Path) -> None:
    """Two programs in two languages, and every code: 0 differ."""
    spec = importlib.util.spec_from_file_location("kit_runtime", kit / "my_npu" / "runtime.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (blob, inputs), runtime = MODELS[name], module.MyNpuRuntime()
    (found,) = Command(f"{kit}/runner/build/runner {{folder}}").run(blob, inputs)
    (expected,) = runtime.execute(runtime.load(blob, ()), inputs)
    assert found.dtype == expected.dtype and torch.equal(found, expected)
    assert found.numel() > 1 and found.min() < found.max()


def test_it_says_what_it_does_not_take(kit: Path) -> None:
    device = Command(f"{kit}/runner/build/runner {{folder}}")
    other = model("aten.exp.default", {}, 0.5, 0)
    asked = [Job(other, (X,)), Job(b"noise", (X,)), Job(MODELS["sum"][0], (X,)), Job(MODELS["sum"][0], (X.float(), Y))]
    expected = ("found operator aten.exp.default", "not of this device", "", "expected int8 codes")
    for said, found in zip(expected, device.answers(asked), strict=True):
        assert isinstance(found, str) and said in found


def test_the_whole_table_runs_on_it_and_a_wrong_rounding_is_noticed(kit: Path, tmp_path: Path) -> None:
    device = f"{kit}/runner/build/runner {{folder}}"
    results = certify(kit, tmp_path / "right", "--variations", "none", "--device", device)
    assert len(results) > 200 and {each["status"] for each in results} == {"pass"}
    again = rerun(kit, tmp_path / "right", "--device", device)
    assert again.strip().endswith("reproduced in part (3 of 270 cases, to the byte)"), again
    assert "the record is of a device behind a command, found none here" in rerun(kit, tmp_path / "right")
    wrong = tmp_path / "runner"
    shutil.copytree(kit / "runner", wrong, ignore=shutil.ignore_patterns("build"))
    text = (wrong / "runner.cpp").read_text()
    (wrong / "runner.cpp").write_text(
        text.replace("(std::int64_t{1} << (shift - 1))", "(std::int64_t{1} << (shift - 2))")
    )
    device = f"{built(wrong)} {{folder}}"
    results = certify(kit, tmp_path / "wrong", "-k", "aten.mm.default", "--smoke", "--device", device, expected=1)
    assert any("gate" in str(each["failures"]) for each in results)


def test_a_board_that_dies_at_one_operator_keeps_no_other_from_passing(kit: Path, tmp_path: Path) -> None:
    script = tmp_path / "board.sh"
    script.write_text(f'grep -qr sigmoid "$1/in" && exit 9\nexec {kit}/runner/build/runner "$1"\n')
    results = certify(
        kit, tmp_path / "out", "--smoke", "--device", f"sh {script} {{folder}}", "--call-timeout", "20", expected=1
    )
    for each in results:
        dead = "sigmoid" in str(each["case"]) and each["partitions"]
        assert each["status"] == ("fail" if dead else "pass"), each
        assert not dead or "exit code 9" in str(each["failures"])


def test_a_run_that_was_interrupted_goes_on(kit: Path, tmp_path: Path) -> None:
    options = ("--device", f"{kit}/runner/build/runner {{folder}}", "--variations", "none", "-k", "add")
    running = subprocess.Popen(command(tmp_path, *options), env=environment(kit), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len([*lines_of(tmp_path)]) < 3 and time.monotonic() < deadline and running.poll() is None:
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 1
    before = len([*lines_of(tmp_path)])
    results = certify(kit, tmp_path, *options, "--resume")
    assert 3 <= before < len(results) and {each["status"] for each in results} == {"pass"}


def lines_of(folder: Path) -> Iterator[str]:
    """The results that stand in a run's journal."""
    for path in folder.glob("*.jsonl"):
        yield from path.read_text().splitlines()


# ------------------------------------------------------------------------------------ over ssh


@pytest.fixture
def ssh(kit: Path, tmp_path: Path) -> Iterator[Sequence[str]]:
    """A server on this machine that is a board: options of ssh that reach it, and its name."""
    if SSHD is None:
        pytest.skip("no sshd: Debian's package openssh-server has it")
    board = tmp_path / "board"
    board.mkdir()
    shutil.copy(kit / "runner" / "build" / "runner", board / "runner")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    (tmp_path / "known").write_text(f"* {(tmp_path / 'host.pub').read_text()}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where the server drops its rights, which Debian makes at boot
    settings = [
        f"ListenAddress=127.0.0.1:{port}",
        f"HostKey={tmp_path}/host",
        f"AuthorizedKeysFile={tmp_path}/user.pub",
    ]
    settings += ["PidFile=none", "StrictModes=no", "UsePAM=no", "PasswordAuthentication=no", "PermitRootLogin=yes"]
    settings += [f'ForceCommand=cd {board} && sh -c "$SSH_ORIGINAL_COMMAND"']
    server = subprocess.Popen(
        [SSHD, "-D", "-e", "-f", "/dev/null", *(f"-o{each}" for each in settings)], stderr=subprocess.PIPE
    )
    try:
        _wait_for(port)
        known = f"-o UserKnownHostsFile={tmp_path}/known -o StrictHostKeyChecking=yes -o BatchMode=yes"
        yield f"-F none -p {port} -i {tmp_path}/user {known}", f"{getpass.getuser()}@127.0.0.1"
    finally:
        server.terminate()
        server.communicate()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return


def test_a_board_over_ssh(kit: Path, ssh: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options, host = ssh
    monkeypatch.setenv("SSH_OPTIONS", options)
    device = f"sh {kit}/runner/on_board.sh {host} {{folder}}"
    results = certify(kit, tmp_path / "out", "--smoke", "--device", device)
    assert len(results) > 10 and {each["status"] for each in results} == {"pass"}
    monkeypatch.setenv("SSH_OPTIONS", options.replace(f"-i {tmp_path}/user", f"-i {tmp_path}/host"))
    (found,) = Command(device, 20.0, 20.0).answers([Job(MODELS["sum"][0], (X, Y))])
    assert isinstance(found, str) and "Permission denied" in found
