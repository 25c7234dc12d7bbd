"""The entries of a published table: which column means what, by its heading, and what each line says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.escaped import counted
from npu_assay.conformance.common.memory import keep, once
from npu_assay.conformance.table.published.files import EXPECTED, Block, Line
from npu_assay.conformance.table.published.kinds import read_kinds
from npu_assay.conformance.table.published.vocabulary import Left, by_words, split_words, words

OPERATOR, CONSTRAINTS, KINDS, NAMESPACE, SUPPORT, FLAG, OTHER = (
    *("operator", "constraints", "kinds", "namespace", "support", "flag", "other"),
)
HIGHEST = 20  # lines of a table among which its headings are
WORDS_OF_HEADING, OF_OPERATORS = 6, 3  # at most; more are prose
SECTION = ("#", "\N{PILCROW SIGN}")
"""The last sign of a page's own heading, as it is copied."""
TYPES = {"dtype": KINDS, "quantization": KINDS, "types": KINDS, "part": OTHER}
"""What headings are taken for that are not their own meaning."""


@dataclass(frozen=True)
class Entry:
    """One line of a published table, as it is printed there; `line` counts from 1.

    `beside`: the cells of columns that have no meaning here, each with its heading. `printed`: the whole line.
    """

    line: int
    operator: str
    kinds: str = ""
    constraints: str = ""
    beside: tuple[tuple[str, str], ...] = ()
    printed: str = ""
    has_kinds: bool = False

    @property
    def document(self) -> str:
        """What the row keeps of the line's words."""
        return "; ".join(filter(None, (self.constraints, *(f"{heading}: {cell}" for heading, cell in self.beside))))


@dataclass(frozen=True)
class Column:
    """The meaning of a column, and its heading as it is printed."""

    meaning: str
    heading: str


def known_headings(cells: Sequence[str]) -> int:
    """How many cells mean something as headings; 0 where none of them means operators."""
    meanings = [column.meaning for column in columns(cells)]
    return len(meanings) - meanings.count(OTHER) if OPERATOR in meanings else 0


def columns(cells: Sequence[str]) -> tuple[Column, ...]:
    """What each column means. Where several have the same meaning, the cells of all of them are read."""
    return tuple(Column(_meaning(cell), " ".join(cell.split())) for cell in cells)


@keep(1024)
def _meaning(heading: str) -> str:
    found = split_words(heading)
    if len(found) > WORDS_OF_HEADING or heading.endswith(SECTION):
        return OTHER
    kinds, rest = read_kinds(heading)
    if kinds and not rest:
        return FLAG
    for names, meaning in _headings():
        if meaning == OPERATOR and len(found) > OF_OPERATORS:
            continue
        if any(found[at : at + len(names)] == names for at in range(len(found))):
            return TYPES.get(meaning, meaning)
    return OTHER


@once
def _headings() -> tuple[tuple[tuple[str, ...], str], ...]:
    return tuple(by_words(words()["headings"]).items())


def entries(tables: Sequence[Block], beside: Block, file: str) -> tuple[list[Entry], list[Left]]:
    """The entries of every table, and what is outside. Raises UsageError where no table has operators."""
    found, left = list[Entry](), [Left(line.number, line.cells[0], "text beside the table") for line in beside]
    for block in tables:
        known = [known_headings(line.cells) for line in block[:HIGHEST]]
        at = known.index(max(known)) if any(known) else None
        remarks = block if at is None else block[:at]
        left += [Left(line.number, _shown(line.cells), "no line of a table of operators") for line in remarks]
        if at is not None:
            of_block, more = _of_table(columns(block[at].cells), block[at], block[at + 1 :])
            found += of_block
            left += more
    if not found:
        raise _no_table(tables, file)
    return found, sorted(left, key=lambda each: each.line)


def _no_table(tables: Sequence[Block], file: str) -> UsageError:
    first = next((block[0] for block in tables if block), None)
    if first is None or first.cells[0].startswith("#") or (len(first.cells) == 1 and not known_headings(first.cells)):
        return UsageError(f"{file}: found no table, {EXPECTED}")
    if known_headings(first.cells):
        return UsageError(f"{file}: line {first.number}: found headings and no line below them, expected operators")
    names = ", ".join(repr(name) for name in words()["headings"]["operator"])
    shown = [cell[:40] for cell in first.cells[:8]]
    return UsageError(f"{file}: line {first.number}: found the headings {shown}, expected one of them to be {names}")


def _of_table(meant: Sequence[Column], headings: Line, lines: Sequence[Line]) -> tuple[list[Entry], list[Left]]:
    found, left = list[Entry](), list[Left]()
    for line in lines:
        if line.cells == headings.cells:  # printed again at the top of a page
            continue
        if line.cells[0].startswith("#") and not any(line.cells[1:]):
            left.append(Left(line.number, line.cells[0], "a remark"))
            continue
        entry, more = _entry(meant, line)
        left += more
        if entry is None:
            continue
        if entry.operator:
            found.append(entry)
        elif not found:
            left.append(Left(line.number, entry.printed, "no operator"))
        else:
            found[-1:] = _continued(found[-1], entry)
    left += _unknown(meant, headings, lines)
    return found, left


def _continued(above: Entry, more: Entry) -> Iterator[Entry]:
    """A line without an operator is about the one above: more of its constraints, or other types of it."""
    if more.kinds and more.kinds != above.kinds:
        yield above
        yield replace(more, operator=above.operator)
        return
    constraints, printed = (
        "\n".join(dict.fromkeys(filter(None, pair)))
        for pair in ((above.constraints, more.constraints), (above.printed, more.printed))
    )
    yield replace(above, constraints=constraints, printed=printed, beside=(*above.beside, *more.beside))


def _unknown(meant: Sequence[Column], headings: Line, lines: Sequence[Line]) -> Iterator[Left]:
    """The columns without a meaning, each with how many cells are kept as words alone."""
    for at, column in enumerate(meant):
        cells = [line.cells[at] for line in lines if at < len(line.cells) and line.cells[at]]
        if column.meaning in (SUPPORT, FLAG):
            cells = [cell for cell in cells if answered(cell) is None]
        if cells and column.meaning in (SUPPORT, FLAG, OTHER):
            expected = "a heading that is not known" if column.meaning == OTHER else "expected yes or no below it"
            yield Left(headings.number, column.heading, f"{expected}; {counted(len(cells), 'cell')} kept in 'document'")


# ------------------------------------------------------------------------------------ one line


def _entry(meant: Sequence[Column], line: Line) -> tuple[Entry | None, list[Left]]:
    """The entry of a line; None where its answer is that the operator is not supported."""
    cells = [*line.cells[: len(meant)], *[""] * (len(meant) - len(line.cells))]
    surplus = [cell for cell in line.cells[len(meant) :] if cell]
    taken = {meaning: _joined(meant, cells, meaning) for meaning in (OPERATOR, NAMESPACE, KINDS, CONSTRAINTS)}
    kinds, beside, left = taken[KINDS], list[tuple[str, str]](), list[Left]()
    for column, cell in zip(meant, cells, strict=True):
        if not cell or column.meaning not in (FLAG, SUPPORT, OTHER):
            continue
        answer = answered(cell)
        if column.meaning == FLAG and answer:
            kinds = f"{kinds}\n{column.heading}"
        if column.meaning == SUPPORT and answer is False:
            return None, [Left(line.number, _shown(line.cells), f"{column.heading}: {cell}, so nothing is promised")]
        beside.append((column.heading, cell))
    flags = [column.meaning == FLAG for column in meant]
    if (
        any(flags)
        and not kinds
        and all(answered(cell) is False for cell, flag in zip(cells, flags, strict=True) if flag)
    ):
        return None, [Left(line.number, _shown(line.cells), "in none of its types, so nothing is promised")]
    constraints = taken[CONSTRAINTS]
    if surplus and meant[-1].meaning == CONSTRAINTS:  # commas in a cell without quotes
        constraints = ", ".join([constraints, *surplus])
    elif surplus:
        left += [Left(line.number, cell, "more cells than headings") for cell in surplus]
    name = ".".join(filter(None, (taken[NAMESPACE], taken[OPERATOR]))) if taken[OPERATOR] else ""
    has_kinds = any(column.meaning in (KINDS, FLAG) for column in meant)
    shown = _shown(line.cells)
    return Entry(line.number, name, kinds.strip(), constraints, tuple(beside), shown, has_kinds), left


def answered(cell: str) -> bool | None:
    """True for yes, False for no or nothing, None for what is neither."""
    text = cell.lower().strip()
    known: Mapping[str, Sequence[str]] = words()["answers"]
    return True if text in known["yes"] else False if text in (*known["no"], *known["nothing"]) else None


def _joined(meant: Sequence[Column], cells: Sequence[str], meaning: str) -> str:
    """The cells of every column with a meaning; the type of a part is a text of its own, like a constraint."""
    found = (cell for column, cell in zip(meant, cells, strict=True) if column.meaning == meaning and cell)
    return (" " if meaning == NAMESPACE else "\n").join(dict.fromkeys(found))


def _shown(cells: Sequence[str]) -> str:
    return " | ".join(cells).rstrip(" |")
