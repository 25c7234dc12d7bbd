"""`assay judge`: outputs that were computed elsewhere, by the gates of a certificate."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from npu_assay.conformance.commands.shared import Output, plain, usage_errors

RIGHT, WRONG = 0, 1
SHOWN = 20


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--outputs",
    metavar="DIR2",
    required=True,
    type=click.Path(path_type=Path),
    help="Read the outputs from this folder: DIR2/CASE/output_0.pb.",
)
@click.option(
    "--rescale",
    metavar="SCHEME",
    help="Expect codes computed by floats, or exactly as a scheme says; as the export says if left out.",
)
@click.option(
    "--out",
    metavar="FILE",
    type=Output(),
    default="assay-judged.json",
    show_default=True,
    help="Write the judgments to this file.",
)
def judge(folder: Path, outputs: Path, rescale: str | None, out: Path) -> None:
    """Judge the outputs in DIR2 of the cases that `assay export` wrote into DIR.

    Exit codes: 0 all are right, 1 some are not, 2 usage or data error.
    """
    with usage_errors():
        from npu_assay.conformance.interchange.judging import FAIL, Request, judge_folder, write_report  # loads torch

        report = judge_folder(Request(folder, outputs, rescale))
        write_report(report, out)
    failing = [one for one in report.judgements if one.status == FAIL]
    for one in failing[:SHOWN]:
        click.echo(f"fail {plain(one.case)}: [{one.failures[0].check}] {plain(one.failures[0].message)}")
    if len(failing) > SHOWN:
        click.echo(f"... and {len(failing) - SHOWN} more, see {out}")
    for check, count in sorted(Counter(one.failures[0].check for one in failing).items()):
        click.echo(f"{check:<14} {count}")
    left_out = f", {len(report.manifest.left_out)} were never exported" if report.manifest.left_out else ""
    click.echo(", ".join(f"{count} {name}" for name, count in report.counts.items()) + left_out)
    raise SystemExit(RIGHT if report.passed else WRONG)
