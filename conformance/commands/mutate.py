"""`assay mutate`: inject a backend's faults one at a time, and see whether the suite notices."""

from __future__ import annotations

import json
import os
import time

import click

from npu_assay.conformance.commands.early_checks import tell_mistakes
from npu_assay.conformance.commands.shared import (
    backend_argument,
    cores,
    table_option,
    timeout,
    usage_errors,
    workers_option,
)

NOTICED, SURVIVED = 0, 1


@click.command()
@backend_argument
@click.option(
    "--faults",
    "catalogue",
    metavar="MODULE:ATTRIBUTE",
    help="Inject the faults of this catalogue; of the backend's own if left out.",
)
@click.option(
    "-k", "expression", metavar="EXPR", help="Inject only faults whose id (stage/kind/name) matches, as in pytest."
)
@workers_option
@table_option
@click.option(
    "--cases",
    "limit",
    metavar="N",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="Try a fault on N cases besides those that the catalogue names.",
)
@timeout("Seconds per fault; one that takes longer hangs, and is noticed.", 600.0)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every fault.")
def mutate(
    backend: str,
    catalogue: str | None,
    expression: str | None,
    workers: int | None,
    table: str | None,
    limit: int,
    timeout: float,
    as_json: bool,
) -> None:
    """Break BACKEND in every way that its catalogue of faults lists, and see what the suite notices.

    Exit codes: 0 all partitioner faults and 98 % of the others are noticed, 1 fewer are, 2 usage error.
    """
    tell_mistakes(backend, table)
    from rich.console import Console  # slow to load

    with usage_errors():
        from npu_assay.conformance.backend.loading import load_whole  # loads torch
        from npu_assay.conformance.isolation.imports import unchanged
        from npu_assay.conformance.mutation.catalogue import catalogue_of, load_faults, selected
        from npu_assay.conformance.mutation.report import Mutation
        from npu_assay.conformance.mutation.report import as_json as data_of
        from npu_assay.conformance.mutation.run import Job, run_faults
        from npu_assay.conformance.mutation.text import print_report

        with unchanged(backend):
            right = load_whole(backend)
        job = Job(backend, table or right.table, catalogue_of(right, catalogue), limit, timeout)
        faults = [fault.id for fault in selected(load_faults(backend, job.catalogue), expression)]
        start = time.perf_counter()
        found = {one.id: one for one in run_faults(job, faults, workers or cores())}
        mutation = Mutation(
            right.name, os.path.basename(job.table), time.perf_counter() - start, tuple(found[name] for name in faults)
        )
    if as_json:
        click.echo(json.dumps(data_of(mutation), indent=2))
    else:
        print_report(Console(emoji=False), mutation)
    raise SystemExit(NOTICED if mutation.holds else SURVIVED)
