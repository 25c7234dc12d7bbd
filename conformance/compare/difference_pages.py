"""A difference for readers: as lines of text, as Markdown for a comment on a change, and as one HTML file.

By row and kind, equal changes together. No text of a backend is markup.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from npu_assay.conformance.common.escaped import beginning, visible
from npu_assay.conformance.common.markup import code, markdown_table
from npu_assay.conformance.common.templating import rendered
from npu_assay.conformance.compare.difference import Difference, Run
from npu_assay.conformance.compare.difference_groups import (
    cases_of,
    groups_by_row,
    happened,
    made_with,
    side_text,
    sources,
    stated,
)
from npu_assay.conformance.record.certificate import outcome_text

WIDTH = 80
CASES = 20  # of each change, and changes of each kind; in a text fewer, in JSON all
LONGEST = 60_000  # characters of Markdown: GitHub's comments hold 65,536
TEXT, EXAMPLE = 300, 160  # characters of one side on a page, and in a text


def lines(found: Difference) -> Iterator[str]:
    """The whole text, line by line, with at most WIDTH columns: what happened to how many cases first."""
    text = _rendered("difference.txt", found, EXAMPLE, lambda value: str(value).replace("\n", " "))
    for line in text.removesuffix("\n").split("\n"):
        first = line[: len(line) - len(line.lstrip())]
        rest = " " * (3 if line.startswith(("a  ", "b  ")) else len(first) + 2)
        yield from textwrap.wrap(
            line.strip(), WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
        ) or [""]


def markdown(found: Difference) -> str:
    """The difference in GitHub's Markdown, no longer than a comment there may be."""
    text = _rendered("difference.md", found, TEXT)
    if len(text) <= LONGEST:
        return text
    kept = text[: text.rfind("\n", 0, LONGEST)].rstrip("\n")
    return f"{kept}\n\nThe rest is left out (--json has all).\n"


def html(found: Difference) -> str:
    """The difference as one HTML file that loads nothing."""
    return _rendered("difference.html", found, TEXT)


def _rendered(name: str, found: Difference, most: int, shown: Callable[[Any], Any] = visible) -> str:
    def shortened(text: str | None) -> str:
        return side(text, most)

    def table_of(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        return markdown_table(titles, ([code(shortened(cell)) for cell in row] for row in rows), " --- |")

    return rendered(
        "compare",
        name,
        shown,
        found=found,
        heads=[(name, *head(run)) for name, run in (("a", found.a), ("b", found.b))],
        happened=happened(found),
        stated=stated(found),
        made_with=made_with(found),
        sources=sources(found),
        rows=list(groups_by_row(found)),
        cases_of=cases_of,
        code=code,
        most=CASES,
        outcome_text=outcome_text,
        side=shortened,
        table_of=table_of,
    )


def side(text: str | None, most: int = TEXT) -> str:
    """One side of a change in words, of which a page shows so many characters."""
    return beginning(side_text(text), most)


def head(run: Run) -> tuple[str, str, str, str]:
    """A run's name, backend, table, and verdict with counts."""
    one = run.certificate
    counts = ", ".join(f"{count} {name}" for name, count in one.counts.items())
    table = f"{one.table['name']}@{one.table['version']}"
    return run.name, str(one.backend["spec"]), table, f"{outcome_text(one)}: {counts}"
