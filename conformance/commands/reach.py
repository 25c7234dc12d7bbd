"""`assay reach`: whether a user meets what the cases of a table show."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import click

from npu_assay.conformance.commands.early_checks import tell_mistakes
from npu_assay.conformance.commands.shared import (
    backend_argument,
    cores,
    expression,
    out,
    plain,
    table_option,
    timeout_option,
    usage_errors,
    workers_option,
    write_file,
)

RIGHT, WRONG = 0, 1


@click.command()
@backend_argument
@expression("Ask only about operators of a name (cat), or cases whose id matches.")
@click.option(
    "--of",
    "run",
    metavar="DIR|ARCHIVE|FILE.xz",
    type=click.Path(path_type=Path),
    help="Ask only about cases that failed in this run.",
)
@click.option(
    "--each",
    metavar="N",
    type=click.IntRange(min=1),
    help="Ask about N cases of each cause, of the failures in --of, as the release's triage sorts them.",
)
@workers_option
@table_option
@out("Write what every case met: JSON lines.")
@timeout_option
def reach(
    backend: str,
    expression: str | None,
    run: Path | None,
    each: int | None,
    workers: int | None,
    table: str | None,
    out: Path | None,
    timeout: float,
) -> None:
    """Take cases from an nn.Module to a running program, with BACKEND's own quantizer and lowering.

    The model of each case is written in real numbers, exported, quantized, lowered and run, as the vendor documents it.
    What fails here, a user can meet; what fails in assay certify alone needs an edge program that this way does not
    write. Outputs are compared with those of torch, within wide bounds. Exit codes: 0 nothing is wrong, 1 an error or
    wrong numbers, 2 usage or data error.
    """
    tell_mistakes(backend, table, expression)
    with usage_errors():
        from npu_assay.conformance.backend.loading import load_backend  # help starts without
        from npu_assay.conformance.common.errors import UsageError
        from npu_assay.conformance.reach.asking import ask
        from npu_assay.conformance.reach.report import as_lines, lines
        from npu_assay.conformance.run.selection import all_cases, none_selected, select
        from npu_assay.conformance.table import load_table

        if each is not None and run is None:
            raise UsageError("--each: found no --of, expected the run whose cases it chooses from")
        name = table or load_backend(backend).table
        cases = known = all_cases(load_table(name))
        if expression is not None and not (cases := select(known, expression)):
            raise none_selected(f"-k {expression!r}", known, expression)
        if run is not None:
            failed = _failed(run, backend, name, each)
            cases = tuple(case for case in cases if case.id in failed)
            if not cases:
                named = "" if expression is None else f" of -k {expression!r}"
                raise UsageError(f"--of {run}: found no case{named} that failed there, expected one to ask about")
        found = list(ask(backend, name, cases, workers or cores(), timeout))
        if out is not None:
            write_file(out, as_lines(found).encode())
    for line in lines(found):
        click.echo(plain(line))
    raise SystemExit(WRONG if any(met.is_fault for met in found) else RIGHT)


def _failed(run: Path, backend: str, table: str, each: int | None) -> Collection[str]:
    """The cases that failed in a run: a folder or archive of it, or its results alone, compressed with xz."""
    from npu_assay.conformance.compare.drift_run import read_drift  # help starts without
    from npu_assay.conformance.findings.triage import causes_of, read, spread, triage

    found = read(run, backend, table) if run.suffix == ".xz" else read_drift(run)
    if each is None:
        return {entry.result.case for entry in found.found}
    return {case for _, cases in triage(found, causes_of(found)) for case in spread(cases, each)}
