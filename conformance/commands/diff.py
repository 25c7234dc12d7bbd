"""`assay diff`: what changed between two certificates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from npu_assay.conformance.commands.shared import plain, usage_errors

if TYPE_CHECKING:
    from npu_assay.conformance.compare.difference import Difference

SAME, DIFFERENT = 0, 1


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every case.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown, for a comment on a change.")
@click.option("--html", "as_html", is_flag=True, help="Print one HTML page that loads nothing.")
def diff(a: Path, b: Path, as_json: bool, as_markdown: bool, as_html: bool) -> None:
    """Show what changed from A to B, two results folders or archives: tags, reasons, numbers.

    It begins with how many cases newly fail, are newly accepted, came or went. A run of a selection is compared in the
    cases that it ran. Exit codes: 0 the same, 1 different, 2 one of them cannot be read.
    """
    chosen = [form for form, wanted in (("json", as_json), ("markdown", as_markdown), ("html", as_html)) if wanted]
    if len(chosen) > 1:
        raise click.UsageError("expected one of --json, --markdown and --html")
    with usage_errors():
        from npu_assay.conformance.compare.difference import compare, read_run

        found = compare(read_run(a), read_run(b))
    form = chosen[0] if chosen else None
    click.echo(_text(found, form), nl=form not in ("html", "markdown"))
    raise SystemExit(SAME if found.same else DIFFERENT)


def _text(found: Difference, form: str | None) -> str:
    """The difference in one of its forms, plain lines if none was asked for."""
    from npu_assay.conformance.compare import difference_markup, difference_text

    match form:
        case "json":
            return json.dumps(found.as_json(), indent=2)
        case "markdown":
            return difference_markup.markdown(found)
        case "html":
            return difference_markup.html(found)
    return "\n".join(map(plain, difference_text.lines(found)))
