"""`assay certify`: the cases run, and what they showed written down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from npu_assay.conformance.commands.early_checks import tell_mistakes
from npu_assay.conformance.commands.shards import ShardOption, default_folder
from npu_assay.conformance.commands.shared import (
    Output,
    backend_argument,
    expression,
    level,
    memory,
    out,
    place,
    placed,
    plain,
    processes,
    refuse,
    seed_option,
    table_option,
    timeout,
    today,
    usage_errors,
    workers_option,
)
from npu_assay.conformance.programs.variation_names import CHOSEN, HOW

if TYPE_CHECKING:
    from npu_assay.conformance.record.shard import Shard
    from npu_assay.conformance.run.execution import Pool

INTERRUPTED = 1


@click.command()
@backend_argument
@expression("Run only cases of an operator (cat), or whose id matches. Never certifies.")
@workers_option
@table_option
@out("Write the record to this folder; assay-BACKEND[-part] if left out.", "DIR")
@click.option("--smoke", is_flag=True, help="Run a few cases of every operator and constraint. Never certifies.")
@click.option(
    "--waivers",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Do not count the known failures that this file lists (docs/reading-a-certificate.md).",
)
@click.option("--scheduler", metavar="ADDRESS", help="Run on the workers of a Dask scheduler, like tls://host:8786.")
@click.option("--resume", is_flag=True, help="Go on with an interrupted run of the same cases in the same folder.")
@click.option(
    "--since",
    metavar="RECORD",
    type=click.Path(path_type=Path),
    help="Keep the answers of this run's record that nothing has changed since, and ask the others.",
)
@timeout("Seconds of processor time per case.")
@memory("Mebibytes per case.")
@click.option("--fuzz", metavar="N", type=click.IntRange(min=1), help="Also run N random programs (docs/fuzz.md).")
@seed_option("Draw all random numbers from this seed.")
@click.option(
    "--variations",
    metavar="HOW",
    type=click.Choice(HOW),
    default=CHOSEN,
    show_default=True,
    help="Also ask variations of plain programs: none, chosen or all ones (docs/variations.md).",
)
@level("Judge up to this level, and certify it: tags, compiles, runs or numbers.")
@click.option(
    "--shard",
    metavar="I/N",
    type=ShardOption(),
    help="Run part I of N of the cases, like 2/3; 'assay merge' makes one record of the parts. Never certifies.",
)
@click.option(
    "--junit",
    metavar="FILE",
    type=Output(),
    help="Also write JUnit with times and host, which the record's own junit.xml does not have.",
)
@placed
@click.option(
    "--debug",
    is_flag=True,
    help="Run one case in this process, with tracebacks, and a debugger on a terminal. Leaves no record.",
)
@click.option(
    "--with-vela",
    is_flag=True,
    help="Compile every delegate with Arm's Vela, too, and fail where it cannot (needs ethos-u-vela).",
)
def certify(
    backend: str,
    expression: str | None,
    workers: int | None,
    table: str | None,
    out: Path | None,
    smoke: bool,
    waivers: Path | None,
    scheduler: str | None,
    with_vela: bool,
    resume: bool,
    since: Path | None,
    timeout: float,
    memory: int,
    fuzz: int | None,
    seed: int,
    variations: str,
    level: str,
    shard: Shard | None,
    junit: Path | None,
    debug: bool,
    **where: Any,
) -> None:
    """Run the cases; write certificate, results and reports.

    Only a run of all cases certifies, and only what its level judges. Exit codes: 0 all that was asked for passes,
    1 something fails, 2 usage or data error.
    """
    if debug:
        tell_mistakes(backend, table, expression)
        from npu_assay.conformance.debug.lazy_dynamo import postpone  # help starts without

        postpone()  # before anything that makes fake tensors is loaded
        from npu_assay.conformance.commands.debugging import check_alone, debug_one

        others = {"--fuzz": fuzz, "--junit": junit, "--out": out, "--resume": resume or None, "--scheduler": scheduler}
        placed_at = {f"--{name.replace('_', '-')}": value or None for name, value in where.items()}
        check_alone(others | placed_at | {"--since": since, "--shard": shard, "--waivers": waivers})
        debug_one(backend, table, (expression, smoke, seed), level, ("vela",) if with_vela else ())
    tell_mistakes(backend, table, expression, waivers)
    from npu_assay.conformance.isolation import base_process  # help starts without

    base_process.warm()  # before anything is loaded that the process of a backend must not have
    from rich.console import Console

    from npu_assay.conformance.commands.finish import conclude
    from npu_assay.conformance.report.console import progress

    console = Console(emoji=False)
    folder = out if out is not None else default_folder(backend, level, smoke or expression is not None, shard)
    with usage_errors():
        from npu_assay.conformance.isolation.limits import Limits  # help starts without
        from npu_assay.conformance.record.certificate import Selection
        from npu_assay.conformance.record.waivers import load_waivers
        from npu_assay.conformance.run.session import Request, assay

        at = place(**where)
        if at.told and scheduler is not None:
            refuse("--device: found --scheduler, too, whose workers have no device")
        request = Request(
            backend,
            table,
            Selection(expression, smoke, seed, shard, variations),
            processes(workers, at),
            folder,
            () if waivers is None else load_waivers(waivers),
            None if scheduler is None else _cluster(scheduler),
            ("vela",) if with_vela else (),
            Limits(timeout, memory),
            resume,
            0 if fuzz is None else fuzz,
            level=level,
            junit=junit,
            place=at,
            since=since,
        )
        try:
            with progress(console) as shown:
                report = assay(request, shown, today)
        except KeyboardInterrupt:
            console.print(
                f"interrupted: {folder} holds the results so far and no certificate; --resume goes on", highlight=False
            )
            raise SystemExit(INTERRUPTED) from None
    conclude(console, report, folder, waivers=waivers)


def _cluster(address: str) -> Pool:
    from npu_assay.conformance.run.cluster import Scheduler, is_exposed  # help starts without

    if is_exposed(address):
        text = "whoever reaches it runs code as the workers' user: tls:// keeps others out (docs/many-machines.md)"
        click.echo(f"warning: --scheduler {plain(address)}: plain tcp to another machine; {text}", err=True)
    return Scheduler(address)
