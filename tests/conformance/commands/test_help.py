"""Help: every command has examples that can be typed, and shells complete the names of what is there."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from places import ROOT

from npu_assay.conformance.cli import main
from npu_assay.conformance.commands.help_texts import COMMANDS, FIRST

PAGE = ROOT / "docs" / "commands.md"


def commands(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield f"{above}{name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} ")


ALL = dict(commands(main))


def parsed(line: str) -> list[str]:
    """The commands that a line asks for; click.UsageError where it cannot be typed like that."""
    words, group, path = shlex.split(line)[1:], main, []
    while isinstance(group, click.Group):
        name, command, words = group.resolve_command(click.Context(group), words)
        assert name is not None and command is not None
        path.append(name)
        group = command  # type: ignore[assignment]  # the last one is no group
    group.make_context(path[-1], words)
    return path


def test_every_command_is_told() -> None:
    assert set(COMMANDS) == set(ALL)


@pytest.mark.parametrize("path", ALL)
def test_its_line_is_a_whole_sentence_that_fits(path: str) -> None:
    listed = CliRunner().invoke(main, [*path.split()[:-1], "--help"], terminal_width=80).output
    short = str(ALL[path].short_help)
    assert short in listed and short.endswith((".", "?"))


@pytest.mark.parametrize("path", ALL)
def test_its_examples_can_be_typed_and_are_shown(path: str) -> None:
    shown = CliRunner().invoke(main, [*path.split(), "--help"]).output
    for line, _ in COMMANDS[path].examples:
        assert f"  {line}" in shown
        assert " ".join(parsed(line)).startswith(path)


def test_the_first_help_says_what_to_type() -> None:
    shown = CliRunner().invoke(main, ["--help"], terminal_width=80).output
    assert list(problems("assay", main)) == []
    for line, _ in FIRST.examples:
        assert f"  {line}" in shown
        assert line == "assay certify --help" or parsed(line)
    assert {line.split()[1] for line, _ in FIRST.examples} >= {"certify", "new", "explain"}


# ------------------------------------------------------------------------------------ options

FRAGMENT = ("Of ", "For ", "The same", "Its ", "As ", "Per ")
NAMED = {"BACKEND", "TABLE", "TABLE...", "EXPR", "OPERATOR"}
MUTANTS = "mutate"  # its -k is an expression over faults, not operators


def problems(path: str, command: click.Command) -> Iterator[str]:
    """What is missing in the help of a command: a sentence, a default, a name that a shell could complete."""
    if not (command.help or "").split("\n\n")[0].strip().endswith((".", "?")):
        yield f"{path}: found no sentence"
    if "Example" not in (command.epilog or ""):
        yield f"{path}: found no example"
    for each in command.params:
        where = f"{path} {each.opts[0]}"
        if (each.make_metavar(click.Context(command)) in NAMED and path != MUTANTS) and not each._custom_shell_complete:
            yield f"{where}: found no completion"
        if not isinstance(each, click.Option):
            continue
        text = each.help or ""
        if not text[:1].isupper() or not text.endswith(".") or text.startswith(FRAGMENT) or "; else" in text:
            yield f"{where}: found {text!r}, expected a sentence"
        if each.to_info_dict()["default"] not in (None, False, ()) and not each.show_default:
            yield f"{where}: found no default"


@pytest.mark.parametrize("path", ALL)
def test_every_option_is_a_sentence_with_its_default_and_names_are_completed(path: str) -> None:
    assert list(problems(path, ALL[path])) == []


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (click.Option(["--x"]), "x --x: found '', expected a sentence"),
        (click.Option(["--x"], help="For a case; else 120."), "expected a sentence"),
        (click.Option(["--x"], help="how many of them."), "expected a sentence"),
        (click.Option(["--x"], default=3, help="Run so many."), "x --x: found no default"),
        (click.Option(["--x"], metavar="TABLE", help="Use this table."), "x --x: found no completion"),
        (click.Argument(["backend"]), "x backend: found no completion"),
    ],
)
def test_what_an_option_lacks_is_seen(option: click.Parameter, told: str) -> None:
    command = click.Command("x", params=[option], help="Do it.", epilog="Example: assay x")
    found = list(problems("x", command))
    assert len(found) == 1 and told in found[0]


def test_a_command_without_a_sentence_or_an_example_is_seen() -> None:
    assert list(problems("x", click.Command("x", help="do it"))) == ["x: found no sentence", "x: found no example"]


@pytest.mark.parametrize("line", ["assay certify neutron --levels tags", "assay certify", "assay nothing", "assay run"])
def test_what_cannot_be_typed_is_seen(line: str) -> None:
    with pytest.raises(click.UsageError):
        parsed(line)
        raise AssertionError(f"{line} can be typed")


@pytest.mark.parametrize(
    ("words", "incomplete", "found"),
    [
        (["show"], "ethos", ["ethos-u55", "ethos-u85"]),
        (["certify"], "xnn", ["xnnpack"]),
        (["explain", "m.pt2", "--backend"], "neu", ["neutron", "neutron-1.4"]),
        (["certify", "neutron", "--table"], "ethos_u8", ["ethos_u85@1.5"]),
        (["table", "lint"], "onnx", ["onnxruntime_cpu@1.31"]),
        (["show", "xnnpack"], "aten.softm", ["aten.softmax"]),
        (["show", "neutron"], "ca", ["cat"]),
        (["show", "ethos-u85"], "aten.cumsu", ["aten.cumsum.default"]),
        (["show", "neutron"], "aten.cumsu", []),
        (["show", "nosuch"], "aten.cumsu", ["aten.cumsum.default"]),
        (["show", "--table", "neutron@1.3", "neutron"], "aten.cumsu", []),
        (["verify", "run", "--backend"], "xnn", ["xnnpack"]),
        (["inspect", "m.pte", "--backend"], "xnn", ["xnnpack"]),
        (["verify", "run", "--table"], "ethos_u8", ["ethos_u85@1.5"]),
        (["offer", "neutron", "-k"], "cosh", ["cosh"]),
        (["reduce", "m.pt2", "--op"], "aten.cosh", ["aten.cosh.default"]),
        (["export", "neutron", "cases", "-k"], "aten.cumsu", ["aten.cumsum.default"]),
        (["show", "--table", "no such", "neutron"], "aten.abs", []),
    ],
)
def test_names_are_completed(words: list[str], incomplete: str, found: list[str]) -> None:
    items = ShellComplete(main, {}, "assay", "_ASSAY_COMPLETE").get_completions(words, incomplete)
    assert [item.value for item in items] == found


def test_a_table_may_be_a_file() -> None:
    items = ShellComplete(main, {}, "assay", "_ASSAY_COMPLETE").get_completions(["table", "lint"], "my_")
    assert [(item.type, item.value) for item in items] == [("file", "my_")]


def test_completion_loads_no_torch() -> None:
    code = "import sys; from npu_assay.conformance.cli import main\ntry:\n    main(prog_name='assay')\n"
    code += "finally:\n    assert 'torch' not in sys.modules"
    asked = {"_ASSAY_COMPLETE": "bash_complete", "COMP_WORDS": "assay show xnnpack aten.ab", "COMP_CWORD": "3"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, check=True
    )
    assert "aten.abs.default" in run.stdout


def test_the_pages_line_makes_bash_complete() -> None:
    line = next(line.strip() for line in PAGE.read_text().splitlines() if "bash_source" in line)
    folder = Path(sys.executable).parent
    asked = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    script = f"{line} && complete -p assay"
    run = subprocess.run(["bash", "-c", script], env=os.environ | asked, capture_output=True, text=True, check=True)
    assert "_assay_completion assay" in run.stdout
