"""Bad input to every command: one line that names it, exit code 2, no traceback, and nothing left behind."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from npu_assay.conformance.cli import main
from npu_assay.conformance.record.names import CERTIFICATE, RESULTS, TABLE
from tests.conformance.commands.test_help import ALL

NEG = "aten.neg.default/operator/accept/baseline"
FILES = {
    "junk.toml": b"[[[",
    "wrong.toml": b'name = "x"\n',
    "bytes.toml": b"\xff\xfe",
    "waivers.toml": b"[[waiver]]\nfoo = 1\n",
    "junk.pt2": b"hello",
    "junk.pte": b"x" * 200,
    "junk.npz": b"zz",
    "junk.zip": b"PK\x03\x04" + bytes(40),
    "junk.pem": b"no key",
    "junk.csv": b"\xff",
    "three.py": b"def make():\n    return 3\n\n\nbackend = 3\n",
}
LINES = [
    # names and files of tables, waivers, backends
    "show neutron nosuch",
    "show neutron aten.abs.default/nosuch",
    "show neutron --table junk.toml",
    "certify neutron --table wrong.toml",
    "certify neutron --table bytes.toml",
    "certify neutron --table folder",
    "certify neutron --waivers junk.toml",
    "certify neutron --waivers bytes.toml",
    "certify neutron --waivers waivers.toml",
    "certify neutron --waivers folder",
    "certify three:backend",
    "certify three:nosuch",
    "certify :",
    "certify litert:nosuch",
    "certify fake_backend:backend -k abs --debug",
    "certify fake_backend:backend --shard 3/2",
    "certify fake_backend:backend --level nosuch",
    "certify fake_backend:backend --with-vela",
    "certify fake_backend:backend --out junk.toml",
    "certify fake_backend:backend --out junk.toml/below",
    "offer nosuch",
    "reach neutron -k nosuch",
    "reach neutron --of nosuch",
    "mutate neutron -k nosuch",
    "characterize neutron -k nosuch",
    "release executorch==1.5.1 nosuch==1.0",
    "export neutron out -k nosuch",
    "export neutron junk.toml -k abs",
    "table lint nosuch",
    "table lint junk.toml",
    "table coverage wrong.toml",
    "table diff neutron@1.3 nosuch",
    "table import nosuch.csv --name mine --out mine.toml",
    "table import junk.csv --name mine --out mine.toml",
    "table reference bytes.toml",
    "table upgrade wrong.toml",
    "new 1abc",
    "new folder",
    "new torch",
    # records
    "verify nosuch",
    "verify junk.zip",
    "verify folder",
    "verify run --key junk.pem",
    "verify run --rerun 1 --key nosuch",
    "attest run --key junk.pem",
    "attest nosuch --key junk.pem",
    "submit --check nosuch",
    "submit --check junk.toml",
    "package nosuch",
    "package run --out run/inside.zip",
    "package run --out junk.toml/run.zip",
    "drift folder",
    "drift cut",
    "drift run --json --markdown",
    "diff run nosuch",
    "diff cut run",
    "diff run untold --html page.html",
    "diff run run --html junk.toml/page.html",
    "diff run run --json --markdown",
    "merge nosuch --out out",
    "merge run --out out",
    "report cut --out page.html",
    "report run --since untold --out page.html",
    "report run --out junk.toml/page.html",
    "board nosuch --out site",
    "board cut untold --out site",
    "board run --out junk.toml",
    "board run --out junk.toml/below",
    # models, programs, cases of other toolchains
    "judge folder --outputs folder",
    "judge nosuch --outputs folder",
    "explain junk.pt2 --backend neutron",
    "explain three:make --backend neutron",
    "explain three:make --backend nosuch",
    "explain folder --backend neutron",
    "reduce junk.pt2 --backend neutron --of crash --out part.py",
    "reduce junk.pt2 --backend neutron --of nosuch --out part.py",
    "inspect nosuch.pte",
    "inspect junk.pte --json",
    "inspect folder",
    "run junk.pte --random 0",
    "run nosuch.pte --inputs junk.npz",
    "list nosuch",
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one case."""
    folder = tmp_path_factory.mktemp("recorded") / "run"
    found = CliRunner().invoke(main, ["certify", "fake_backend:backend", "-k", NEG, "-n", "1", "--out", str(folder)])
    assert found.exit_code == 0, found.output
    return folder


def prepared(folder: Path, recorded: Path) -> None:
    """The files that LINES speak of: none of them is what it should be but `run`."""
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    (folder / "folder").mkdir()
    for name in ("run", "cut", "untold"):
        shutil.copytree(recorded, folder / name)
    results = folder / "cut" / RESULTS
    results.write_bytes(results.read_bytes()[:-9])
    (folder / "untold" / CERTIFICATE).write_text("{")
    (folder / "untold" / TABLE).unlink()


def everything(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@pytest.mark.parametrize("line", LINES)
def test_it_is_one_error(line: str, recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "three", raising=False)
    prepared(tmp_path, recorded)
    before = everything(tmp_path)
    found = CliRunner().invoke(main, shlex.split(line))
    assert isinstance(found.exception, SystemExit) and found.exit_code == 2, (found.output, found.exception)
    told = found.stderr.splitlines()
    assert found.stdout == "" and (told[0].startswith("Usage: ") or len(told) == 1), found.output
    assert told[-1].startswith(("assay: ", "Error: ")) and "Errno" not in told[-1] and "codec" not in told[-1]
    assert everything(tmp_path) == before


def test_every_command_is_tried() -> None:
    single = {name for name, command in ALL.items() if not isinstance(command, click.Group)}
    assert single == {name for name in single if any(line.startswith(f"{name} ") for line in LINES)}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
@pytest.mark.parametrize("line", ["--help", "list", "show neutron", "table lint --help"])
def test_output_that_cannot_be_written_is_one_error(line: str) -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "npu_assay", *line.split()]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=os.environ, check=False)
    assert done.returncode == 2
    assert done.stderr == "assay: the output cannot be written: No space left on device\n"
