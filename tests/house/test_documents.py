"""README and docs: every command that they show can be given, and the numbers of cases are those of the tables."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from places import ROOT

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cli import main
from npu_assay.conformance.mutation.catalogue import catalogue_of, load_faults
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BACKENDS: dict[str, str] = PROJECT["entry-points"]["npu_assay.backends"]
DOCUMENTS = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "lab").glob("*.md")),
    *sorted((ROOT / "docs" / "reports").glob("*.md")),
)
COMMAND = re.compile(r"^    (?:\$ )?((?:[A-Z]+=\S+ )?(?:assay|pip|pytest|python|tox) .*)$", re.MULTILINE)


def commands(text: str) -> list[str]:
    """The commands in indented lines; what stands behind three spaces explains one."""
    lines = [re.split(r" {3,}", line)[0] for line in COMMAND.findall(text)]
    return [part.strip() for line in lines for part in line.split("&&")]


SHOWN = sorted({(path.name, command) for path in DOCUMENTS for command in commands(path.read_text())})
COUNTED = re.findall(r"^\| `(\S+)` \| `(\S+@\S+)`.* (\d+) \|$", DOCUMENTS[0].read_text(), re.MULTILINE)


def words(command: str) -> list[str]:
    """Program and arguments, without what it sets in the environment, and backends by their module."""
    found = [word for word in shlex.split(command) if not re.match(r"[A-Z]+=", word)]
    return [BACKENDS.get(word, word) for word in found] if found[0] == "assay" else found


def test_commands_are_found_behind_prompts_and_before_explanations() -> None:
    lines = (
        "text",
        "    $ assay list",
        "    assay show x y     explains",
        "    pip install . && A=b assay list",
        "    x",
    )
    text = "\n".join(lines)
    assert commands(text) == ["assay list", "assay show x y", "pip install .", "A=b assay list"]
    assert {"assay list", "assay certify neutron", "assay certify xnnpack -n 2"} <= {command for _, command in SHOWN}
    assert ("executorch-xnnpack-1.5.1.md", "assay certify executorch:xnnpack -n 2") in SHOWN
    assert {"neutron", "xnnpack"} <= {name for name, _, _ in COUNTED}


@pytest.mark.parametrize(("document", "command"), SHOWN)
@pytest.mark.sampled(25)
def test_a_command_that_is_shown_can_be_given(
    document: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    program, *arguments = words(command)
    if program == "assay":
        check_assay(arguments, tmp_path)
    elif program == "pip":
        extras = {extra for group in re.findall(r"\[(.*?)\]", command) for extra in group.split(",")}
        assert extras <= PROJECT["optional-dependencies"].keys() and (ROOT / "constraints.txt").exists()
    else:
        paths = [word for word in arguments if "/" in word]
        assert all((ROOT / path).exists() for path in paths), f"{document}: {command}"


def check_assay(arguments: list[str], folder: Path) -> None:
    """Take the command apart; run it if that is short: a part of the cases, or none."""
    name, *rest = arguments
    context = main.commands[name].make_context(name, rest)
    runner, expression = CliRunner(), context.params.get("expression")
    if name in ("list", "show"):
        result = runner.invoke(main, arguments)
        assert result.exit_code == 0, result.output
    elif (
        name == "certify"
        and expression is not None
        and context.params["since"] is None
        and context.params["backend"] in BACKENDS.values()
    ):
        result = runner.invoke(main, [*arguments, "-n", "1", "--out", str(folder / "out")])
        assert result.exit_code == 0 and " 0 fail" in result.output, result.output


@pytest.mark.parametrize(("name", "table", "count"), COUNTED)
def test_the_number_of_cases_is_the_one_of_the_table(name: str, table: str, count: str) -> None:
    assert name in BACKENDS
    assert int(count) == len(all_cases(load_table(table)))


def test_the_numbers_of_faults_are_those_of_the_catalogues() -> None:
    rows = re.findall(
        r"^\| `([\w.-]+)` \| (\d+): ([^;|]*).*\| all \|$", (ROOT / "docs/faults.md").read_text(), re.MULTILINE
    )
    assert {name for name, _, _ in rows} == BACKENDS.keys()
    for name, total, stages in rows:
        backend = load_backend(name)
        faults = load_faults(name, catalogue_of(backend, None))
        counts = [sum(fault.stage == stage for fault in faults) for stage in ("partitioner", "compiler", "device")]
        assert [int(total), *map(int, re.findall(r"\d+", stages))] == [len(faults), *counts], name


def test_the_changelog_has_the_form_that_it_names() -> None:
    """Keep a Changelog: releases in brackets, the newest first, and under each the kinds of changes in one order."""
    kinds = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "keepachangelog.com" in text
    releases = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert releases[0] == "[Unreleased]" and all(re.match(r"\[[^\]]+\]", each) for each in releases)
    found = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert found and found == [kind for kind in kinds if kind in found]
