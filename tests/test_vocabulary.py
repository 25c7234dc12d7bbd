"""Pages and help texts spell as torch does: quantize, behavior, neighbor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from test_help import ALL

ROOT = Path(__file__).parent.parent
BRITISH = re.compile(r"(?i)\b\w*(?:quantis|neighbour|behaviour|colour)\w*")
QUOTING = {"explain", "constraints", "operators", "reading-a-certificate", "tutorial", "faults"}
"""Pages that quote what commands print, or are printed by them."""
PAGES = sorted(
    [
        *(path for path in (ROOT / "docs").glob("*.md") if path.stem not in QUOTING),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    ]
)


def british(text: str) -> list[str]:
    """The words that torch spells in another way; names of files and of code are as they are."""
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)
    return BRITISH.findall(prose)


def texts(command: click.Command) -> Iterator[str]:
    """All that the help of a command says."""
    yield from (command.help or "", command.short_help or "", command.epilog or "")
    yield from ((each.help or "") for each in command.params if isinstance(each, click.Option))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_spells_as_torch(page: Path) -> None:
    assert british(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", ALL)
def test_help_spells_as_torch(name: str) -> None:
    assert british(" ".join(texts(ALL[name]))) == []


def test_another_spelling_is_seen() -> None:
    assert british("Quantise it, and its neighbours, as `quantised` [says](behaviour.md).") == [
        "Quantise",
        "neighbours",
    ]
