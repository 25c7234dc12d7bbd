"""Text that is not trusted, in Markdown: as code, in which nothing is markup."""

from __future__ import annotations

import re

from npu_assay.conformance.common.escaped import plain

NOTHING = "none"


def code(text: str) -> str:
    """A code span of any text, also inside of a table (GitHub's Markdown: `|` ends a cell even within code)."""
    shown = plain(text) or NOTHING
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    space = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{space}{shown}{space}{fence}".replace("|", "\\|")
