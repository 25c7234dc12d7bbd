"""What the commands share: errors that the user can put right, and how many processes to start."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from npu_assay.conformance.ci.annotation import annotation, running
from npu_assay.conformance.commands.completion import backends, operators, tables
from npu_assay.conformance.common.escaped import plain as plain
from npu_assay.conformance.record.levels import LEVELS, NUMBERS
from npu_assay.files import check_place, write_whole

if TYPE_CHECKING:
    from npu_assay.conformance.devices.place import Place

_F = TypeVar("_F", bound=Callable[..., Any])
UNUSABLE = 2
WAITING = 16  # processes that wait for a device
LONGEST = 10.0**8  # seconds: three years
MOST = 2**30  # mebibytes: a pebibyte, which the system's limits can still count in bytes


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def today() -> datetime.date:
    """The date of a run, in UTC."""
    return datetime.datetime.now(datetime.UTC).date()


class Seconds(click.FloatRange):
    """How long something may take: more than nothing, and no longer than the system's clocks can wait."""

    def __init__(self) -> None:
        super().__init__(0, LONGEST, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Also refuses what is not a number, which is neither too much nor too little."""
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds


class Output(click.Path):
    """The place of a file that a command writes, or of a folder.

    What cannot be written there is one error before the work begins; folders that are missing are made after it.
    """

    def __init__(self, is_folder: bool = False) -> None:
        super().__init__()
        self.is_folder = is_folder

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        try:
            check_place(path, self.is_folder)
        except OSError as error:
            unwritable(path, error)
        return path


def unwritable(path: Path, error: OSError) -> NoReturn:
    """Say that a file or folder cannot be written, and why; exit code 2."""
    refuse(f"{path}: cannot be written: {error.strerror or error}")


def refuse(text: str) -> NoReturn:
    """Say in one line what the user can put right, under GitHub Actions as an annotation, too; exit code 2."""
    annotate(plain(text))
    click.echo(f"assay: {plain(text)}", err=True)
    raise SystemExit(UNUSABLE) from None


def annotate(text: str) -> None:
    """The annotation of an error under GitHub Actions; on stderr, as stdout may be a file such as the job's summary."""
    if running(os.environ):
        click.echo(annotation("error", "assay", text), err=True)


def processes(workers: int | None, at: Place) -> int:
    """How many processes to start: as asked, or one for each core; more where they wait for a device."""
    if workers is not None:
        return workers
    return WAITING if at.device else cores()


backend_argument = click.argument("backend", shell_complete=backends)
table_option = click.option(
    "--table",
    metavar="TABLE",
    shell_complete=tables,
    help="Use the table of this name or file; the backend's own if left out.",
)
workers_option = click.option(
    "-n", "workers", metavar="N", type=click.IntRange(min=1), help="Run in N processes; one per core if left out."
)
backends_option = click.option(
    "--backend",
    "specs",
    metavar="BACKEND",
    shell_complete=backends,
    multiple=True,
    help="Look for delegates of this backend, too, besides installed ones. Can be given again.",
)


def timeout(told: str, default: float = 120.0) -> Callable[[_F], _F]:
    """The option --timeout, told so."""
    kind = Seconds()
    return click.option("--timeout", metavar="SECONDS", type=kind, default=default, show_default=True, help=told)


def memory(told: str) -> Callable[[_F], _F]:
    """The option --memory, told so."""
    kind = click.IntRange(1, MOST)
    return click.option("--memory", metavar="MIB", type=kind, default=4096, show_default=True, help=told)


def level(told: str) -> Callable[[_F], _F]:
    """The option --level, told so."""
    kind = click.Choice(LEVELS)
    return click.option("--level", metavar="LEVEL", type=kind, default=NUMBERS, show_default=True, help=told)


def seed_option(told: str) -> Callable[[_F], _F]:
    """The option --seed, told so."""
    kind = click.IntRange(min=0)
    return click.option("--seed", metavar="SEED", type=kind, default=0, show_default=True, help=told)


def expression(told: str, complete: Callable[..., Any] = operators) -> Callable[[_F], _F]:
    """The option -k, told so."""
    return click.option("-k", "expression", metavar="EXPR", shell_complete=complete, help=told)


def out(told: str, metavar: str = "FILE") -> Callable[[_F], _F]:
    """The option --out, told so, for a file or for a folder."""
    return click.option("--out", metavar=metavar, type=Output(is_folder=metavar == "DIR"), help=told)


def placed(command: _F) -> _F:
    """The options that say where programs run: --python, --device and its limits."""
    options = (
        click.option("--python", metavar="PATH", help="Run programs in this interpreter, not here (docs/devices.md)."),
        click.option("--device", metavar="COMMAND", help="Run programs by a command (docs/devices.md)."),
        click.option("--call-timeout", metavar="SECONDS", type=Seconds(), help="Seconds for a call of --device: 60."),
        click.option("--case-timeout", metavar="SECONDS", type=Seconds(), help="Seconds for a call with one case: 30."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def place(python: str | None, device: str | None, call_timeout: float | None, case_timeout: float | None) -> Place:
    """Where programs run. Raises UsageError for options that do not fit."""
    from npu_assay.conformance.devices.place import HERE, Place  # help starts without

    given = [name for name, each in (("--call-timeout", call_timeout), ("--case-timeout", case_timeout)) if each]
    if given and not device:
        refuse(f"{given[0]} is a limit of --device, expected --device with it")
    found = Place(
        python or "",
        device or "",
        HERE.call if call_timeout is None else call_timeout,
        HERE.case if case_timeout is None else case_timeout,
    )
    found.check()
    return found


timeout_option = timeout("Seconds of processor time for the model's process.")
memory_option = memory("Mebibytes for the model's process.")


@contextmanager
def usage_errors() -> Iterator[None]:
    """One line and exit code 2 for what the user can put right."""
    from npu_assay.conformance.common.errors import UsageError  # help starts without
    from npu_assay.conformance.table import TableError
    from npu_assay.reference.outside import OutsideError

    try:
        yield
    except (UsageError, TableError, OutsideError) as error:
        refuse(str(error))


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; where that is not possible, say so and end with 2."""
    try:
        write_whole(path, content)
    except OSError as error:
        unwritable(path, error)
