"""`assay certify --debug` and `assay show BACKEND CASE`: one case in this process."""

from __future__ import annotations

import pdb
import sys
import traceback
from collections.abc import Mapping
from typing import NoReturn

import click

from npu_assay.conformance.commands.shared import plain, usage_errors
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.debug.one import Debugged, Watching, debug
from npu_assay.conformance.debug.text import lines
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.results import NOT_PASSED

PASSED, FAILED = 0, 1


def check_alone(others: Mapping[str, object]) -> None:
    """Refuse options of a run that leaves a record; those that were not given are None."""
    with usage_errors():
        for name, given in others.items():
            if given is not None:
                raise UsageError(f"--debug: found {name}, expected none: one case runs here, and leaves no record")


def debug_one(
    backend: str, table: str | None, chosen: tuple[str | None, bool, int], level: str, tools: tuple[str, ...]
) -> NoReturn:
    """Run the chosen case, print its stages, errors with their tracebacks, and all that is known of it; then exit.

    On a terminal an error leads into the debugger, where it was raised.
    """
    expression, smoke, seed = chosen
    with usage_errors():
        found = debug(backend, table, Selection(expression, smoke, seed), level, tools, Watching(_stage, _caught))
    _print(found)
    click.echo("in this process, without isolation: no record and no certificate")
    raise SystemExit(FAILED if found.result.status in NOT_PASSED else PASSED)


def show_case(backend: str, table: str | None, case: str) -> None:
    """Print a case: its program and both answers."""
    with usage_errors():
        found = debug(backend, table, Selection(case), None, (), Watching(lambda stage: None, lambda error: None))
    _print(found)


def _print(found: Debugged) -> None:
    for line in lines(found):
        click.echo(plain(line))


def _stage(stage: str) -> None:
    click.echo(f"stage: {stage}", err=True)


def _caught(error: BaseException) -> None:
    """Show an error where it was caught."""
    for line in "".join(traceback.format_exception(error)).splitlines():
        click.echo(plain(line), err=True)
    if sys.stdin.isatty() and error.__traceback__ is not None:
        pdb.post_mortem(error.__traceback__)
