"""The tables of a text that was copied from a web page: each cell on lines of its own, and empty ones lost.

A run of headings begins a table, the name of an operator a row. The other cells of a row are known by what they say:
types, yes or no, and the rest, which is its constraints. A heading of the page ends the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from npu_assay.conformance.table.published import columns as headings
from npu_assay.conformance.table.published.columns import FLAG, KINDS, NAMESPACE, OPERATOR, OTHER, SUPPORT, answered
from npu_assay.conformance.table.published.files import Block, Line
from npu_assay.conformance.table.published.kinds import is_of_types, names_types
from npu_assay.conformance.table.published.names import meant_by
from npu_assay.conformance.table.published.vocabulary import words

MOST, LETTERS = 64, 200  # headings of a table, letters of a name
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
        if not starts:
            beside.append(lines[at])
            at += 1
            continue
        end = _last_end(len(meant), body, starts[-1])
        rows = [_placed(meant, body[first:last]) for first, last in pairwise((*starts, end))]
        tables.append([Line(lines[at].number, tuple(c.heading for c in meant)), *body[: starts[0]], *rows])
        beside += body[end:]
        at += len(meant) + len(body)
    return (tables, beside) if tables else None


def _headings(lines: Sequence[Line], at: int) -> tuple[headings.Column, ...]:
    """The columns of a table whose headings begin here; () where none do."""
    cells, first = list[str](), lines[at].cells[0]
    begins = headings.columns([first])[0].meaning in (OPERATOR, NAMESPACE) and not re.search(r"[_.]", first)
    for place in range(at, min(at + MOST, len(lines)) if begins and not meant_by(first)[0] else at):
        text = lines[place].cells[0]
        prose = text.endswith((*headings.SECTION, ".")) or len(text.split()) > headings.WORDS_OF_HEADING
        if prose or "|" in text or text in cells or (cells and _begins_row(lines, place, False)):
            break
        cells.append(text)
    found = headings.columns(cells)
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


def _body(lines: Sequence[Line], at: int) -> Sequence[Line]:
    """The lines below the headings up to a heading of the page, or those of another table."""
    ends = (n for n in range(at, len(lines)) if lines[n].cells[0].endswith(headings.SECTION) or _headings(lines, n))
    return lines[at : next(ends, len(lines))]


def _starts(meant: Sequence[headings.Column], body: Sequence[Line]) -> list[int]:
    """Where rows begin: with an operator, or with one word as its namespace before it."""
    lead = [column.meaning for column in meant].index(OPERATOR)
    answers = any(column.meaning in (FLAG, SUPPORT) for column in meant)
    found, at = list[int](), 0
    while at + lead < len(body):
        if all(_NAME.fullmatch(line.cells[0]) for line in body[at : at + lead]) and _begins_row(
            body, at + lead, answers
        ):
            found.append(at)
            at += lead
        at += 1
    return found


def _last_end(count: int, body: Sequence[Line], start: int) -> int:
    """Where the last row ends: it has at most as many cells as there are headings, and no prose."""
    most = min(start + count, len(body))
    return next((at for at in range(start + 1, most) if _PROSE.fullmatch(body[at].cells[0])), most)


def _placed(meant: Sequence[headings.Column], lines: Sequence[Line]) -> Line:
    """The cells of a row in their columns: in order where each fits, else the first column that is empty and fits."""
    texts = [line.cells[0] for line in lines]
    if len(texts) == len(meant) and all(map(_fits, meant, texts)):
        return Line(lines[0].number, tuple(texts))
    lead = [column.meaning for column in meant].index(OPERATOR) + 1
    found = [*texts[:lead], *[""] * (len(meant) - lead)]
    places = sorted(range(lead, len(meant)), key=lambda at: (meant[at].meaning != headings.CONSTRAINTS, at))
    for text in texts[lead:]:
        fitting = [at for at in places if _fits(meant[at], text)] or places[:1] or [0]
        at = next((at for at in fitting if not found[at]), fitting[-1])
        found[at] = f"{found[at]}\n{text}".strip()
    return Line(lines[0].number, tuple(found))


def _fits(column: headings.Column, text: str) -> bool:
    if column.meaning == KINDS:
        return is_of_types(text) or text.lower() in words()["answers"]["nothing"]
    return (
        answered(text) is not None
        if column.meaning in (FLAG, SUPPORT)
        else not is_of_types(text) and answered(text) is None
    )
