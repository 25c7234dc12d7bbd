"""The part of `assay verify` that runs cases again."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from npu_assay.conformance.commands.shared import plain, processes
from npu_assay.conformance.commands.verify_options import ALL, Asked
from npu_assay.conformance.isolation.limits import Limits

if TYPE_CHECKING:
    from npu_assay.conformance.record.certificate import Certificate
    from npu_assay.conformance.record.names import Contents
    from npu_assay.conformance.verify.rerun import Rerun

INTERRUPTED = 1
SHOWN = 20  # differing cases
DRAW_BITS = 53  # of a seed that nobody can have guessed, which JSON's readers keep exactly


def run_again(contents: Contents, certificate: Certificate, asked: Asked, today: datetime.date) -> Rerun:
    """Run cases again, print where they differ, and write the record."""
    from rich.console import Console  # loads torch

    from npu_assay.conformance.devices.place import HERE
    from npu_assay.conformance.report.console import progress
    from npu_assay.conformance.verify.rerun import Request, rerun
    from npu_assay.conformance.verify.rerun_record import check_place, record_text, write_record

    if asked.out is not None:
        check_place(asked.out, contents)
    at = HERE if asked.place is None else asked.place
    request = Request(
        asked.backend,
        asked.cases if asked.cases != ALL else None,
        secrets.randbits(DRAW_BITS) if asked.draw is None else asked.draw,
        asked.seed,
        processes(asked.workers, at),
        _limits(certificate, asked),
        at,
    )
    try:
        with progress(Console(emoji=False)) as shown:
            again = rerun(contents, certificate, request, shown)
    except KeyboardInterrupt:
        click.echo("interrupted: not all cases were run again")
        raise SystemExit(INTERRUPTED) from None
    for line in _lines(again):
        click.echo(plain(line))
    if asked.out is not None:
        write_record(asked.out, record_text(contents, certificate, again, today))
    return again


def _limits(certificate: Certificate, asked: Asked) -> Any:
    """The certificate's limits, or what was given in their place."""
    from npu_assay.conformance.verify.rerun import recorded_limits  # loads torch

    if asked.timeout is not None and asked.memory is not None:
        return Limits(asked.timeout, asked.memory)
    stated = recorded_limits(certificate)
    return Limits(
        stated.seconds if asked.timeout is None else asked.timeout,
        stated.mebibytes if asked.memory is None else asked.memory,
    )


def _odds(again: Rerun) -> str:
    """A sentence on how often a draw of so many cases shows nothing of a record that was changed."""
    from npu_assay.conformance.verify.rerun import missed  # loads torch

    hundredth = -(-again.known // 100)
    one, more = (f"{100 * missed(again.known, again.ran, count):.1f}" for count in (1, hundredth))
    return f"such a draw misses one changed case {one} times in 100, all of {hundredth} changed ones {more} times"


def _lines(again: Rerun) -> Iterator[str]:
    """What was run, and what differs."""
    yield f"run again: {again.backend}, {again.ran} of {again.known} cases, random numbers of seed {again.seed}"
    if again.draw is not None:
        yield f"drawn by seed {again.draw} (--draw {again.draw} takes the same cases)"
        yield _odds(again)
    yield from (f"note: {note}" for note in again.notes)
    yield from (f"problem: {problem}" for problem in again.problems)
    for difference in again.differences[:SHOWN]:
        yield f"differs: {difference.case}: {difference.found}"
    if len(again.differences) > SHOWN:
        yield f"... and {len(again.differences) - SHOWN} more cases that differ (--out FILE lists all)"
