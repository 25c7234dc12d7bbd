"""`assay table import`: a vendor's published table of operators as a table to begin with.

Columns are known by their headings. What stands in the constraints' column stays as the row's `document`; what can be
read of it becomes constraints that the table defines, and the rest a constraint that no case checks, marked as not
read. Above each row stand the published lines that it is from. What is in no row is in a list of what was left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.table.published.columns import Entry as Entry
from npu_assay.conformance.table.published.columns import entries, known_headings
from npu_assay.conformance.table.published.copied import copied
from npu_assay.conformance.table.published.files import Block, blocks, text_blocks
from npu_assay.conformance.table.published.rows import Rows
from npu_assay.conformance.table.published.vocabulary import Left as Left
from npu_assay.conformance.table.published.writing import written


@dataclass(frozen=True)
class Published:
    """The entries of a published table, and what else its file has."""

    entries: Sequence[Entry]
    left: Sequence[Left] = ()


@dataclass(frozen=True)
class Imported:
    """A table of schema 2, as text; the texts that are marked in it as not read; and what is not in it."""

    text: str
    unread: Sequence[Left]
    left: Sequence[Left]
    predicates: int


def read_file(path: Path) -> Published:
    """The entries of a file. Raises UsageError."""
    return Published(*entries(*blocks(path, _blocks), path.name))


def read_text(text: str, file: str) -> Published:
    """The entries of a text, CSV or Markdown. Raises UsageError."""
    return Published(*entries(*_blocks(text, file), file))


def _blocks(text: str, file: str) -> tuple[list[Block], Block]:
    return copied(text) or text_blocks(text, file, known_headings)


def imported(found: Published, name: str, version: str, backend_id: str, source: str) -> Imported:
    """The table of what was published. Raises UsageError where the suite has none of its operators."""
    rows = Rows(found.entries)
    if not rows.rows:
        raise UsageError(f"{source}: found no operator of the suite in it, expected some; {rows.left[0]}")
    left = sorted((*found.left, *rows.left), key=lambda each: each.line)
    text = written(rows, left, name, version, backend_id, source)
    return Imported(text, rows.unread, left, rows.predicates)
