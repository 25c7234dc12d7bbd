"""How a command that leaves a record ends: what it says, to a terminal and to a build server, and its exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from rich.console import Console

from npu_assay.conformance.ci.github import tell
from npu_assay.conformance.commands.shared import plain, usage_errors
from npu_assay.conformance.record.names import TABLE
from npu_assay.conformance.report.console import summary
from npu_assay.conformance.table import table_path

if TYPE_CHECKING:
    from npu_assay.conformance.report.data import Report

PASSED, NOT_PASSED = 0, 1


def conclude(
    console: Console,
    report: Report,
    folder: Path,
    table: str | None = None,
    waivers: Path | None = None,
    late: Sequence[str] = (),
) -> NoReturn:
    """Print the summary, tell the build server, and exit: 0 when all that was asked for passes, else 1.

    table: name or file of the table whose lines annotations name; that of the certificate, or else the record's copy.
    waivers: the file whose lines those name that are about waivers. late: why a record that passed does not any more.
    """
    certificate = report.certificate
    summary(console, report, folder)
    shard = certificate.selection.shard
    if shard is not None:
        verdict = "passed" if certificate.passed else "not passed"
        click.echo(f"shard {shard}: {verdict}; only a whole run certifies, 'assay merge' makes it of all shards")
    promised = certificate.table["path"] if table is None else table
    with usage_errors():
        file = folder / TABLE if promised is None else table_path(promised)
        for line in tell(report, folder, file, os.environ, waivers):
            click.echo(line)
    for line in late:
        click.echo(plain(line))
    raise SystemExit(PASSED if certificate.passed and not late else NOT_PASSED)
