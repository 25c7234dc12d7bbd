"""`assay table upgrade`: a table of an older schema, rewritten; comments and order stay."""

from __future__ import annotations

import re
from pathlib import Path

from npu_assay.conformance.common.errors import UsageError, failing
from npu_assay.conformance.common.toml import LARGEST
from npu_assay.conformance.table import SCHEMAS, read_table
from npu_assay.files import read_regular, write_whole

NEWEST = max(SCHEMAS)
_LINE = re.compile(rb"^(schema\s*=\s*)(\d+)", re.MULTILINE)


def upgraded(data: bytes, file: str) -> bytes:
    """The bytes of the same table in the newest schema. Raises TableError for a file that is not a table.

    Schema 2 takes all that schema 1 has, so only its number changes.
    """
    table = read_table(data, file)
    found = _LINE.sub(rb"\g<1>%d" % NEWEST, data, count=1)
    again = read_table(found, file)
    if (again.rows, again.meanings, again.refused) != (table.rows, table.meanings, table.refused):
        raise UsageError(f"{file}: 'schema' does not stand at the beginning of a line of its own, expected schema = N")
    return found


def upgrade(path: Path) -> bool:
    """Rewrite a table's file, whole or not at all; whether anything changed. Raises TableError or UsageError."""
    with failing(path, "cannot rewrite it"):
        data = read_regular(path, LARGEST)
        found = upgraded(data, path.name)
        if found != data:
            write_whole(path, found)
    return found != data
