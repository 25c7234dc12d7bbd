"""Markdown: tables, and text that is not trusted as code, in which nothing is markup."""

from __future__ import annotations

import re
from collections.abc import Iterable

from npu_assay.conformance.common.escaped import Lines, plain

NOTHING = "none"


def code(text: str) -> str:
    """A code span of any text, also inside of a table (GitHub's Markdown: `|` ends a cell even within code)."""
    shown = plain(text) or NOTHING
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    space = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{space}{shown}{space}{fence}".replace("|", "\\|")


def markdown_table(titles: Iterable[str], rows: Iterable[Iterable[object]], rule: str = "---|") -> Lines:
    """A table of cells that are Markdown. rule: what stands under each title."""
    heads = list(titles)
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in (heads, *rows)]
    return Lines("\n".join([lines[0], "|" + rule * len(heads), *lines[1:]]))
