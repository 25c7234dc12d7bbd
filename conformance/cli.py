"""The command `assay`. Only commands that run cases load torch."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

CERTIFIED, NOT_CERTIFIED, UNUSABLE = 0, 1, 2

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Assay whether an NPU backend does what its operator support table says.",
)

BackendArgument = Annotated[str, typer.Argument(metavar="BACKEND", help="An installed backend, or module:attribute.")]
TableOption = Annotated[
    str | None, typer.Option("--table", metavar="TABLE", help="A table's name or file; the backend's own if left out.")
]


def main() -> None:
    """The console script."""
    app()


@app.command("list")
def list_() -> None:
    """List the installed backends and the tables that ship with the suite."""
    from conformance.backends import registered
    from conformance.table import FOLDER, load_table

    with _usage_errors():
        typer.echo("backends")
        for name, point in registered().items():
            typer.echo(f"  {name:<16} {point.value}")
        typer.echo("tables")
        for path in sorted(FOLDER.glob("*.toml")):
            table = load_table(str(path))
            typer.echo(f"  {path.stem:<16} {len(table.rows)} operators, {table.source}")


@app.command()
def show(
    backend: BackendArgument,
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="A row of the table, e.g. aten.cat.default.")],
    table: TableOption = None,
) -> None:
    """Show one operator: its row, its constraints in words, and its cases."""
    from conformance.report.listing import operator_text

    with _usage_errors():
        typer.echo(operator_text(backend, operator, table))


@app.command()
def certify(
    backend: BackendArgument,
    expression: Annotated[
        str | None,
        typer.Option("-k", metavar="EXPR", help="Only cases whose id matches, as in pytest. Never certifies."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("-n", metavar="N", min=1, help="Worker processes; as many as cores if left out.")
    ] = None,
    table: TableOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where the results go; assay-BACKEND if left out.")
    ] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="A few cases per constraint. Never certifies.")] = False,
    waivers: Annotated[
        Path | None, typer.Option("--waivers", metavar="FILE", help="Known failures that someone answers for.")
    ] = None,
    dask: Annotated[
        str | None, typer.Option("--dask", metavar="ADDRESS", help="Run on the workers of this Dask scheduler.")
    ] = None,
) -> None:
    """Run the cases and write certificate, results and reports. Exit 0: certified, 1: not, 2: usage error."""
    from rich.console import Console

    from conformance.report.console import progress, summary

    console = Console()
    folder = out if out is not None else Path(f"assay-{backend.replace(':', '.')}")
    with _usage_errors():
        from conformance.assay import Request, assay
        from conformance.certificate import Selection
        from conformance.execution import dask as dask_pool
        from conformance.waivers import load_waivers

        request = Request(
            backend,
            table,
            Selection(expression, smoke),
            workers if workers is not None else cores(),
            folder,
            () if waivers is None else load_waivers(waivers),
            None if dask is None else dask_pool(dask),
        )
        try:
            with progress(console) as shown:
                report = assay(request, shown, _today)
        except KeyboardInterrupt:
            console.print(f"interrupted: {folder} holds the results so far and no certificate", highlight=False)
            raise typer.Exit(NOT_CERTIFIED) from None
    summary(console, report, folder)
    raise typer.Exit(CERTIFIED if report.certificate.certified else NOT_CERTIFIED)


@app.command()
def verify(folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that certify wrote.")]) -> None:
    """Derive the verdict of a folder again, from its results and its table."""
    from conformance.package import verify as verify_folder

    with _usage_errors():
        found = verify_folder(folder, _today())
    for note in found.notes:
        typer.echo(f"note: {note}")
    for problem in found.problems:
        typer.echo(f"problem: {problem}")
    if found.verdict is not None:
        counts = ", ".join(f"{count} {name}" for name, count in found.verdict.counts.items())
        typer.echo(counts)
        for objection in found.verdict.objections:
            typer.echo(f"because: {objection}")
    typer.echo(f"{folder}: {'certified' if found.certified else 'not certified'}")
    raise typer.Exit(CERTIFIED if found.certified else NOT_CERTIFIED)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


@contextmanager
def _usage_errors() -> Iterator[None]:
    """One line and exit code 2 for what the user can put right."""
    from conformance.backends import BackendSpecError
    from conformance.package import PackageError
    from conformance.selection import SelectionError
    from conformance.table import TableError
    from conformance.waivers import WaiverError

    try:
        yield
    except (BackendSpecError, PackageError, SelectionError, TableError, WaiverError) as error:
        _stop(str(error))


def _stop(message: str) -> NoReturn:
    typer.echo(f"assay: {message}", err=True)
    raise typer.Exit(UNUSABLE)


if __name__ == "__main__":
    main()
