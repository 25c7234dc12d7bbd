"""`assay diff`: what changed between two certificates."""

from __future__ import annotations

import json
from pathlib import Path

import click

from npu_assay.conformance.commands.shared import plain, usage_errors

SAME, DIFFERENT = 0, 1


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="The same as JSON, with every case.")
def diff(a: Path, b: Path, as_json: bool) -> None:
    """Show what changed from A to B, two results folders or archives: tags, reasons, numbers.

    Exit codes: 0 the same, 1 different, 2 one of them cannot be read.
    """
    with usage_errors():
        from npu_assay.conformance.compare.difference import compare, read_run
        from npu_assay.conformance.compare.difference_text import lines

        found = compare(read_run(a), read_run(b))
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=2))
    else:
        click.echo("\n".join(map(plain, lines(found))))
    raise SystemExit(SAME if found.same else DIFFERENT)
