"""`assay new`: write a backend to begin with."""

from __future__ import annotations

from pathlib import Path

import click

from npu_assay.conformance.commands.shared import out, usage_errors


@click.command()
@click.argument("name")
@out("Make this folder; NAME if left out.", "DIR")
@click.option("--device", is_flag=True, help="Also write a runner in C++ for a board (docs/devices.md).")
def new(name: str, out: Path | None, device: bool) -> None:
    """Write a package with a small backend called NAME, which certifies as it is.

    Exit codes: 0 written, 2 usage error, and then nothing is written.
    """
    with usage_errors():
        from npu_assay.conformance.backend.scaffold import write_kit  # help starts without

        folder = Path(name) if out is None else out
        for path in write_kit(name, folder, device):
            click.echo(path)
    behind = ""
    if device:
        runner = f"{folder}/runner"
        click.echo(f"build its device: cmake -S {runner} -B {runner}/build && cmake --build {runner}/build")
        behind = f" --device '{runner}/build/runner {{folder}}'"
    click.echo(f"certify it: pip install -e {folder} && assay certify {name}{behind}")
