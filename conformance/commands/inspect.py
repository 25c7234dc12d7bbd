"""`assay inspect`: what a .pte file holds."""

from __future__ import annotations

import json
from pathlib import Path

import click

from npu_assay.conformance.commands.shared import backends_option, memory_option, timeout_option, usage_errors


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@backends_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@timeout_option
@memory_option
def inspect(model: Path, specs: tuple[str, ...], as_json: bool, timeout: float, memory: int) -> None:
    """Show what a .pte MODEL holds: methods, operators, delegates, memory, sizes.

    Exit codes: 0 shown, 2 usage or data error.
    """
    from rich.console import Console  # help starts without

    with usage_errors():
        from npu_assay.conformance.isolation.limits import Limits  # help starts without
        from npu_assay.conformance.pte.summary import summary_of
        from npu_assay.conformance.pte.text import WIDTH, print_summary

        summary = summary_of(model, specs, Limits(timeout, memory))
    if as_json:
        click.echo(json.dumps(summary, indent=2))
    else:
        print_summary(Console(width=WIDTH, emoji=False), summary)
