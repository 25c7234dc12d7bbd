"""SECURITY.md says of every command what it reads of others, and what is promised of that."""

from __future__ import annotations

import re

import click
from places import ROOT

from tests.conformance.commands.test_help import ALL

PAGE = (ROOT / "SECURITY.md").read_text()


def test_every_command_is_named_once() -> None:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    read = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    others = re.findall(r"`(\w+)`", next(line for line in PAGE.splitlines() if line.endswith("read no file.")))
    single = sorted(name for name, command in ALL.items() if not isinstance(command, click.Group))
    assert sorted([*read, *others]) == single
