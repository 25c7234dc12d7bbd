"""`assay merge`: the record of a whole run, made of its shards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from npu_assay.conformance.commands.completion import tables
from npu_assay.conformance.commands.shards import default_folder
from npu_assay.conformance.commands.shared import out, today, usage_errors
from npu_assay.conformance.common.escaped import counted
from npu_assay.conformance.debug.lazy_dynamo import postpone

if TYPE_CHECKING:
    from npu_assay.conformance.record.certificate import Certificate


@click.command()
@click.argument("shards", metavar="SHARD...", nargs=-1, required=True, type=click.Path(path_type=Path))
@out("Write the record to this folder; assay-BACKEND[-part] if left out.", "DIR")
@click.option(
    "--table",
    metavar="TABLE",
    shell_complete=tables,
    help="Name lines of the table of this name or file in annotations; those of the record's copy if left out.",
)
def merge(shards: tuple[Path, ...], out: Path | None, table: str | None) -> None:
    """Make one record of all shards of a run: folders of `assay certify --shard I/N`, or archives of them.

    The record is, byte for byte, that of one run of all cases, and `assay verify` takes it as such. Shards of different
    backends, tables, suites, versions, selections or levels, one that is missing or there twice, and one that was
    edited are refused. Under GitHub Actions each finding is an annotation at its operator's line of the table: with
    --table, which must be the table that the shards ran against, in the file that is checked in.

    Exit codes: 0 all that was asked for passes, 1 something fails, or a waiver has expired since the shards ran, 2 the
    shards do not make one run.
    """
    with usage_errors():
        postpone()
        from rich.console import Console  # loads torch

        from npu_assay.conformance.commands.finish import conclude
        from npu_assay.conformance.verify.merging import check_table
        from npu_assay.conformance.verify.merging import merge as merged

        whole = merged(shards, today())
        certificate = whole.report.certificate
        check_table(certificate, table)
        part = certificate.selection.expression is not None or certificate.selection.smoke
        folder = out if out is not None else default_folder(certificate.backend["spec"], certificate.level, part)
        whole.write(folder)
    conclude(Console(emoji=False), whole.report, folder, table, late=_expired(certificate))


def _expired(certificate: Certificate) -> list[str]:
    """The waivers that held when the shards ran: `assay verify` takes them no more, whatever the bytes."""
    gone = [waiver for waiver in certificate.waivers if waiver.expires < today()] if certificate.passed else []
    last = [f"not passed: {counted(len(gone), 'waiver')} expired since the shards ran"] if gone else []
    return [*(f"{waiver.name} expired on {waiver.expires}" for waiver in gone), *last]
