"""`assay list`: the installed backends, and the tables that ship with the suite."""

from __future__ import annotations

import click

from npu_assay.conformance.commands.shared import usage_errors


@click.command()
def list() -> None:
    """List the installed backends and the tables that ship with the suite.

    Exit codes: 0 listed, 2 usage or data error.
    """
    from npu_assay.conformance.backend.loading import registered  # help starts without
    from npu_assay.conformance.table import FOLDER, load_table

    with usage_errors():
        click.echo("backends")
        for name, point in registered().items():
            click.echo(f"  {name:<16} {point.value}")
        click.echo("tables")
        for path in sorted(FOLDER.glob("*.toml")):
            table = load_table(str(path))
            click.echo(f"  {path.stem:<16} {len(table.rows)} operators, {table.source}")
