"""`assay report`: the page of a run again, with what is new since an earlier run."""

from __future__ import annotations

import os
from pathlib import Path

import click

from npu_assay.conformance.commands.shared import out, plain, usage_errors, write_file


@click.command()
@click.argument("folder", metavar="DIR|ARCHIVE", type=click.Path(path_type=Path))
@click.option(
    "--since",
    metavar="EARLIER",
    type=click.Path(path_type=Path),
    help="Show what is new since this run, a folder or an archive.",
)
@out("Write this page; DIR.html here if left out.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def report(folder: Path, since: Path | None, out: Path | None, force: bool) -> None:
    """Write the page of a run again, with what is new since an EARLIER run: what fails now, what passes now.

    The run's own report.html stays as it is. Exit codes: 0 written, 2 usage or data error.
    """
    with usage_errors():
        from npu_assay.conformance.common.errors import UsageError  # help starts without
        from npu_assay.conformance.report.recorded import page_of

        name = folder.resolve().name.removesuffix(".zip")
        target = out if out is not None else Path(f"{name}.html")
        if os.path.lexists(target) and not force:
            raise UsageError(f"{target}: it exists already, expected a new file (--force writes over it)")
        text = page_of(folder, since)
        write_file(target, text.encode())
    click.echo(plain(f"report: {target}"))
