"""The tables of a published file: Markdown, grids of reStructuredText, CSV with any separator, sheets of xlsx."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from npu_assay.conformance.common.errors import UsageError, failing
from npu_assay.conformance.table.published.sheets import LARGEST, sheets
from npu_assay.files import read_regular

SEPARATORS = (",", ";", "\t", "|")
EXPECTED = "expected a table of Markdown, CSV with a line of headings, xlsx, or text of a page with a cell on each line"
_RULE = re.compile(r"\s*[|:+]?\s*[-=:]+[\s|:+=-]*", re.ASCII)  # a line between rows, or below the headings
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True)
class Line:
    """One line of a table, or a text beside tables, whose only cell it is. `number` counts from 1."""

    number: int
    cells: tuple[str, ...]


Block = list[Line]
"""A table: its lines, headings included, which need not be the first."""


def blocks(path: Path, of_text: Callable[[str, str], tuple[list[Block], Block]]) -> tuple[list[Block], Block]:
    """The tables of a file, and the texts beside them. `of_text`: those of a text, and the file's name.

    Raises UsageError for what cannot be read.
    """
    with failing(path, "cannot read it"):
        data = read_regular(path, LARGEST)
    if data.startswith(b"PK\3\4"):
        return [[Line(n, cells) for n, cells in sheet] for sheet in sheets(data, path.name)], []
    try:
        return of_text(data.decode("utf-8-sig"), path.name)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text at byte {error.start}") from error


def text_blocks(text: str, file: str, has_headings: Callable[[Sequence[str]], int]) -> tuple[list[Block], Block]:
    """As `blocks`, of a text. `has_headings`: how many cells are known headings. Raises UsageError."""
    lines = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text).splitlines()
    if any(_begins(lines, at) for at in range(len(lines))):
        return _drawn(lines)
    found = [_separated(text, file, separator) for separator in SEPARATORS]
    return [max(found, key=lambda block: max((has_headings(line.cells) for line in block), default=0))], []


# ------------------------------------------------------------------------------------ Markdown and grids


def _begins(lines: Sequence[str], at: int) -> bool:
    """A table begins here: a line in bars, or one with bars and a rule below it."""
    line = lines[at].strip()
    if line.startswith("|") and line.endswith("|") and len(line) > 1:
        return True
    below = lines[at + 1] if at + 1 < len(lines) else ""
    return "|" in line and "|" in below and "-" in below and _RULE.fullmatch(below) is not None


def _drawn(lines: Sequence[str]) -> tuple[list[Block], Block]:
    tables, beside = list[Block](), Block()
    at = 0
    while at < len(lines):
        if not _begins(lines, at):
            text = lines[at].strip()
            if text and not text.startswith("#") and not _RULE.fullmatch(text):
                beside.append(Line(at + 1, (_plain(text),)))
            at += 1
            continue
        end = next((n for n in range(at, len(lines)) if not _belongs(lines[n])), len(lines))
        drawn = at > 0 and lines[at - 1].strip().startswith("+-")
        tables.append(list(_rows(lines[at:end], at + 1, drawn)))
        at = end
    return tables, beside


def _belongs(line: str) -> bool:
    return "|" in line or line.strip().startswith("+")


def _rows(lines: Sequence[str], first: int, drawn: bool) -> Iterator[Line]:
    """The rows; in a drawn grid the lines between two rules are one row."""
    open_row: Line | None = None
    for number, line in enumerate(lines, first):
        if _RULE.fullmatch(line):
            if open_row is not None:
                yield open_row
            open_row = None
            continue
        row = Line(number, tuple(_cells(line)))
        if open_row is not None and drawn and len(open_row.cells) == len(row.cells):
            joined = (f"{a}\n{b}".strip() for a, b in zip(open_row.cells, row.cells, strict=True))
            open_row = Line(open_row.number, tuple(joined))
            continue
        if open_row is not None:
            yield open_row
        open_row = row
    if open_row is not None:
        yield open_row


def _cells(line: str) -> Iterator[str]:
    line = line.strip()
    inner = line.removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    for cell in re.split(r"(?<!\\)\|", inner):
        yield _plain(cell)


def _plain(text: str) -> str:
    """A cell without Markdown's marks."""
    text = _LINK.sub(r"\1", re.sub(r"<br\s*/?>", "\n", text))
    text = re.sub(r"\*\*|`|<[/a-z]+>|(?<![\w*])\*(?=\w)|(?<=\w)\*(?![\w*\s])", "", text)
    return re.sub(r"\\([|_*\\<>\[\]#~-])", r"\1", text).strip()


# ------------------------------------------------------------------------------------ separated values


def _separated(text: str, file: str, separator: str) -> Block:
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, delimiter=separator)
    found, number = Block(), 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                found.append(Line(number, tuple(cell.strip() for cell in cells)))
            number = reader.line_num + 1
    except csv.Error as error:
        raise UsageError(f"{file}: line {reader.line_num}: {error}; {EXPECTED}") from error
    return found
