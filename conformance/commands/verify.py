"""`assay verify`: the verdict of a run derived again, its cases run again, its signature checked."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from npu_assay.conformance.commands.shared import MOST, Seconds, cores, plain, usage_errors

if TYPE_CHECKING:
    from npu_assay.conformance.certificate import Certificate
    from npu_assay.conformance.contents import Contents
    from npu_assay.conformance.rerun import Rerun
    from npu_assay.conformance.verification import Verification

CERTIFIED, NOT_CERTIFIED = 0, 1
SHOWN = 20  # differing cases
ALL = 0  # cases to run again


class Cases(click.IntRange):
    """How many cases to run again: a number, or nothing for all."""

    def __init__(self) -> None:
        super().__init__(1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Also says what to do when the folder stands where the number is expected."""
        if value == ALL:  # as an option without a value gives it, never a text
            return ALL
        if not str(value).isdecimal():
            self.fail(f"found {value!r}, expected a number or nothing: assay verify DIR --rerun [N]", param, ctx)
        return super().convert(value, param, ctx)


@dataclass(frozen=True)
class Asked:
    """The options of a run of the cases again; None where one was left out."""

    cases: int | None
    seed: int | None
    draw: int | None
    backend: str | None
    table: str | None
    workers: int | None
    timeout: float | None
    memory: int | None
    out: Path | None

    def check(self) -> None:
        """Raise a usage error for an option that says how to run cases, when none is run."""
        from npu_assay.conformance.errors import UsageError

        given = {
            "--seed": self.seed,
            "--draw": self.draw,
            "--backend": self.backend,
            "--table": self.table,
            "-n": self.workers,
            "--timeout": self.timeout,
            "--memory": self.memory,
            "--out": self.out,
        }
        found = [name for name, value in given.items() if value is not None]
        if self.cases is None and found:
            raise UsageError(f"{found[0]} says how to run cases again, expected --rerun with it")


@click.command()
@click.argument("folder", metavar="DIR|ARCHIVE", type=click.Path(path_type=Path))
@click.option(
    "--rerun",
    "cases",
    metavar="[N]",
    type=Cases(),
    is_flag=False,
    flag_value=ALL,
    help="Run all cases again, or N of them, spread over the rows.",
)
@click.option(
    "--seed",
    metavar="SEED",
    type=click.IntRange(min=0),
    help="Of the random numbers; another than the certificate's compares by verdict, not to the byte.",
)
@click.option("--draw", metavar="SEED", type=click.IntRange(min=0), help="Of which N cases; drawn if left out.")
@click.option("--backend", metavar="BACKEND", help="Run this backend; the one that the certificate names if left out.")
@click.option("--table", metavar="TABLE", help="The certificate must be of this table.")
@click.option("-n", "workers", metavar="N", type=click.IntRange(min=1), help="Processes; one per core if left out.")
@click.option("--timeout", metavar="SECONDS", type=Seconds(), help="Per case; the certificate's if left out.")
@click.option("--memory", metavar="MIB", type=click.IntRange(1, MOST), help="Per case; the certificate's if left out.")
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Write a record of the run, as JSON.")
def verify(
    folder: Path,
    cases: int | None,
    seed: int | None,
    draw: int | None,
    backend: str | None,
    table: str | None,
    workers: int | None,
    timeout: float | None,
    memory: int | None,
    out: Path | None,
) -> None:
    """Derive the verdict of a results folder, or of an archive of one, again: from its results and its table.

    --rerun also runs its cases again, and compares what they show with what is recorded. It loads the backend.

    Exit codes: 0 certified, and all that was asked for agrees; 1 not; 2 a usage or data error.
    """
    from npu_assay.conformance.contents import read_contents
    from npu_assay.conformance.verification import verify_contents

    asked = Asked(cases, seed, draw, backend, table, workers, timeout, memory, out)
    with usage_errors():
        asked.check()
        contents, today = read_contents(folder), datetime.datetime.now(datetime.UTC).date()
        found = verify_contents(contents, today)
        _print_found(found)
        again = None
        if cases is not None and found.certificate is not None and not found.problems:
            again = _again(contents, found.certificate, asked, today)
        elif cases is not None:
            click.echo("not run again: the record has problems")
    right = found.certified and (cases is None or (again is not None and again.reproduced))
    _print_verdict(folder, found, right, [] if again is None else [str(again)])
    raise SystemExit(CERTIFIED if right else NOT_CERTIFIED)


def _print_found(found: Verification) -> None:
    for note in found.notes:
        click.echo(f"note: {plain(note)}")
    for problem in found.problems:
        click.echo(f"problem: {plain(problem)}")


def _print_verdict(folder: Path, found: Verification, right: bool, trust: list[str]) -> None:
    """Counts, what speaks against the verdict, and a last line: the verdict, what is waived, who says so."""
    from npu_assay.conformance.certificate import TRUST, verdict_text

    if found.verdict is not None:
        click.echo(", ".join(f"{count} {name}" for name, count in found.verdict.counts.items()))
        for objection in found.verdict.objections:
            click.echo(f"because: {plain(objection)}")
    counts = {} if found.verdict is None else found.verdict.counts
    said = [] if found.problems else trust or [TRUST]
    click.echo(f"{folder}: {', '.join([verdict_text(right, counts), *said])}")


def _again(contents: Contents, certificate: Certificate, asked: Asked, today: datetime.date) -> Rerun:
    """Run cases again, print where they differ, and write the record."""
    from rich.console import Console

    from npu_assay.conformance.report.console import progress
    from npu_assay.conformance.rerun import Request, rerun
    from npu_assay.conformance.rerun_record import check_place, record_text, write_record

    if asked.out is not None:
        check_place(asked.out, contents)
    request = Request(
        asked.backend,
        asked.table,
        asked.cases if asked.cases != ALL else None,
        secrets.randbelow(10**6) if asked.draw is None else asked.draw,
        asked.seed,
        cores() if asked.workers is None else asked.workers,
        _limits(certificate, asked),
    )
    try:
        with progress(Console()) as shown:
            again = rerun(contents, certificate, request, shown)
    except KeyboardInterrupt:
        click.echo("interrupted: not all cases were run again")
        raise SystemExit(NOT_CERTIFIED) from None
    for line in _lines(again):
        click.echo(plain(line))
    if asked.out is not None:
        write_record(asked.out, record_text(contents, certificate, again, today))
    return again


def _limits(certificate: Certificate, asked: Asked) -> Any:
    """The certificate's limits, or what was given in their place."""
    from npu_assay.conformance.isolation.limits import Limits
    from npu_assay.conformance.rerun import recorded_limits

    if asked.timeout is not None and asked.memory is not None:
        return Limits(asked.timeout, asked.memory)
    stated = recorded_limits(certificate)
    return Limits(
        stated.seconds if asked.timeout is None else asked.timeout,
        stated.mebibytes if asked.memory is None else asked.memory,
    )


def _lines(again: Rerun) -> Iterator[str]:
    """What was run, and what differs."""
    yield f"run again: {again.backend}, {again.ran} of {again.known} cases, random numbers of seed {again.seed}"
    if again.draw is not None:
        yield f"drawn by seed {again.draw} (--draw {again.draw} takes the same cases)"
    yield from (f"note: {note}" for note in again.notes)
    yield from (f"problem: {problem}" for problem in again.problems)
    for difference in again.differences[:SHOWN]:
        yield f"differs: {difference.case}: {difference.found}"
    if len(again.differences) > SHOWN:
        yield f"... and {len(again.differences) - SHOWN} more cases that differ (--out FILE lists all)"
