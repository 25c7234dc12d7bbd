"""The table that a run stored with its results."""

from __future__ import annotations

from npu_assay.conformance.record.certificate import Certificate
from npu_assay.conformance.record.folder import sha256
from npu_assay.conformance.record.names import CERTIFICATE, TABLE, Contents, PackageError
from npu_assay.conformance.table import Table, read_table


def table_of(contents: Contents, certificate: Certificate) -> Table:
    """The stored table. Raises PackageError if the certificate does not name it, TableError if it is invalid."""
    text = contents.text(TABLE)
    digest = sha256(text)
    if digest != certificate.table["sha256"]:
        raise PackageError(f"{TABLE} is not the table that the certificate names (sha256 differs)")
    table = read_table(text.encode(), TABLE)
    stated = (certificate.table["name"], certificate.table["version"])
    if stated != (table.name, table.version):
        raise PackageError(f"{CERTIFICATE} names the table {'@'.join(stated)}, {TABLE} is {table.title}")
    return table
