"""`assay offer`: what a backend takes beyond its table, and whether it computes that rightly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from npu_assay.conformance.commands.completion import every_operator
from npu_assay.conformance.commands.early_checks import tell_mistakes
from npu_assay.conformance.commands.shared import (
    backend_argument,
    cores,
    expression,
    memory,
    out,
    plain,
    table_option,
    timeout,
    today,
    usage_errors,
    workers_option,
)
from npu_assay.conformance.common.escaped import counted
from npu_assay.conformance.common.grouping import grouped_by
from npu_assay.conformance.isolation.limits import Limits

if TYPE_CHECKING:
    from npu_assay.conformance.record.results import CaseResult

RIGHT, WRONG = 0, 1
SHOWN = 20  # wrong programs


@click.command()
@backend_argument
@expression("Offer only operators of a name (cat), or cases whose id matches.", every_operator)
@workers_option
@table_option
@out("Write the record to this folder; assay-BACKEND-offers if left out.", "DIR")
@timeout("Seconds of processor time per case.")
@memory("Mebibytes per case.")
def offer(
    backend: str,
    expression: str | None,
    workers: int | None,
    table: str | None,
    out: Path | None,
    timeout: float,
    memory: int,
) -> None:
    """Offer BACKEND every operator that its table does not list; say what it takes, and whether that is right.

    In the precisions of the table. Taking more than is promised is no fault; wrong numbers are one. Exit codes: 0 all
    that it takes is right, 1 something is wrong, 2 usage or data error.
    """
    tell_mistakes(backend, table)
    from npu_assay.conformance.isolation import base_process  # help starts without

    base_process.warm()  # before anything is loaded that the process of a backend must not have
    from rich.console import Console  # slow to load

    from npu_assay.conformance.report.console import progress

    folder = out if out is not None else Path(f"assay-{backend.replace(':', '.')}-offers")
    with usage_errors():
        from npu_assay.conformance.record.certificate import Selection  # loads torch
        from npu_assay.conformance.run.session import Request, assay

        count, asked = cores() if workers is None else workers, Selection(expression)
        request = Request(backend, table, asked, count, folder, limits=Limits(timeout, memory), offer=True)
        with progress(Console(emoji=False)) as shown:
            report = assay(request, shown, today)
    for line in lines(report.results):
        click.echo(plain(line))
    click.echo(f"report: {folder / 'report.html'}")
    raise SystemExit(WRONG if any(result.failures for result in report.results) else RIGHT)


def lines(results: Iterable[CaseResult]) -> Iterator[str]:
    """What is taken, by operator and precision; first failures with their messages."""
    rows = grouped_by(results, lambda result: (result.row, result.precision))
    taken = {row: found for row, found in rows.items() if any(r.verdict == "accept" for r in found)}
    wrong = [result for found in rows.values() for result in found if result.failures]
    offered, bad_ones = counted(len(rows), "operator"), counted(len(wrong), "program")
    yield f"{offered} offered, by precision; {len(taken)} taken, {bad_ones} wrong"
    for (name, precision), found in sorted(taken.items()):
        accepted = [result for result in found if result.verdict == "accept"]
        bad = sum(bool(result.failures) for result in accepted)
        yield f"  {name:<44} {precision:<10} {len(accepted)} of {len(found)} programs taken, {bad or 'none'} wrong"
    for result in wrong[:SHOWN]:
        yield f"  wrong: {result.case}: {result.failures[0]}"
    if len(wrong) > SHOWN:
        yield f"  ... and {len(wrong) - SHOWN} more, see the report"
