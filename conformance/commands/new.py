"""`assay new`: write a backend to begin with."""

from __future__ import annotations

from pathlib import Path

import click

from npu_assay.conformance.commands.shared import out, usage_errors


@click.command()
@click.argument("name")
@out("Make this folder; NAME if left out.", "DIR")
def new(name: str, out: Path | None) -> None:
    """Write a package with a small backend called NAME, which certifies as it is.

    Exit codes: 0 written, 2 usage error, and then nothing is written.
    """
    with usage_errors():
        from npu_assay.conformance.backend.scaffold import write_kit  # help starts without

        folder = Path(name) if out is None else out
        for path in write_kit(name, folder):
            click.echo(path)
    click.echo(f"certify it: pip install -e {folder} && assay certify {name}")
