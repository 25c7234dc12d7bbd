"""A vendor's support table: one TOML file, read and checked in full before anything uses it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from npu_assay.conformance.common.errors import failing, nearest
from npu_assay.conformance.common.memory import keep
from npu_assay.conformance.common.schema import TableError as TableError
from npu_assay.conformance.common.toml import LARGEST, TomlBombError, TomlError, read_toml
from npu_assay.conformance.table.parsing import INTEGER_PRECISIONS as INTEGER_PRECISIONS
from npu_assay.conformance.table.parsing import PRECISIONS as PRECISIONS
from npu_assay.conformance.table.parsing import RESCALES as RESCALES
from npu_assay.conformance.table.parsing import ROW as ROW
from npu_assay.conformance.table.parsing import SCHEMAS as SCHEMAS
from npu_assay.conformance.table.parsing import TOP as TOP
from npu_assay.conformance.table.parsing import parse_table
from npu_assay.conformance.table.record import Row as Row
from npu_assay.conformance.table.record import Table as Table
from npu_assay.files import read_regular
from npu_assay.reference.operators import VIEWS


class TableBombError(TableError):
    """A file that would take hours or gigabytes to read: no run can have had it."""


FOLDER = Path(__file__).parent.parent / "tables"


def table_path(name: str) -> Path:
    """The file of a table that ships with the suite (`neutron@1.3`), or the path itself if it is one.

    Raises TableError when there is neither.
    """
    path = Path(name)
    if path.suffix == ".toml":
        return path
    shipped = FOLDER / f"{name}.toml"
    if not shipped.is_file():
        known = [found.stem for found in FOLDER.glob("*.toml")]
        raise TableError(f"no table {name!r}{nearest(name, known)} (or give a file, which ends with .toml)")
    return shipped


_HELD: dict[str, bytes] = {}


@contextmanager
def held(name: str) -> Iterator[bytes]:
    """Read a table's file once: within, this process and those that it forks load the table from these bytes.

    A file may be saved again while a run goes on. Raises TableError when it cannot be read.
    """
    if name in _HELD:
        yield _HELD[name]
        return
    _HELD[name] = data = _read(table_path(name))
    try:
        yield data
    finally:
        del _HELD[name]


def table_bytes(name: str) -> bytes:
    """A table's file, by name or path; as it was read before while it is `held`. Raises TableError."""
    return _HELD[name] if name in _HELD else _read(table_path(name))


def _read(path: Path) -> bytes:
    with failing(path, "cannot read the table", TableError):
        return read_regular(path, LARGEST)


def load_table(name: str) -> Table:
    """Read a table by name or path. Raises TableError for anything that does not fit the schema."""
    return read_table(table_bytes(name), table_path(name).name)


def table_before(table: Table) -> Table:
    """The table of the release before it. Raises TableError where there is none of that name."""
    return _before(table_bytes(table.follows), table_path(table.follows).name)


@keep(4)
def _before(data: bytes, file: str) -> Table:
    """The same bytes are read once: every row asks for the one of the release before."""
    return read_table(data, file)


def row_before(table: Table, row: Row) -> Row | None:
    """The row of an earlier table for the same operator, under whichever of its names; None where it has none."""
    names = {row.name, VIEWS.get(row.name, row.name)}
    return next((each for each in table.rows if {each.name, VIEWS.get(each.name, each.name)} & names), None)


def read_table(data: bytes, file: str) -> Table:
    """Read the bytes of a table; `file` is what errors call it. Raises TableError (TableBombError: too much)."""
    try:
        return parse_table(read_toml(data.decode()), file, hashlib.sha256(data).hexdigest())
    except UnicodeDecodeError as error:
        raise TableError(f"{file}: not UTF-8 text at byte {error.start}") from error
    except TomlBombError as error:
        raise TableBombError(f"{file}: {error}") from error
    except TomlError as error:
        raise TableError(f"{file}: {_toml_error(data.decode(), str(error))}") from error
    except RecursionError:  # a value that a message shows
        raise TableError(f"{file}: values are nested too deeply to be read") from None


def _toml_error(text: str, message: str) -> str:
    """TOML's own message; for a repeated key it lacks the key, which is found here."""
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        key = line.split(" = ", 1)[0].strip()
        if line.startswith('"') and key in seen:
            return f"operator {key} stands twice, again on line {number}"
        seen.add(key)
    return message
