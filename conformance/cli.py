"""The command `assay`. Only commands that run cases load torch."""

from __future__ import annotations

import atexit
import gc
from pathlib import Path
from typing import TYPE_CHECKING

import click

from npu_assay.conformance.commands.attest import attest
from npu_assay.conformance.commands.beforehand import tell_mistakes
from npu_assay.conformance.commands.board import board
from npu_assay.conformance.commands.completion import backends, operators
from npu_assay.conformance.commands.diff import diff
from npu_assay.conformance.commands.drift import drift
from npu_assay.conformance.commands.explain import explain
from npu_assay.conformance.commands.export import export
from npu_assay.conformance.commands.judge import judge
from npu_assay.conformance.commands.merge import merge
from npu_assay.conformance.commands.mutate import mutate
from npu_assay.conformance.commands.new import new
from npu_assay.conformance.commands.offer import offer
from npu_assay.conformance.commands.package import package
from npu_assay.conformance.commands.reach import reach
from npu_assay.conformance.commands.reduce import reduce
from npu_assay.conformance.commands.report import report as report_command
from npu_assay.conformance.commands.shards import ShardOption, default_folder
from npu_assay.conformance.commands.shared import (
    MOST,
    Output,
    Seconds,
    backend_argument,
    cores,
    memory_option,
    plain,
    table_option,
    timeout_option,
    today,
    usage_errors,
    workers_option,
)
from npu_assay.conformance.commands.table import table as table_group
from npu_assay.conformance.commands.told import FIRST, Commands, epilog
from npu_assay.conformance.commands.verify import verify
from npu_assay.conformance.programs.variation_names import CHOSEN, HOW
from npu_assay.conformance.record.levels import LEVELS, NUMBERS

if TYPE_CHECKING:
    from npu_assay.conformance.record.levels import Shard
    from npu_assay.conformance.run.execution import Pool

INTERRUPTED = 1


@click.group("main", cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=epilog(FIRST))
@click.version_option(package_name="npu-assay", message="%(package)s %(version)s")
def main() -> None:
    """Assay whether an NPU backend does what its operator support table says.

    BACKEND is the name of an installed backend, or module:attribute.
    """
    atexit.register(gc.freeze)  # the process ends without looking for circles once more, in all of torch's modules


@main.command("list")
def list_() -> None:
    """List the installed backends and the tables that ship with the suite.

    Exit codes: 0 listed, 2 usage or data error.
    """
    from npu_assay.conformance.backend.loading import registered
    from npu_assay.conformance.table import FOLDER, load_table

    with usage_errors():
        click.echo("backends")
        for name, point in registered().items():
            click.echo(f"  {name:<16} {point.value}")
        click.echo("tables")
        for path in sorted(FOLDER.glob("*.toml")):
            table = load_table(str(path))
            click.echo(f"  {path.stem:<16} {len(table.rows)} operators, {table.source}")


@main.command()
@backend_argument
@click.argument("operator", required=False, shell_complete=operators)
@table_option
def show(backend: str, operator: str | None, table: str | None) -> None:
    """Show one OPERATOR of a table: its row, its constraints in words, its cases. Without one, list them all.

    OPERATOR is a row's name, or a short one: cat, softmax, conv2d. Given a case's whole id instead, show its program,
    where each operator runs, and the backend's outputs beside what is expected; the case runs in this process. Exit
    codes: 0 shown, whatever the outputs are, 2 usage or data error.
    """
    if operator is not None and "/" in operator:
        tell_mistakes(backend, table, operator)
        _postpone()
        from npu_assay.conformance.commands.debugging import show_case

        show_case(backend, table, operator)
        return
    from npu_assay.conformance.report.listing import table_text

    with usage_errors():
        click.echo(table_text(backend, operator, table))


@main.command()
@backend_argument
@click.option(
    "-k",
    "expression",
    metavar="EXPR",
    shell_complete=operators,
    help="Run only cases of an operator (cat), or whose id matches. Never certifies.",
)
@workers_option
@table_option
@click.option(
    "--out",
    metavar="DIR",
    type=Output(is_folder=True),
    help="Write the record to this folder; assay-BACKEND[-part] if left out.",
)
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
    "--timeout",
    metavar="SECONDS",
    type=Seconds(),
    default=120.0,
    show_default=True,
    help="Seconds of processor time per case.",
)
@click.option(
    "--memory", metavar="MIB", type=click.IntRange(1, MOST), default=4096, show_default=True, help="Mebibytes per case."
)
@click.option("--fuzz", metavar="N", type=click.IntRange(min=1), help="Also run N random programs (docs/fuzz.md).")
@click.option(
    "--seed",
    metavar="SEED",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Draw all random numbers from this seed.",
)
@click.option(
    "--variations",
    metavar="HOW",
    type=click.Choice(HOW),
    default=CHOSEN,
    show_default=True,
    help="Also ask variations of plain programs: none, chosen or all ones (docs/variations.md).",
)
@click.option(
    "--level",
    metavar="LEVEL",
    type=click.Choice(LEVELS),
    default=NUMBERS,
    show_default=True,
    help="Judge up to this level, and certify it: tags, compiles, runs or numbers.",
)
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
    timeout: float,
    memory: int,
    fuzz: int | None,
    seed: int,
    variations: str,
    level: str,
    shard: Shard | None,
    junit: Path | None,
    debug: bool,
) -> None:
    """Run the cases; write certificate, results and reports.

    Only a run of all cases certifies, and only what its level judges. Exit codes: 0 all that was asked for passes,
    1 something fails, 2 usage or data error.
    """
    if debug:
        tell_mistakes(backend, table, expression)
        _postpone()
        from npu_assay.conformance.commands.debugging import check_alone, debug_one

        others = {"--fuzz": fuzz, "--junit": junit, "--out": out, "--resume": resume or None, "--scheduler": scheduler}
        check_alone(others | {"--shard": shard, "--waivers": waivers})
        debug_one(backend, table, (expression, smoke, seed), level, ("vela",) if with_vela else ())
    tell_mistakes(backend, table, expression, waivers)
    from npu_assay.conformance.isolation import origin

    origin.warm()  # before anything is loaded that the process of a backend must not have
    from rich.console import Console

    from npu_assay.conformance.commands.concluding import conclude
    from npu_assay.conformance.report.console import progress

    console = Console(emoji=False)
    folder = out if out is not None else default_folder(backend, level, smoke or expression is not None, shard)
    with usage_errors():
        from npu_assay.conformance.isolation.limits import Limits
        from npu_assay.conformance.record.certificate import Selection
        from npu_assay.conformance.record.waivers import load_waivers
        from npu_assay.conformance.run.session import Request, assay

        request = Request(
            backend,
            table,
            Selection(expression, smoke, seed, shard, variations),
            workers if workers is not None else cores(),
            folder,
            () if waivers is None else load_waivers(waivers),
            None if scheduler is None else _cluster(scheduler),
            ("vela",) if with_vela else (),
            Limits(timeout, memory),
            resume,
            0 if fuzz is None else fuzz,
            level=level,
            junit=junit,
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


def _postpone() -> None:
    """Before anything that makes fake tensors is loaded."""
    from npu_assay.conformance.debug.later import postpone

    postpone()


def _cluster(address: str) -> Pool:
    from npu_assay.conformance.run.cluster import Scheduler, is_exposed

    if is_exposed(address):
        text = "whoever reaches it runs code as the workers' user: tls:// keeps others out (docs/many-machines.md)"
        click.echo(f"warning: --scheduler {plain(address)}: plain tcp to another machine; {text}", err=True)
    return Scheduler(address)


backend_option = click.option(
    "--backend",
    "specs",
    metavar="BACKEND",
    shell_complete=backends,
    multiple=True,
    help="Look for delegates of this backend, too, besides installed ones. Can be given again.",
)


@main.command("inspect")
@click.argument("model", type=click.Path(path_type=Path))
@backend_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@timeout_option
@memory_option
def inspect_(model: Path, specs: tuple[str, ...], as_json: bool, timeout: float, memory: int) -> None:
    """Show what a .pte MODEL holds: methods, operators, delegates, memory, sizes.

    Exit codes: 0 shown, 2 usage or data error.
    """
    import json

    from rich.console import Console

    with usage_errors():
        from npu_assay.conformance.isolation.limits import Limits
        from npu_assay.conformance.pte.summary import summary_of
        from npu_assay.conformance.pte.text import WIDTH, print_summary

        summary = summary_of(model, specs, Limits(timeout, memory))
    if as_json:
        click.echo(json.dumps(summary, indent=2))
    else:
        print_summary(Console(width=WIDTH, emoji=False), summary)


@main.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--inputs",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Read an .npy file, or an .npz file with several inputs in order. Can be given again.",
)
@click.option(
    "--random", "seed", metavar="SEED", type=click.IntRange(min=0), help="Draw random inputs from this seed instead."
)
@click.option("--method", default="forward", show_default=True, help="Run this method.")
@click.option("--out", metavar="FILE", type=Output(), help="Write the outputs to this .npz file.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@backend_option
@timeout_option
@memory_option
def run(
    model: Path,
    inputs: tuple[Path, ...],
    seed: int | None,
    method: str,
    out: Path | None,
    force: bool,
    specs: tuple[str, ...],
    timeout: float,
    memory: int,
) -> None:
    """Run a method of a .pte MODEL, delegates on the runtimes of their backends.

    Exit codes: 0 there are outputs, 2 usage or data error.
    """
    from rich.console import Console

    with usage_errors():
        from npu_assay.conformance.isolation.limits import Limits
        from npu_assay.conformance.pte.asked import Request
        from npu_assay.conformance.pte.run import rows
        from npu_assay.conformance.pte.run import run as run_model
        from npu_assay.conformance.pte.text import WIDTH, print_table

        outputs = run_model(Request(model, inputs, method, seed, out, force, specs, Limits(timeout, memory)))
    print_table(Console(width=WIDTH, emoji=False), ("output", "type", "range: first elements"), rows(outputs))


main.add_command(attest)
main.add_command(board)
main.add_command(diff)
main.add_command(drift)
main.add_command(explain)
main.add_command(export)
main.add_command(judge)
main.add_command(merge)
main.add_command(mutate)
main.add_command(new)
main.add_command(offer)
main.add_command(package)
main.add_command(reach)
main.add_command(reduce)
main.add_command(report_command)
main.add_command(table_group)
main.add_command(verify)


if __name__ == "__main__":
    main()
