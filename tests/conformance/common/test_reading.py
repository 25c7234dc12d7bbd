"""What stands where a command reads a file is one line and exit code 2: nothing is waited for or read without end."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from attesting import made_key
from calling import assay as plain_assay
from calling import call
from interchange_runs import listed

from npu_assay.conformance.board.reading import CACHE
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.npy import FILE
from npu_assay.conformance.explain.models import _arrays as calibration
from npu_assay.conformance.pte.execute import _arrays as inputs
from npu_assay.conformance.record.names import ATTESTATION, CERTIFICATE, JOURNAL, LIMITS, RESULTS, TABLE
from npu_assay.files import read_regular
from tests.conformance.interchange.test_interchange import reseal
from tests.conformance.record.test_package import run

LONG = 120  # seconds; what waits for a pipe waits for ever
HUGE = 2**42  # bytes that no disk here holds
pytest_plugins = ["attested"]


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    def ended(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"still reading after {LONG} s")

    before = signal.signal(signal.SIGALRM, ended)
    signal.alarm(LONG)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def silent(path: Path) -> None:
    """A terminal's other end, which never says anything."""
    path.symlink_to("/dev/ptmx")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(HUGE)


def listening(path: Path) -> None:
    """A socket; its name may be longer than the system takes."""
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(here)


def folder(path: Path) -> None:
    path.mkdir()


THINGS: tuple[Callable[[Path], None], ...] = (pipe, endless, silent, sparse, listening)


def placed(thing: Callable[[Path], None], path: Path) -> Path:
    """The path, with the thing in place of what is there."""
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    thing(path)
    return path


def refused(*arguments: str | Path) -> str:
    """The one line of a command that ends with 2."""
    found = call(*arguments)
    assert found.exit_code == 2, found.output
    assert found.stderr.startswith("assay: ") and found.stderr.count("\n") == 1, found.stderr
    return found.stderr


# ------------------------------------------------------------------------------------ the reader


@pytest.mark.parametrize("thing", [*THINGS, folder])
def test_only_regular_files_are_read(thing: Callable[[Path], None], tmp_path: Path) -> None:
    path = placed(thing, tmp_path / "file")
    with pytest.raises(OSError, match=r"found .*, expected|No such device|Input/output|Is a directory"):
        read_regular(path, 10)


@pytest.mark.parametrize("size", [0, 9, 10, 11, 1000])
def test_as_many_bytes_as_are_allowed(size: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(size))
    if size <= 10:
        assert read_regular(path, 10) == bytes(size)
    else:
        with pytest.raises(OSError, match=f"found {size} bytes, expected at most 10"):
            read_regular(path, 10)


def test_a_file_without_a_size_has_a_bound() -> None:
    """Those of /proc say that they have none, and any may grow meanwhile."""
    assert os.stat("/proc/self/maps").st_size == 0
    with pytest.raises(OSError, match="found more than 10 bytes, expected at most 10"):
        read_regular(Path("/proc/self/maps"), 10)


@pytest.mark.parametrize(
    "name",
    ["../secret", "inner/../../secret", "/etc/hostname", "out", "inner/out", "through/secret", "../other/secret"],
)
def test_what_a_file_names_is_below_its_folder(name: str, tmp_path: Path) -> None:
    for place in ("secret", "other/secret", "top/inner/in"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_bytes(b"1")
    top = tmp_path / "top"
    (top / "out").symlink_to(tmp_path / "secret")
    (top / "inner" / "out").symlink_to("../../secret")
    (top / "through").symlink_to(tmp_path)
    (top / "within").symlink_to("inner/in")
    assert read_regular(top / "within", 10, top) == read_regular(top / "inner" / "in", 10, top) == b"1"
    with pytest.raises(OSError, match="found a file outside of the folder, expected one in it"):
        read_regular(top / name, 10, top)


# ------------------------------------------------------------------------------------ the commands


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, the run packed, and a key."""
    top = tmp_path_factory.mktemp("made")
    run(top / "run")
    made_key(top, "key")
    assert call("package", top / "run", "--out", top / "run.zip").exit_code == 0
    return top


FILES: dict[str, tuple[str, str]] = {
    "verify": ("x.zip", "verify X"),
    "verify a key": ("x.pem", "verify RUN --key X"),
    "verify an attestation": ("x.json", "verify RUN --key KEY.pub --attestation X"),
    "report": ("x.zip", "report X"),
    "report since": ("x.zip", "report RUN --since X --out page.html"),
    "diff": ("x.zip", "diff X RUN"),
    "diff to": ("x.zip", "diff RUN X"),
    "drift": ("x.zip", "drift X"),
    "merge": ("x.zip", "merge X --out merged"),
    "attest": ("x.zip", "attest X --key KEY.pem --out a.json"),
    "attest by a key": ("x.pem", "attest RUN --key X --out a.json"),
    "attest beside one": ("x.json", "attest RUN --key KEY.pem --out X"),
    "certify with waivers": ("x.toml", "certify neutron -k abs --waivers X --out new"),
    "certify a table": ("x.toml", "certify neutron --table X --out new"),
    "export a table": ("x.toml", "export neutron new --table X"),
    "show a table": ("x.toml", "show neutron --table X"),
    "table lint": ("x.toml", "table lint X"),
    "table coverage": ("x.toml", "table coverage X"),
    "table diff": ("x.toml", "table diff neutron@1.3 X"),
    "table reference": ("x.toml", "table reference X"),
    "table upgrade": ("x.toml", "table upgrade X"),
    "table import": ("x.csv", "table import X --name my_npu"),
    "inspect": ("x.pte", "inspect X"),
    "run": ("x.pte", "run X --random 1"),
}


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("asked", FILES)
def test_no_command_reads_it(
    asked: str, thing: Callable[[Path], None], made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, words = FILES[asked]
    known = {"X": tmp_path / name, "RUN": made / "run", "KEY.pem": made / "key.pem", "KEY.pub": made / "key.pub"}
    thing(tmp_path / name)
    assert name in refused(*(known.get(word, word) for word in words.split()))
    assert [path.name for path in tmp_path.iterdir()] == [name]


OF_RUNS = ("verify X", "report X", "diff X RUN", "drift X", "merge X --out merged", "attest X --key KEY.pem")


@pytest.mark.parametrize("thing", [*THINGS, folder])
@pytest.mark.parametrize("words", OF_RUNS)
def test_no_command_reads_it_in_the_folder_of_a_run(
    words: str, thing: Callable[[Path], None], made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (CERTIFICATE, RESULTS, TABLE, ATTESTATION):
        copy = tmp_path / f"of_{name}"
        shutil.copytree(made / "run", copy)
        placed(thing, copy / name)
        known = {"X": copy, "RUN": made / "run", "KEY.pem": made / "key.pem"}
        assert f"{name} is unreadable" in refused(*(known.get(word, word) for word in words.split()))


@pytest.mark.parametrize("thing", THINGS)
def test_a_board_says_which_run_cannot_be_read(thing: Callable[[Path], None], made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "run", tmp_path / "runs" / "good")
    for name in (CERTIFICATE, RESULTS):
        shutil.copytree(made / "run", tmp_path / "runs" / f"of {name}")
        placed(thing, tmp_path / "runs" / f"of {name}" / name)
    thing(tmp_path / "runs" / "x.zip")
    found = call("board", tmp_path / "runs", "--out", tmp_path / "site")
    assert found.exit_code == 0, found.output
    assert found.output.count("not read: ") == 3, found.output
    placed(thing, tmp_path / "site" / CACHE)
    again = call("board", tmp_path / "runs", "--out", tmp_path / "site")
    assert again.exit_code == (0 if thing is sparse else 2), again.output


@pytest.mark.parametrize("thing", THINGS)
def test_a_run_does_not_go_on_with_it(thing: Callable[[Path], None], tmp_path: Path) -> None:
    placed(thing, tmp_path / "out" / JOURNAL)
    assert JOURNAL in refused("certify", "neutron", "-k", "abs", "--out", tmp_path / "out", "--resume")


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("reader", [inputs, lambda path: calibration(path, ["x"])])
def test_no_array_is_read_from_it(
    reader: Callable[[Path], object], thing: Callable[[Path], None], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"x\.npz: .*(found|No such device|Input)"):
        reader(placed(thing, tmp_path / "x.npz"))
    assert max(LIMITS.values()) < FILE < HUGE


# ------------------------------------------------------------------------------------ assay judge


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One case, and its expected outputs as somebody's results."""
    top = tmp_path_factory.mktemp("exported")
    assert plain_assay("export", "neutron", top / "cases", "-k", "abs.default/operator/accept/ba")[0] == 0
    for case in listed(top / "cases"):
        for name in case["outputs"]:
            place = top / "outputs" / case["folder"] / name
            place.parent.mkdir(parents=True)
            shutil.copy(top / "cases" / case["folder"] / name, place)
    assert plain_assay("judge", top / "cases", "--outputs", top / "outputs", "--out", top / "judged.json")[0] == 0
    return top / "cases", top / "outputs"


def judged(copies: Path) -> tuple[int, str]:
    return plain_assay("judge", copies / "cases", "--outputs", copies / "outputs", "--out", copies / "judged.json")


@pytest.mark.parametrize("thing", [*THINGS, folder])
@pytest.mark.parametrize("kind", ["model", "inputs", "outputs", "output", "manifest.json", "table.toml"])
def test_no_file_is_judged_by_it(
    kind: str, thing: Callable[[Path], None], exported: tuple[Path, Path], tmp_path: Path
) -> None:
    for source in exported:
        shutil.copytree(source, tmp_path / source.name)
    (case,) = listed(tmp_path / "cases")
    top = tmp_path / ("outputs" if kind == "output" else "cases")
    name = kind if "." in kind else case["model"] if kind == "model" else case[kind.removesuffix("s") + "s"][0]
    path = top / name if "." in kind else top / case["folder"] / name
    placed(thing, path)
    code, text = judged(tmp_path)
    assert code == (2 if "." in kind else 1), text
    assert path.name in text and ("found" in text or "cannot be read" in text) and "Traceback" not in text


WAYS: dict[str, Callable[[dict[str, Any]], None]] = {
    "inputs of the system": lambda case: case.update(inputs=["../../../../../../../../../../dev/zero"]),
    "an absolute name": lambda case: case.update(inputs=["/dev/zero"]),
    "outputs of the system": lambda case: case.update(outputs=["../../../../../../../../../../dev/zero"]),
    "a model of the system": lambda case: case.update(model="../../../../../../../../../../etc/hostname"),
    "a folder of the system": lambda case: case.update(folder="../../../../../../../../../../dev"),
    "the digest of a device": lambda case: case["files"].update({"../../../../../../../../../dev/zero": "0" * 64}),
    "very many digests": lambda case: case["files"].update({f"x{number}": "0" * 64 for number in range(20_000)}),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=[*WAYS])
def test_a_manifest_does_not_lead_out(
    way: Callable[[dict[str, Any]], None], exported: tuple[Path, Path], tmp_path: Path
) -> None:
    for source in exported:
        shutil.copytree(source, tmp_path / source.name)

    reseal(tmp_path / "cases", lambda data: way(data["cases"][0]))
    code, text = judged(tmp_path)
    assert code == 1 and "Traceback" not in text, text
    assert "outside of the folder" in text or "[manifest]" in text
