"""Every option that names what a command writes keeps one rule (docs/commands.md): missing folders are made, and what
cannot be written is one error, code 2, before the work begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from ci_asked import command
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pte_programs import added

from npu_assay.conformance.cli import main
from npu_assay.conformance.commands.shared import Output
from npu_assay.partitioners.exir.pte import write

NEG = "aten.neg.default/operator/accept/baseline"
OUT = "OUT"
NET = """
import torch

def make():
    return torch.nn.ReLU().eval(), (torch.ones(1, 4),)
"""
PUBLISHED = "operator,constraints\naten.neg.default,\n"
ASKED = ("fake_backend:backend", "-k", NEG)
RELEASES = ("onnxruntime==1.31.1", "onnxruntime==1.32.0", "-k", "aten.abs.default/operator/accept/baseline")
WAYS = {  # each output of a command -> arguments with OUT, and a file that is there afterwards ("" for OUT itself)
    "attest --out": (("run", "--key", "key.pem", "--out", OUT), ""),
    "board --out": (("run", "--out", OUT), "index.html"),
    "certify --junit": ((*ASKED, "-n", "1", "--out", "other", "--junit", OUT), ""),
    "characterize --out": (("neutron", "-k", "aten.abs.default", "-n", "1", "--out", OUT), "characterize.json"),
    "certify --out": ((*ASKED, "-n", "1", "--out", OUT), "certificate.json"),
    "diff --html": (("run", "run", "--html", OUT), ""),
    "explain --out": (("net:make", "--backend", "xnnpack", "-n", "1", "--out", OUT), "explain.html"),
    "export folder": ((*ASKED, OUT), "manifest.json"),
    "judge --out": (("cases", "--outputs", "none", "--out", OUT), ""),
    "merge --out": (("shard", "--out", OUT), "certificate.json"),
    "new --out": (("some_npu", "--out", OUT), "pyproject.toml"),
    "offer --out": (("neutron", "-k", "cosh", "-n", "1", "--out", OUT), "certificate.json"),
    "package --out": (("run", "--out", OUT), ""),
    "reach --out": (("neutron", "-k", "aten.abs.default/operator/accept/baseline", "-n", "1", "--out", OUT), ""),
    "reduce --out": (("net:make", "--backend", "xnnpack", "--of", "op", "--op", "relu", "--out", OUT), ""),
    "release --out": (
        (*RELEASES, "--findings", "none", "--environments", "kept", "-n", "1", "--out", OUT),
        "release.html",
    ),
    "report --out": (("run", "--out", OUT), ""),
    "run --out": (("add.pte", "--random", "0", "--out", OUT), ""),
    "table import --out": (("published.csv", "--name", "some", "--out", OUT), ""),
    "table reference --out": (("neutron@1.3", "--out", OUT), ""),
    "verify --out": (("run", "--rerun", "--out", OUT), ""),
}
WORDS = ("Write", "Make")
"""What the help of an output begins with."""


def outputs(group: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Parameter]]:
    """The parameters of all commands that take a path and are written to, by their type or by what their help says."""
    if isinstance(group, click.Group):
        for name in group.list_commands(click.Context(group)):
            found = group.get_command(click.Context(group), name)
            assert found is not None
            yield from outputs(found, (*words, name))
        return
    for parameter in group.params:
        said = getattr(parameter, "help", None) or ""
        written = isinstance(parameter.type, click.Path) and said.startswith(WORDS)
        if written or isinstance(parameter.type, Output) or {"--out", "--junit"} & set(parameter.opts):
            yield " ".join((*words, parameter.opts[0])), parameter


def test_every_output_is_of_one_type_and_is_tried_here() -> None:
    found = dict(outputs(main))
    assert found.keys() == WAYS.keys()
    assert [name for name, parameter in found.items() if not isinstance(parameter.type, Output)] == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read."""
    folder = tmp_path_factory.mktemp("outputs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for target in (("run",), ("shard", "--shard", "1/1")):
            assert command("certify", *ASKED, "-n", "1", "--out", *target).exit_code == 0
        assert command("export", *ASKED, "cases").exit_code == 0
    (folder / "none").mkdir()
    (folder / "net.py").write_text(NET)
    (folder / "published.csv").write_text(PUBLISHED)
    (folder / "add.pte").write_bytes(write(added()))
    key = Ed25519PrivateKey.generate()
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (folder / "file").write_text("mine")
    return folder


def asked(name: str, out: str) -> tuple[str, ...]:
    *words, _ = name.split()
    return (*words, *(out if word == OUT else word for word in WAYS[name][0]))


@pytest.mark.long
@pytest.mark.parametrize("name", WAYS)
def test_missing_folders_are_made(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    place = Path("made", name.replace(" ", "_"), "below")
    found = command(*asked(name, str(place / "some")))
    assert found.exit_code in (0, 1), found.output  # 1: judge and reach find something
    assert [path.name for path in place.iterdir()] == ["some"], "no draft is left"
    assert (place / "some" / WAYS[name][1]).is_file(), found.output


@pytest.mark.parametrize("name", WAYS)
def test_what_cannot_be_written_is_one_error_before_the_work(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(Path().rglob("*"))
    for out in ("file/some", "file/below/some"):
        found = command(*asked(name, out))
        assert (found.exit_code, found.output) == (2, f"assay: {out}: cannot be written: Not a directory\n")
    if not WAYS[name][1]:
        found = command(*asked(name, "none"))
        assert (found.exit_code, found.output) == (2, "assay: none: cannot be written: not a regular file\n")
    assert sorted(Path().rglob("*")) == before and Path("file").read_text() == "mine"
