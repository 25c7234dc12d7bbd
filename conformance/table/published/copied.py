"""The tables of a text that was copied from a web page: each cell on lines of its own, and empty ones lost.

A run of headings begins a table, the name of an operator a row. The other cells of a row are known by what they say:
types, yes or no, and the rest, which is its constraints. A heading of the page ends the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from npu_assay.conformance.table.published.columns import (
    CONSTRAINTS,
    FLAG,
    KINDS,
    NAMESPACE,
    OPERATOR,
    OTHER,
    SECTION,
    SUPPORT,
    WORDS_OF_HEADING,
    Column,
    answered,
    columns,
)
from npu_assay.conformance.table.published.files import Block, Line
from npu_assay.conformance.table.published.kinds import is_of_types, names_types
from npu_assay.conformance.table.published.names import meant_by
from npu_assay.conformance.table.published.vocabulary import words

HEADINGS, LETTERS = 64, 200  # most headings of a table, letters of a name
FEWEST = 2  # headings with a meaning
_RULE = re.compile(r"[\s|:+=-]*")
_NAME = re.compile(r"[A-Za-z_][\w.:]*")
_PROSE = re.compile(r"(?:\S+\s+){7,}\S*[.:]")  # a sentence of eight words or more


def copied(text: str) -> tuple[list[Block], Block] | None:
    """The tables with their cells in their columns, and the lines beside them; None where there is no such table."""
    lines = [Line(n, (line.strip(" \t|"),)) for n, line in enumerate(text.splitlines(), 1) if not _RULE.fullmatch(line)]
    tables, beside, at = list[Block](), Block(), 0
    while at < len(lines):
        meant = _headings(lines, at)
        body = _body(lines, at + len(meant)) if meant else []
        starts = _starts(meant, body) if meant else []
        if starts:
            rows, end = list(_rows(meant, body, starts)), _last_end(meant, body, starts)
            tables.append([Line(lines[at].number, tuple(column.heading for column in meant)), *rows])
            beside += body[end:]
        at += len(meant) + len(body) if starts else 1
        beside += [] if starts else lines[at - 1 : at]
    return (tables, beside) if tables else None


def _headings(lines: Sequence[Line], at: int) -> tuple[Column, ...]:
    """The columns of a table whose headings begin here; () where none do."""
    cells = list[str]()
    first = lines[at].cells[0]
    if columns([first])[0].meaning not in (OPERATOR, NAMESPACE) or re.search(r"[_.]", first) or meant_by(first)[0]:
        return ()
    for place in range(at, min(at + HEADINGS, len(lines))):
        text = lines[place].cells[0]
        if "|" in text or text.endswith((*SECTION, ".")) or len(text.split()) > WORDS_OF_HEADING:
            break
        if text in cells or (cells and _begins_row(lines, place, False)):
            break
        cells.append(text)
    found = columns(cells)
    while found and found[-1].meaning == OTHER:
        found = found[:-1]
    meanings = [column.meaning for column in found]
    leads = OPERATOR in meanings and meanings[: meanings.index(OPERATOR)] in ([], [NAMESPACE])
    return found if leads and len(set(meanings) - {OTHER}) >= FEWEST else ()


def _begins_row(lines: Sequence[Line], at: int, answers: bool) -> bool:
    """True for an operator's name; one that is not known has a sign in it, or types after it.

    answers: `full` may answer whether the one above is supported, and is no name.
    """
    text = lines[at].cells[0]
    if len(text) > LETTERS or names_types(text) or (answers and answered(text) is not None):
        return False
    meant, unknown = meant_by(text)
    if meant:
        return not unknown
    after = lines[at + 1].cells[0] if at + 1 < len(lines) else ""
    return _NAME.fullmatch(text) is not None and ("_" in text or "." in text or is_of_types(after))


def _body(lines: Sequence[Line], at: int) -> list[Line]:
    """The lines below the headings up to a heading of the page, or those of another table."""
    for end in range(at, len(lines)):
        if lines[end].cells[0].endswith(SECTION) or _headings(lines, end):
            return list(lines[at:end])
    return list(lines[at:])


def _starts(meant: Sequence[Column], body: Sequence[Line]) -> list[int]:
    """Where rows begin: with an operator, or with one word as its namespace before it."""
    lead = [column.meaning for column in meant].index(OPERATOR)
    answers = any(column.meaning in (FLAG, SUPPORT) for column in meant)
    found, at = list[int](), 0
    while at + lead < len(body):
        spaces = all(_NAME.fullmatch(line.cells[0]) for line in body[at : at + lead])
        if spaces and _begins_row(body, at + lead, answers):
            found.append(at)
            at += lead
        at += 1
    return found


def _last_end(meant: Sequence[Column], body: Sequence[Line], starts: Sequence[int]) -> int:
    """Where the last row ends: it has at most as many cells as there are headings, and no prose."""
    start = starts[-1]
    most = min(start + len(meant), len(body))
    return next((at for at in range(start + 1, most) if _PROSE.fullmatch(body[at].cells[0])), most)


def _rows(meant: Sequence[Column], body: Sequence[Line], starts: Sequence[int]) -> Iterator[Line]:
    yield from body[: starts[0]]
    for start, end in pairwise((*starts, _last_end(meant, body, starts))):
        yield Line(body[start].number, tuple(_placed(meant, [line.cells[0] for line in body[start:end]])))


def _placed(meant: Sequence[Column], texts: Sequence[str]) -> list[str]:
    """The cells of a row in their columns: in order where each fits, else the first column that is empty and fits."""
    if len(texts) == len(meant) and all(map(_fits, meant, texts)):
        return list(texts)
    lead = [column.meaning for column in meant].index(OPERATOR) + 1
    found = [*texts[:lead], *[""] * (len(meant) - lead)]
    places = sorted(range(lead, len(meant)), key=lambda at: (meant[at].meaning != CONSTRAINTS, at))
    for text in texts[lead:]:
        fitting = [at for at in places if _fits(meant[at], text)] or places[:1] or [0]
        at = next((at for at in fitting if not found[at]), fitting[-1])
        found[at] = f"{found[at]}\n{text}".strip()
    return found


def _fits(column: Column, text: str) -> bool:
    if column.meaning == KINDS:
        return is_of_types(text) or text.lower() in words()["answers"]["nothing"]
    if column.meaning in (FLAG, SUPPORT):
        return answered(text) is not None
    return not is_of_types(text) and answered(text) is None
