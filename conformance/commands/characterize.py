"""`assay characterize`: how a backend rounds, measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from npu_assay.conformance.commands.early_checks import tell_mistakes
from npu_assay.conformance.commands.shared import (
    backend_argument,
    expression,
    memory,
    out,
    place,
    placed,
    plain,
    processes,
    seed_option,
    table_option,
    timeout,
    usage_errors,
    workers_option,
    write_file,
)
from npu_assay.conformance.isolation.limits import Limits

if TYPE_CHECKING:
    from npu_assay.conformance.characterize.plan import Finding

MEASURED, NOTHING = 0, 1
JSON, PAGE = "characterize.json", "characterize.md"


@click.command()
@backend_argument
@expression("Measure only operators of a name (cat), or those with cases whose id matches.")
@workers_option
@table_option
@out(f"Write {PAGE} and {JSON} here.", "DIR")
@seed_option("Draw scales and numbers from this seed.")
@click.option("-v", "--verbose", is_flag=True, help="Also print what was measured at each ratio of scales.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@timeout("Seconds of processor time per program.")
@memory("Mebibytes per program.")
@placed
def characterize(
    backend: str,
    expression: str | None,
    workers: int | None,
    table: str | None,
    out: Path | None,
    seed: int,
    verbose: bool,
    as_json: bool,
    timeout: float,
    memory: int,
    **where: Any,
) -> None:
    """Measure how BACKEND rounds: by operator and precision, against exact results.

    How many results are not the nearest code, their bias, how far they are off, where ties go, and from which ratio of
    scales, number of terms or size on that changes. Nothing is judged. Exit codes: 0 something was measured, 1 nothing
    was, 2 usage or data error.
    """
    tell_mistakes(backend, table, expression)
    from npu_assay.conformance.isolation import base_process  # help starts without

    base_process.warm()  # before anything is loaded that the process of a backend must not have
    with usage_errors():
        from npu_assay.conformance.characterize import report  # loads torch
        from npu_assay.conformance.characterize.asking import Request, characterize

        at = place(**where)
        request = Request(backend, table, expression, seed, processes(workers, at), Limits(timeout, memory), at)
        found = characterize(request, _tell)
    text = json.dumps(report.as_json(found), indent=1)
    if out is not None:
        write_file(out / JSON, f"{text}\n".encode())
        write_file(out / PAGE, report.markdown(found).encode())
    for line in (text,) if as_json else report.lines(found, verbose):
        click.echo(line if as_json else plain(line))
    if out is not None:
        click.echo(plain(f"written: {out / PAGE}, {out / JSON}"), err=True)
    raise SystemExit(MEASURED if any(finding.sample.results for finding in found.findings) else NOTHING)


def _tell(finding: Finding, done: int, whole: int) -> None:
    click.echo(plain(f"{done}/{whole} {finding.row} {finding.precision}".rstrip()), err=True)
