"""The commands of README and docs/commands.md do what these say, as printed; `.ci/run` runs the two long ones."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from places import ROOT, SHARED
from pte_programs import added
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from npu_assay.conformance.backend.loading import registered
from npu_assay.conformance.cli import main
from npu_assay.partitioners.exir.pte import write

README, COMMANDS, SAMPLES = (
    ROOT / "README.md",
    ROOT / "docs" / "commands.md",
    ROOT / "docs" / "reading-a-certificate.md",
)
MOST = 110  # lines of the README
PICTURE = ROOT / "docs" / "explain.svg"
SMALL = "mobile_networks:mobilenet_v3_small"
WIDTH, LINES = 102, 36  # columns and lines of it
INSTALL = "pip install -c constraints.txt . && assay certify neutron"
TEST = 'pip install -c constraints.txt -e ".[test]" && pytest -n auto'
LONG = "assay certify neutron"  # .ci/run runs it
WHOLE = "assay certify xnnpack -n 2"
BOTH = ["assay-neutron", "assay-neutron.zip"]
PACKS = {
    "verify": BOTH[:1],
    "attest": BOTH[:1],
    "drift": BOTH[:1],
    "merge": BOTH[:1],
    "package": BOTH,
    "diff": BOTH,
    "report": ["assay-neutron", "assay-neutron.html", "assay-neutron.zip"],
}  # what stands there in the end
PART = {"-k", "--smoke"}  # options of a run of some cases, which never certifies


def section(title: str, page: Path = README) -> str:
    """The text of a section of a page."""
    return page.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]


def commands(text: str) -> list[str]:
    """The commands of a text: indented lines, without the remarks behind them."""
    return [re.split(r" {3,}", line)[0] for line in re.findall(r"^    (\S.*)$", text, re.MULTILINE)]


def printed(title: str) -> list[str]:
    """The commands of a section of the README."""
    return commands(section(title))


def every_command() -> list[str]:
    """What docs/commands.md groups, and the README's for models and builds; those for backends are in another test."""
    listed = COMMANDS.read_text(encoding="utf-8").split("\n## Extras\n")[0]
    return [*dict.fromkeys([*commands(listed), *printed("My model"), *printed("My CI")])]


def run(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A printed command as the installed one, which is that of this interpreter."""
    arguments = shlex.split(command)
    assert arguments[0] == "assay"
    call = [sys.executable, "-c", "from npu_assay.conformance.cli import main; main(prog_name='assay')", *arguments[1:]]
    return subprocess.run(
        call, cwd=folder, capture_output=True, text=True, timeout=600, check=False, env={**os.environ, **environment}
    )


def test_a_fresh_machine_needs_two_commands() -> None:
    assert printed("Two commands") == [INSTALL, TEST]
    pinned = re.findall(r"^torch==\S+$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert re.findall(r"`pip install (torch\S+) --index-url", section("Two commands")) == pinned


def test_the_check_takes_the_two_commands_from_the_readme() -> None:
    """`.ci/run` finds them by a part of theirs, and each part stands in one line alone."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for part, command in {"&& assay certify": INSTALL, "&& pytest": TEST}.items():
        assert f"printed '{part}'" in script
        assert [line for line in printed("Two commands") if part in line] == [command]


def prepare(verb: str, tmp_path: Path) -> None:
    """Make what a command reads."""
    if verb in ("inspect", "run"):
        (tmp_path / "model.pte").write_bytes(write(added()))
        np.savez(tmp_path / "inputs.npz", np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
    if verb in ("explain", "reduce"):
        layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Hardtanh(), torch.nn.SELU())
        program = torch.export.export(layers, (torch.ones(1, 3, 8, 8),))
        torch.export.save(program, tmp_path / "model.pt2")
    if verb == "judge":
        run("assay export neutron cases -k aten.relu.default/operator/accept", tmp_path)
        shutil.copytree(tmp_path / "cases", tmp_path / "outputs", ignore=shutil.ignore_patterns("manifest.json"))
    if verb == "attest":
        key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (tmp_path / "key.pem").write_bytes(key)
    if verb == "submit":
        run("assay certify neutron --smoke -k aten.abs --out submission/assay-neutron", tmp_path)
    if verb == "board":
        run("assay certify neutron --smoke -k aten.abs --out assay-neutron", tmp_path)
    if verb == "merge":
        for number in (1, 2):
            run(f"assay certify neutron --smoke -k aten.abs --shard {number}/2 --out shard-{number}", tmp_path)


@pytest.mark.sampled(3)
@pytest.mark.skipif("neutron" not in registered(), reason="the package is not installed")
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=[pytest.mark.slow] if command == WHOLE else [])
        for command in every_command()
        if command != LONG
    ],
)
def test_a_command_does_what_it_says(command: str, tmp_path: Path) -> None:
    verb, *arguments = shlex.split(command)[1:]
    part = verb == "certify" and not PART.isdisjoint(arguments)
    prepare("board" if verb == "certify" and "--since" in arguments else verb, tmp_path)  # a record of that name
    given = {path.name for path in tmp_path.iterdir()}
    if verb in PACKS.keys() - {"merge"}:
        run("assay certify neutron --smoke -k aten.abs --out assay-neutron", tmp_path)
    if verb in ("diff", "report"):
        run("assay package assay-neutron", tmp_path)
    result = run(command, tmp_path)
    assert result.returncode == (1 if verb in ("verify", "submit") else 0), result.stderr  # a part never certifies
    assert result.stderr == "" or (verb == "explain" and re.fullmatch(r"reading model.*\n", result.stderr))
    level = "-tags" * ("tags" in arguments)
    made = {"certify": [f"assay-{arguments[0]}{level}" + "-part" * part], **PACKS} if arguments else {}
    if verb == "new":
        made[verb] = [arguments[0]]
    if verb == "release":
        made[verb] = ["assay-release-onnxruntime"]
    if verb == "offer":
        made[verb] = [f"assay-{arguments[0]}-offers"]
    made |= {"export": ["cases"], "judge": ["assay-judged.json"]}
    if "--out" in arguments:
        made[verb] = [arguments[arguments.index("--out") + 1]]
    assert sorted({path.name for path in tmp_path.iterdir()} - given) == made.get(verb, [])


def samples() -> list[tuple[str, list[str]]]:
    """Commands behind a prompt in "What is wrong", each with the lines that it prints."""
    found = re.findall(r"^    \$ (.*)\n((?:    .*\n)+)", section("What is wrong", SAMPLES), re.MULTILINE)
    return [(command, [line.strip() for line in lines.splitlines()]) for command, lines in found]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("command", "lines"), samples())
def test_what_a_command_prints_is_what_it_prints(command: str, lines: list[str], tmp_path: Path) -> None:
    """Line by line and in order; "..." stands for what was left out of a line."""
    result = run(command, tmp_path)
    assert result.returncode == 1 and result.stderr == ""
    rest = result.stdout.splitlines()
    for line in lines:
        form = re.compile(".*".join(map(re.escape, line.split("..."))))
        place = next((i for i, text in enumerate(rest) if form.fullmatch(text.strip())), None)
        assert place is not None, f"{line}\n{result.stdout}"
        rest = rest[place + 1 :]


def test_the_readme_is_read_at_one_go() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST
    assert re.findall(r"^## (My .*)$", text, re.MULTILINE) == ["My model", "My backend", "My CI"]


def test_the_commands_are_all_of_them() -> None:
    verbs = {shlex.split(command)[1] for command in every_command()}
    assert verbs == set(main.commands) and LONG in every_command()


def test_the_commands_for_a_backend_of_ones_own_are_run() -> None:
    """`tests/conformance/backend/test_new.py` runs those of the document, and the README's are among them."""
    document = (ROOT / "docs" / "certify-your-backend.md").read_text(encoding="utf-8")
    run = set(re.findall(r"^    (\S.*)$", document, re.MULTILINE))
    own = [command for line in printed("My backend") for command in line.split(" && ")]
    assert len(own) == 4 and set(own) <= run


def picture(command: str, output: str) -> str:
    """A terminal with a command and what it printed, as SVG that loads nothing."""
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text(f"$ {command}\n\n{output}"))
    plain = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)  # fonts of another host
    return console.export_svg(title="assay explain", code_format=plain, unique_id="explain")


@pytest.mark.slow
def test_the_picture_of_explain_is_what_it_prints(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """But for numbers, which differ in their last digits between processors. `--snapshot-update` draws it anew."""
    (command,) = printed("My model")
    model = SHARED / "mobile_networks.py"
    shutil.copy(model, tmp_path / "mobile_networks.py")
    result = run(command.replace("model.pt2", SMALL), tmp_path, PYTHONPATH=str(tmp_path))
    assert result.returncode == 0, result.stderr
    drawn = picture(command, "\n".join(result.stdout.replace(SMALL, "model.pt2").splitlines()[:LINES]))
    if request.config.getoption("--snapshot-update"):
        PICTURE.write_text(drawn, encoding="utf-8")
    masked = [re.sub(r"[\d.,]+", "#", text) for text in (PICTURE.read_text(encoding="utf-8"), drawn)]
    assert masked[0] == masked[1], "pytest tests/house/test_readme.py -k picture --snapshot-update draws it anew"
    assert "](docs/explain.svg)" in README.read_text(encoding="utf-8")
    assert not re.search(r"url\((?!#)|href=", drawn)
