"""What changed from one published table to another: rows, precisions and sentences, and no decision of this project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.table.changes import NONE, Change
from npu_assay.conformance.table.published import read_file
from npu_assay.conformance.table.published.rows import Row, Rows

ENDINGS = (".csv", ".md", ".tsv", ".txt", ".xlsx")


def document_changes(a: Path, b: Path) -> list[Change]:
    """From one document, or folder of documents of the same names, to another. Raises UsageError."""
    if a.is_dir() != b.is_dir():
        raise UsageError(f"{a}, {b}: found a file and a folder, expected two of one kind")
    return list(_of_folders(a, b) if a.is_dir() else _of_files(a, b, ""))


def _of_folders(a: Path, b: Path) -> Iterator[Change]:
    before, after = ({each.name: each for each in sorted(folder.iterdir()) if _is_document(each)} for folder in (a, b))
    if not before and not after:
        raise UsageError(f"{a}, {b}: found no document, expected files that end with {', '.join(ENDINGS)}")
    for name in sorted(before.keys() | after.keys()):
        if name in before and name in after:
            yield from _of_files(before[name], after[name], f"{name}: ")
        else:
            yield Change(name, "document", *(name if name in side else NONE for side in (before, after)))


def _is_document(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS


def _of_files(a: Path, b: Path, where: str) -> Iterator[Change]:
    before, after = _rows(a), _rows(b)
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            yield Change(where + name, "row", *(NONE if row is None else _printed(row) for row in (old, new)))
            continue
        for what, x, y in (
            ("precisions", _joined(e.kinds for e in old.entries), _joined(e.kinds for e in new.entries)),
            ("sentence", _joined(e.document for e in old.entries), _joined(e.document for e in new.entries)),
        ):
            if x != y:
                yield Change(where + name, what, x or NONE, y or NONE)


def _rows(path: Path) -> Mapping[str, Row]:
    """The rows by operator, and by its printed name what the suite has no operator for."""
    found = Rows(read_file(path).entries)
    known = {entry.line for row in found.rows for entry in row.entries}
    others = [entry for entry in found.entries if entry.line not in known]
    return {row.name: row for row in found.rows} | {
        each.operator: Row(each.operator, (each,), (), ()) for each in others
    }


def _printed(row: Row) -> str:
    return _joined(entry.printed or entry.operator for entry in row.entries)


def _joined(texts: Iterable[str]) -> str:
    """Each text once."""
    return "; ".join(dict.fromkeys(filter(None, texts)))
