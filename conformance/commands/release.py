"""`assay release`: what changed from one release of a package to another."""

from __future__ import annotations

from pathlib import Path

import click

from npu_assay.conformance.commands.shared import cores, expression, out, plain, usage_errors, workers_option
from npu_assay.conformance.programs.variation_names import CHOSEN

SAME, DIFFERENT = 0, 1


@click.command()
@click.argument("old")
@click.argument("new")
@expression("Ask only cases of an operator (cat), or whose id matches.")
@click.option("--smoke", is_flag=True, help="Ask a few cases of every operator and constraint.")
@workers_option
@out("Write pages and records to this folder; assay-release-PACKAGE if left out.", "DIR")
@click.option(
    "--environments",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the two environments here; in --out if left out.",
)
@click.option(
    "--documents",
    nargs=2,
    metavar="OLD NEW",
    type=click.Path(path_type=Path),
    help="Compare these published tables, too: two files, or folders.",
)
@click.option(
    "--findings",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Take the pages of findings here; docs/reports of the suite if left out.",
)
@click.option("--again", is_flag=True, help="Ask again what has a record of the same suite.")
def release(
    old: str,
    new: str,
    expression: str | None,
    smoke: bool,
    workers: int | None,
    out: Path | None,
    environments: Path | None,
    documents: tuple[Path, Path] | None,
    findings: Path | None,
    again: bool,
) -> None:
    """Compare the releases OLD and NEW of a package, NAME==VERSION or wheels: documents, tags, numbers, findings.

    Each gets an environment of its own, in which every backend of the package is asked for all cases. What was asked is
    not asked again: an interrupted comparison goes on.

    Exit codes: 0 nothing changed, 1 something did, 2 usage or data error.
    """
    with usage_errors():
        from npu_assay.conformance.record.certificate import Selection  # help starts without
        from npu_assay.conformance.release.compare import Request, compared
        from npu_assay.conformance.release.known import PAGES
        from npu_assay.conformance.release.packages import release as read
        from npu_assay.conformance.release.runs import Asked

        sides = read(old), read(new)
        folder = Path(f"assay-release-{sides[0].name}") if out is None else Path(out)
        asked = Asked(Selection(expression, smoke, variations=CHOSEN), cores() if workers is None else workers, again)
        pages = findings if findings is not None else PAGES if PAGES.is_dir() else None
        kept = folder / "environments" if environments is None else environments
        found = compared(
            Request(*sides, asked, folder, kept.absolute(), documents or None, pages),
            lambda line: click.echo(plain(line)),
        )
    click.echo(f"report: {folder / 'release.html'}")
    raise SystemExit(SAME if found.same else DIFFERENT)
