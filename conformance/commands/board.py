"""`assay board`: a static site over many runs."""

from __future__ import annotations

from pathlib import Path

import click

from npu_assay.conformance.commands.shared import Output, cores, plain, today, usage_errors, workers_option
from npu_assay.conformance.common.escaped import counted


@click.command()
@click.argument("runs", metavar="[LABEL=]RUN...", nargs=-1, required=True)
@click.option(
    "--out", metavar="SITE", required=True, type=Output(is_folder=True), help="Write the site to this folder."
)
@click.option(
    "--key",
    "keys",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Take this public key for one of a person; two who signed the same make level 6.",
)
@workers_option
def board(runs: tuple[str, ...], out: Path, keys: tuple[Path, ...], workers: int | None) -> None:
    """Make a static site of many runs: readiness, backends, operators and releases, history, findings, badges, search.

    The latest whole run of each backend is verified, and has a level from 0 to 6 for every operator and precision.
    RUN is a results folder, an archive of one, or a folder that holds some; LABEL names its release, which else is its
    table's version. A run that cannot be read is listed with its reason. Built again, the site reads new and changed
    runs alone.

    Exit codes: 0 the site is there, 2 no run can be read, or the site cannot be written.
    """
    with usage_errors():
        from npu_assay.conformance.board.building import build  # slow to load
        from npu_assay.conformance.board.ready_runs import Asking

        built = build(runs, out, Asking(keys, today(), cores() if workers is None else workers))
    for name, reason in built.runs.broken:
        click.echo(f"not read: {plain(name)}: {plain(reason)}", err=True)
    for name, first in built.runs.again:
        click.echo(f"counted once: {plain(name)} is the same run as {plain(first)}", err=True)
    read, written = counted(len(built.runs.runs), "run"), counted(built.files, "file")
    click.echo(f"{read}, {built.runs.fresh} of them read anew; {written}, {built.changed} of them changed")
    click.echo(plain(f"site: {out / 'index.html'}"))
