"""The sheets of an xlsx file, read with openpyxl (`pip install npu-assay[xlsx]`), which must have defusedxml."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

from npu_assay.conformance.common.errors import UsageError

LARGEST = 2**20  # bytes of a published file
UNPACKED, ROWS, COLUMNS = 2**24, 10_000, 64  # of an xlsx file: bytes that its parts unpack to, and of each sheet
Rows = list[tuple[int, tuple[str, ...]]]
"""The lines of a sheet that have something in them, by their numbers from 1."""


def sheets(data: bytes, file: str) -> list[Rows]:
    """The sheets with something in them. Raises UsageError."""
    try:
        import defusedxml  # noqa: F401  (an extra, without which openpyxl expands entities)
        import openpyxl
    except ImportError as error:
        raise UsageError(
            f"{file}: xlsx needs {error.name}, expected it installed: pip install npu-assay[xlsx]"
        ) from error
    try:
        _check_size(data, file)
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        found = [list(_rows(sheet, data)) for sheet in book.worksheets]
    except UsageError:
        raise
    except Exception as error:  # openpyxl raises whatever its parts do
        raise UsageError(f"{file}: not an xlsx file that can be read: {type(error).__name__}: {error}") from error
    for rows in found:
        if len(rows) > ROWS:
            raise UsageError(f"{file}: a sheet has more than {ROWS} rows, expected at most as many")
    return [rows for rows in found if rows]


def _check_size(data: bytes, file: str) -> None:
    """Python's zip files give at most as many bytes as they state."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = sum(part.file_size for part in archive.infolist())
    if size > UNPACKED:
        raise UsageError(f"{file}: unpacks to {size} bytes, expected at most {UNPACKED}")


def _rows(sheet: Any, data: bytes) -> Iterator[tuple[int, tuple[str, ...]]]:
    sheet.reset_dimensions()  # which a file may state as it likes
    merged = _merged(sheet, data)
    known: dict[tuple[int, int], str] = {}
    for number, row in enumerate(sheet.iter_rows(max_row=ROWS + 1, max_col=COLUMNS, values_only=True), 1):
        cells = ["" if cell is None else str(cell).strip() for cell in row]
        for at, cell in enumerate(cells, 1):
            if (number, at) in merged:
                first = merged[number, at]
                cells[at - 1] = known.setdefault(first, cell) if first == (number, at) else known.get(first, cell)
        if any(cells):
            yield number, tuple(cells)


def _merged(sheet: Any, data: bytes) -> dict[tuple[int, int], tuple[int, int]]:
    """The first cell of those that are merged over several rows, by row and column; openpyxl streams no such lists."""
    from defusedxml.ElementTree import iterparse  # optional
    from openpyxl.utils.cell import range_boundaries

    found: dict[tuple[int, int], tuple[int, int]] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(sheet._worksheet_path) as part:
        for _, element in iterparse(part, events=("end",)):
            if not str(element.tag).endswith("}mergeCell"):
                continue
            place: Any = range_boundaries(element.get("ref", ""))
            left, top, _, bottom = place
            found.update(((row, left), (top, left)) for row in range(top, min(bottom, ROWS) + 1))
            if len(found) > ROWS * COLUMNS:
                raise UsageError(f"{sheet.title}: more than {ROWS * COLUMNS} merged cells, expected at most as many")
    return found
