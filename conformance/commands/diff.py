"""`assay diff`: what changed between two certificates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from npu_assay.conformance.commands.shared import Output, plain, usage_errors, write_file

if TYPE_CHECKING:
    from npu_assay.conformance.compare.difference import Difference

SAME, DIFFERENT = 0, 1


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every case.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown, for a comment on a change.")
@click.option("--html", "page", metavar="FILE", type=Output(), help="Write one HTML page that loads nothing, too.")
def diff(a: Path, b: Path, as_json: bool, as_markdown: bool, page: Path | None) -> None:
    """Show what changed from A to B, two results folders or archives: tags, reasons, numbers.

    It begins with how many cases newly fail, are newly accepted, came or went. A run of a selection is compared in the
    cases that it ran. Exit codes: 0 the same, 1 different, 2 one of them cannot be read.
    """
    if as_json and as_markdown:
        raise click.UsageError("found --json and --markdown, expected one of them")
    with usage_errors():
        from npu_assay.conformance.compare.difference import compare, read_run  # help starts without
        from npu_assay.conformance.compare.difference_pages import html

        found = compare(read_run(a), read_run(b))
        if page is not None:
            write_file(page, html(found).encode())
    click.echo(_text(found, as_json, as_markdown), nl=not as_markdown)
    raise SystemExit(SAME if found.same else DIFFERENT)


def _text(found: Difference, as_json: bool, as_markdown: bool) -> str:
    """The difference in one of its forms, plain lines if none was asked for."""
    from npu_assay.conformance.compare.difference_pages import lines, markdown  # help starts without

    if as_json:
        return json.dumps(found.as_json(), indent=2)
    if as_markdown:
        return markdown(found)
    return "\n".join(map(plain, lines(found)))
